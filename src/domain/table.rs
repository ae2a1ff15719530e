//! A table as it is given away: columns with their meaning, values column by column.

/// A table with its documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of its files, without ending: `cells`.
    pub name: String,
    /// What a row is, in a sentence.
    pub about: String,
    /// The columns, in order; all have the same length.
    pub columns: Vec<TableColumn>,
}

impl Table {
    /// How many rows it has.
    #[must_use]
    pub fn height(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its name; unit and statistic last.
    pub name: &'static str,
    /// What a value means, with its unit, and what it means that there is none.
    pub meaning: &'static str,
    /// The values.
    pub values: Values,
}

/// The values of a column; a value that does not exist is `None`, never zero.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Text in UTF-8.
    Text(Vec<Option<String>>),
    /// Floating-point numbers.
    Real(Vec<Option<f64>>),
    /// Whole numbers from zero on.
    Count(Vec<Option<u64>>),
    /// Yes or no.
    Truth(Vec<Option<bool>>),
}

impl Values {
    /// How many there are, those that do not exist included.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Count(values) => values.len(),
            Self::Truth(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of the type, for people who read the files.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Real(_) => "double",
            Self::Count(_) => "uint64",
            Self::Truth(_) => "boolean",
        }
    }
}
