//! The grammar of statement parameters in suite files.
//!
//! ```text
//! param  := [name '='] atom ['*' count]
//! atom   := uniform | uniform(N) | zipfian(S) | middle | c | pad | $i OFFSET | name
//! OFFSET := ('+' | '-') (integer | range), repeated
//! count  := integer | range
//! ```

use std::ops::Range;

use crate::domain::Param;

/// Words that a kept value may not be called.
const RESERVED: [&str; 6] = ["uniform", "zipfian", "middle", "c", "pad", "range"];

/// The wire protocol counts parameters in 16 bits.
const MAX_PARAMS: usize = 65_535;

/// Why a parameter, or the statement it belongs to, makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamProblem {
    /// Not in the grammar, and not a kept name.
    #[error(
        "'{text}' is neither uniform, uniform(N), zipfian(S), middle, c, pad or $i+OFFSET nor a value kept earlier in the event"
    )]
    Unknown {
        /// The parameter.
        text: String,
    },
    /// `*range` or `+range` without a range.
    #[error("'{text}' uses the range, but the microbenchmark has no 'range = N'")]
    NoRange {
        /// The parameter.
        text: String,
    },
    /// `uniform*0`
    #[error("'{text}' needs a count of 1 or more after '*', or the word range")]
    Count {
        /// The parameter.
        text: String,
    },
    /// `uniform(0)`
    #[error("'{text}' needs an upper end of 1 or more")]
    UpperEnd {
        /// The parameter.
        text: String,
    },
    /// `zipfian(-1)`
    #[error("'{text}' needs an exponent above 0")]
    Exponent {
        /// The parameter.
        text: String,
    },
    /// `$3+1` as the second parameter.
    #[error("'{text}' refers to parameter {of}, which does not come before it")]
    Forward {
        /// The parameter.
        text: String,
        /// The number it refers to.
        of: u16,
    },
    /// `$1+1` where `$1` is a text.
    #[error("'{text}' refers to parameter {of}, which is a text")]
    OffsetOfText {
        /// The parameter.
        text: String,
        /// The number it refers to.
        of: u16,
    },
    /// Only single uniform draws can be kept.
    #[error("'{text}' cannot be kept under a name: only a single uniform value can")]
    Keep {
        /// The parameter.
        text: String,
    },
    /// A name that is a word of the grammar, empty, or taken.
    #[error(
        "'{name}' cannot name a kept value: use lower-case letters, digits and '_', no word of the grammar, once per event"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// More than the protocol can carry.
    #[error("{count} parameters are more than the {MAX_PARAMS} that one statement can carry")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// The names of values kept so far in one event; a name's index is its slot.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<String>);

/// The parameters of one statement, counts expanded.
#[derive(Debug)]
pub(super) struct Expanded {
    /// One entry per placeholder.
    pub(super) params: Vec<Param>,
    /// Indexes that came from parameters with a count, one range for each of those.
    pub(super) lists: Vec<Range<usize>>,
}

/// Expands the parameters of one statement.
pub(super) fn expand(texts: &[String], range: Option<u32>, slots: &mut Slots) -> Result<Expanded, ParamProblem> {
    let mut expanded = Expanded { params: Vec::new(), lists: Vec::new() };
    for text in texts {
        let start = expanded.params.len();
        let (atom, count) = match text.rsplit_once('*') {
            Some((atom, count)) => (atom.trim(), Some(parse_count(text, count.trim(), range)?)),
            None => (text.trim(), None),
        };
        let param = match atom.split_once('=') {
            Some((name, atom)) => keep(text, name.trim(), atom.trim(), count, slots)?,
            None => parse_atom(text, atom, range, &expanded.params, slots)?,
        };
        for index in 0..count.unwrap_or(1) {
            expanded.params.push(match param {
                Param::Middle { .. } => Param::Middle { index: index + 1 },
                other => other,
            });
        }
        if expanded.params.len() > MAX_PARAMS {
            return Err(ParamProblem::TooMany { count: expanded.params.len() });
        }
        if count.is_some() {
            expanded.lists.push(start..expanded.params.len());
        }
    }
    Ok(expanded)
}

