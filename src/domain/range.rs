//! The range grammar that every command shares: `9.0..18`, `14.10..16.2`, `9.0.23,10.23,16`.

use std::fmt;
use std::str::FromStr;

use super::{Major, Version};

/// One end of a range, or a term that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `16`: the major as a whole; where one version is wanted, its latest.
    Major(Major),
    /// `16.2`: just this version.
    Version(Version),
}

impl Bound {
    /// The major that the bound lies in.
    #[must_use]
    pub const fn major(self) -> Major {
        match self {
            Self::Major(major) => major,
            Self::Version(version) => version.major,
        }
    }
}

/// One comma-separated term of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// `16` or `16.2`
    One(Bound),
    /// `9.0..18`, both ends included.
    Span(Bound, Bound),
}

/// A parsed range, not yet looked up in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRange {
    /// The terms in the order they were written; never empty.
    pub terms: Vec<Term>,
}

/// A text that is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRangeError {
    /// Nothing between two commas, or nothing at all.
    #[error("the range '{range}' has an empty part")]
    EmptyTerm {
        /// The whole text.
        range: String,
    },
    /// A part that is neither a major nor a version.
    #[error("'{part}' in the range '{range}' is not a PostgreSQL version (write 16, 16.2, 9.6, 9.6.24 or A..B)")]
    NotAVersion {
        /// The offending part.
        part: String,
        /// The whole text.
        range: String,
    },
    /// The first end is newer than the second.
    #[error("the range '{from}..{to}' is empty: {from} is newer than {to} (did you mean {to}..{from}?)")]
    Reversed {
        /// First end.
        from: Bound,
        /// Second end.
        to: Bound,
    },
}

impl FromStr for Bound {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // A major is tried first: `9.6` has the two-number look of `17.6` but is a major.
        text.parse().map(Self::Major).or_else(|_| text.parse().map(Self::Version)).map_err(|_| ())
    }
}

impl FromStr for ReleaseRange {
    type Err = ParseRangeError;

    fn from_str(range: &str) -> Result<Self, Self::Err> {
        let bound = |part: &str| {
            part.parse().map_err(|()| ParseRangeError::NotAVersion { part: part.to_owned(), range: range.to_owned() })
        };
        let term = |part: &str| {
            let part = part.trim();
            if part.is_empty() {
                return Err(ParseRangeError::EmptyTerm { range: range.to_owned() });
            }
            let Some((from, to)) = part.split_once("..") else {
                return Ok(Term::One(bound(part)?));
            };
            let (from, to): (Bound, Bound) = (bound(from.trim())?, bound(to.trim())?);
            let reversed = match (from, to) {
                (Bound::Version(a), Bound::Version(b)) => a > b,
                _ => from.major() > to.major(),
            };
            if reversed {
                return Err(ParseRangeError::Reversed { from, to });
            }
            Ok(Term::Span(from, to))
        };
        let terms = range.split(',').map(term).collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Major(major) => major.fmt(f),
            Self::Version(version) => version.fmt(f),
        }
    }
}

impl fmt::Display for ReleaseRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match term {
                Term::One(bound) => write!(f, "{bound}")?,
                Term::Span(from, to) => write!(f, "{from}..{to}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_print_as_they_are_written() {
        for text in ["9.0..18", "14.10..16.2", "9.0.23,10.23,16", "16", "9.6", "16..16", "9.6..17.3,19rc1"] {
            assert_eq!(text.parse::<ReleaseRange>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_range_that_holds_nothing_is_refused_with_the_reason() {
        let message = |text: &str| text.parse::<ReleaseRange>().unwrap_err().to_string();
        assert_eq!(message("18..16"), "the range '18..16' is empty: 18 is newer than 16 (did you mean 16..18?)");
        assert!(message("16.4..16.2").contains("16.4 is newer than 16.2"));
        assert!(message("9.0,,16").contains("empty part"));
        assert!(message("").contains("empty part"));
        assert!(message("16..x").contains("'x'"));
        assert!(message("...").contains("not a PostgreSQL version"));
    }
}
