//! A slowdown of known size that is planted in a server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a server wastes each time it receives something from its client. A client's statement of up to 8 KiB is
/// received once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Brake {
    /// Time on the CPU, in nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds(u64),
    /// Rounds of an empty loop, [`Brake::INSTRUCTIONS_PER_LOOP`] instructions each.
    #[serde(rename = "loops")]
    Loops(u64),
}

impl Brake {
    /// Instructions of one round on x86-64: a decrement and a jump.
    pub const INSTRUCTIONS_PER_LOOP: u64 = 2;
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nanoseconds(ns) => write!(f, "{ns}ns"),
            Self::Loops(loops) => write!(f, "{loops}loops"),
        }
    }
}

impl FromStr for Brake {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| digits.parse::<u64>().ok().filter(|number| (1..=1_000_000_000).contains(number));
        let brake = match (text.strip_suffix("ns"), text.strip_suffix("loops")) {
            (Some(digits), _) => number(digits).map(Self::Nanoseconds),
            (_, Some(digits)) => number(digits).map(Self::Loops),
            _ => None,
        };
        brake.ok_or_else(|| format!("'{text}' is no brake: write a number with ns or loops, such as 400ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brakes_print_as_they_are_written() {
        for text in ["400ns", "1loops"] {
            assert_eq!(text.parse::<Brake>().unwrap().to_string(), text);
        }
        for text in ["", "400", "ns", "0ns", "-1ns", "4 ns", "1.5ns", "2000000000ns"] {
            assert!(text.parse::<Brake>().is_err(), "{text:?}");
        }
    }
}