/// The number after `*`.
fn parse_count(text: &str, count: &str, range: Option<u32>) -> Result<u32, ParamProblem> {
    let count = match count {
        "range" => range.ok_or_else(|| ParamProblem::NoRange { text: text.to_owned() })?,
        number => number.parse().unwrap_or(0),
    };
    match usize::try_from(count) {
        Ok(0) => Err(ParamProblem::Count { text: text.to_owned() }),
        Ok(count) if count > MAX_PARAMS => Err(ParamProblem::TooMany { count }),
        _ => Ok(count),
    }
}

/// `name=uniform` or `name=uniform(N)`: draws a value and gives it a slot.
fn keep(text: &str, name: &str, atom: &str, count: Option<u32>, slots: &mut Slots) -> Result<Param, ParamProblem> {
    let Some(Param::Uniform { over, .. }) = parse_draw(text, atom)? else {
        return Err(ParamProblem::Keep { text: text.to_owned() });
    };
    if count.is_some() {
        return Err(ParamProblem::Keep { text: text.to_owned() });
    }
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let taken = RESERVED.contains(&name) || slots.0.iter().any(|slot| slot == name);
    let slot = u8::try_from(slots.0.len());
    match slot {
        Ok(slot) if plain && !taken => {
            slots.0.push(name.to_owned());
            Ok(Param::Uniform { over, keep: Some(slot) })
        }
        _ => Err(ParamProblem::Name { name: name.to_owned() }),
    }
}

fn parse_atom(
    text: &str,
    atom: &str,
    range: Option<u32>,
    earlier: &[Param],
    slots: &Slots,
) -> Result<Param, ParamProblem> {
    if let Some(rest) = atom.strip_prefix('$') {
        return parse_offset(text, rest, range, earlier);
    }
    if let Some(draw) = parse_draw(text, atom)? {
        return Ok(draw);
    }
    let slot = slots.0.iter().position(|name| name == atom).and_then(|slot| u8::try_from(slot).ok());
    slot.map(|slot| Param::Kept { slot }).ok_or_else(|| ParamProblem::Unknown { text: text.to_owned() })
}

/// The atoms that need nothing but themselves; `None` for any other text.
fn parse_draw(text: &str, atom: &str) -> Result<Option<Param>, ParamProblem> {
    let argument = |word: &str| atom.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')');
    Ok(match atom {
        "uniform" => Some(Param::Uniform { over: None, keep: None }),
        "middle" => Some(Param::Middle { index: 1 }),
        "c" => Some(Param::C),
        "pad" => Some(Param::Pad),
        _ => {
            if let Some(argument) = argument("uniform") {
                let over = argument.parse().ok().filter(|over| (1..=i64::MAX.unsigned_abs()).contains(over));
                let over = over.ok_or_else(|| ParamProblem::UpperEnd { text: text.to_owned() })?;
                Some(Param::Uniform { over: Some(over), keep: None })
            } else if let Some(argument) = argument("zipfian") {
                let exponent = argument.parse().ok().filter(|exponent: &f64| exponent.is_finite() && *exponent > 0.0);
                let exponent = exponent.ok_or_else(|| ParamProblem::Exponent { text: text.to_owned() })?;
                Some(Param::Zipfian { exponent })
            } else {
                None
            }
        }
    })
}

/// What follows the `$` of `$1+range-1`.
fn parse_offset(text: &str, rest: &str, range: Option<u32>, earlier: &[Param]) -> Result<Param, ParamProblem> {
    let unknown = || ParamProblem::Unknown { text: text.to_owned() };
    let (of, mut rest) = rest.split_at(rest.find(['+', '-']).unwrap_or(rest.len()));
    let of: u16 = of.parse().map_err(|_| unknown())?;
    let mut plus = 0_i64;
    while !rest.is_empty() {
        let (sign, term) = rest.split_at(1);
        let end = term.find(['+', '-']).unwrap_or(term.len());
        let value = match &term[..end] {
            "range" => i64::from(range.ok_or_else(|| ParamProblem::NoRange { text: text.to_owned() })?),
            number => i64::from(number.parse::<u32>().map_err(|_| unknown())?),
        };
        plus += if sign == "-" { -value } else { value };
        rest = &term[end..];
    }
    let referred = usize::from(of).checked_sub(1).and_then(|index| earlier.get(index));
    match referred {
        None => Err(ParamProblem::Forward { text: text.to_owned(), of }),
        Some(param) if param.is_text() => Err(ParamProblem::OffsetOfText { text: text.to_owned(), of }),
        Some(_) => Ok(Param::Offset { of, plus }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFORM: Param = Param::Uniform { over: None, keep: None };

    fn params(texts: &[&str], range: Option<u32>) -> Result<Vec<Param>, ParamProblem> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        expand(&texts, range, &mut Slots::default()).map(|expanded| expanded.params)
    }

    #[test]
    fn every_form_is_understood() {
        let draws = params(&["uniform", "uniform(7)", "zipfian(0.8)", "c", "pad", "middle"], None).unwrap();
        let expected = [
            UNIFORM,
            Param::Uniform { over: Some(7), keep: None },
            Param::Zipfian { exponent: 0.8 },
            Param::C,
            Param::Pad,
            Param::Middle { index: 1 },
        ];
        assert_eq!(draws, expected);
        assert_eq!(params(&["uniform", "$1"], None).unwrap()[1], Param::Offset { of: 1, plus: 0 });
        assert_eq!(params(&["uniform", "$1+range-1"], Some(100)).unwrap()[1], Param::Offset { of: 1, plus: 99 });
        assert_eq!(params(&["uniform", "$1-2-range+5"], Some(10)).unwrap()[1], Param::Offset { of: 1, plus: -7 });
        assert_eq!(params(&["uniform*3"], None).unwrap(), [UNIFORM; 3]);
        assert_eq!(
            params(&["c", "middle*range"], Some(2)).unwrap(),
            [Param::C, Param::Middle { index: 1 }, Param::Middle { index: 2 }]
        );
        assert_eq!(
            params(&["x=uniform", "y = uniform(5)", "y", "x"], None).unwrap(),
            [
                Param::Uniform { over: None, keep: Some(0) },
                Param::Uniform { over: Some(5), keep: Some(1) },
                Param::Kept { slot: 1 },
                Param::Kept { slot: 0 },
            ]
        );
    }

    #[test]
    fn offsets_count_expanded_parameters() {
        assert_eq!(params(&["uniform*3", "$3+1"], None).unwrap()[3], Param::Offset { of: 3, plus: 1 });
        assert_eq!(
            params(&["uniform*3", "$5+1"], None).unwrap_err(),
            ParamProblem::Forward { text: "$5+1".to_owned(), of: 5 }
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "unifrom", "uniform(", "uniform()", "uniform(0)", "uniform(-1)", "zipfian", "zipfian(x)"] {
            assert!(params(&[text], Some(1)).is_err(), "{text:?}");
        }
        for text in ["zipfian(0)", "uniform*0", "uniform*", "uniform*x", "uniform*70000", "$", "$0+1", "$1+1", "x"] {
            assert!(params(&[text], Some(1)).is_err(), "{text:?}");
        }
        for text in ["x=c", "x=uniform*2", "c=uniform", "X=uniform", "=uniform", "1=uniform", "range=uniform"] {
            assert!(params(&[text], Some(1)).is_err(), "{text:?}");
        }
        assert!(params(&["x=uniform", "x=uniform"], None).is_err());
        assert!(params(&["c", "$1+1"], None).is_err());
        for text in ["$1+", "$1++1", "$1+1.5", "$1+x", "$1*range"] {
            assert!(params(&["uniform", text], None).is_err(), "{text:?}");
        }
        assert_eq!(
            params(&["uniform*range"], None).unwrap_err().to_string(),
            "'uniform*range' uses the range, but the microbenchmark has no 'range = N'"
        );
    }
}
