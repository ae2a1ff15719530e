//! PostgreSQL version numbers: a major (9.6, 17) and a full version (9.6.24, 17.10, 19rc1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A major version: two numbers up to 9.6, one from 10 on. Ordered by age (9.6 < 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Major {
    first: u16,
    /// Always 0 from 10 on.
    second: u16,
}

impl Major {
    /// The major `first.second` (9.x) or `first` (10 and later, where `second` must be 0).
    #[must_use]
    pub const fn new(first: u16, second: u16) -> Self {
        Self { first, second }
    }

    /// Whether this major has the two-number form of 9.6 and before.
    #[must_use]
    pub const fn is_two_part(self) -> bool {
        self.first < 10
    }

    /// The major as PostgreSQL's own number: 906 for 9.6, 1700 for 17. Handy for comparisons with
    /// literals: `major.number() >= 903`.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.first as u32 * 100 + self.second as u32
    }
}

/// Where in its major's life a version stands. The order is the order of publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Minor {
    /// `9.5alpha2`
    Alpha(u16),
    /// `19beta3`
    Beta(u16),
    /// `19rc1`
    Candidate(u16),
    /// `17.10`, `9.6.24`
    Release(u16),
}

/// One published version. Ordered by major, then by publication inside the major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// The major it belongs to.
    pub major: Major,
    /// Its place in the major.
    pub minor: Minor,
}

impl Version {
    /// The release `minor` of `major`.
    #[must_use]
    pub const fn release(major: Major, minor: u16) -> Self {
        Self { major, minor: Minor::Release(minor) }
    }

    /// Whether this is an alpha, beta or release candidate.
    #[must_use]
    pub const fn is_prerelease(self) -> bool {
        !matches!(self.minor, Minor::Release(_))
    }

    /// The version that a server reports as `server_version_num` (90023, 170010). Pre-releases
    /// report minor 0, so they cannot be told from x.0 by this number.
    #[must_use]
    pub const fn from_server_version_num(number: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "every part is below 10,000 but for a nonsensical number")]
        const fn part(number: u32) -> u16 {
            number as u16
        }
        if number >= 100_000 {
            Self::release(Major::new(part(number / 10_000), 0), part(number % 10_000))
        } else {
            Self::release(Major::new(part(number / 10_000), part(number / 100 % 100)), part(number % 100))
        }
    }
}

/// A text that is not a PostgreSQL version or major.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a PostgreSQL {wanted}")]
pub struct ParseVersionError {
    text: String,
    wanted: &'static str,
}

impl FromStr for Major {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseVersionError { text: text.to_owned(), wanted: "major version such as 9.6 or 17" };
        let (first, second) = match text.split_once('.') {
            Some((first, second)) => (number(first).ok_or_else(error)?, Some(number(second).ok_or_else(error)?)),
            None => (number(text).ok_or_else(error)?, None),
        };
        match (first, second) {
            (..=9, Some(second)) => Ok(Self::new(first, second)),
            (10.., None) => Ok(Self::new(first, 0)),
            _ => Err(error()),
        }
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseVersionError { text: text.to_owned(), wanted: "version such as 9.6.24, 17.10 or 19rc1" };
        for word in ["alpha", "beta", "rc"] {
            if let Some((major, rest)) = text.split_once(word) {
                let major = major.parse().map_err(|_| error())?;
                let number = number(rest).ok_or_else(error)?;
                let minor = match word {
                    "alpha" => Minor::Alpha(number),
                    "beta" => Minor::Beta(number),
                    _ => Minor::Candidate(number),
                };
                return Ok(Self { major, minor });
            }
        }
        let (major, minor) = text.rsplit_once('.').ok_or_else(error)?;
        let major = major.parse().map_err(|_| error())?;
        Ok(Self::release(major, number(minor).ok_or_else(error)?))
    }
}

/// Plain decimal digits only: `u16::from_str` would also take a leading plus sign.
fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_two_part() { write!(f, "{}.{}", self.first, self.second) } else { write!(f, "{}", self.first) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Minor::Alpha(n) => write!(f, "{}alpha{n}", self.major),
            Minor::Beta(n) => write!(f, "{}beta{n}", self.major),
            Minor::Candidate(n) => write!(f, "{}rc{n}", self.major),
            Minor::Release(n) => write!(f, "{}.{n}", self.major),
        }
    }
}

/// Versions and majors are stored as the text people write.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
serde_as_text!(Major);
serde_as_text!(Version);

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_print_as_they_are_written() {
        for text in ["9.0.0", "9.6.24", "10.0", "17.10", "19beta3", "19rc1", "9.5alpha2"] {
            assert_eq!(version(text).to_string(), text);
        }
    }

    #[test]
    fn order_is_the_order_of_publication() {
        let sorted =
            ["9.0.23", "9.6.0", "9.6.24", "10.0", "10.23", "18.9", "18.10", "19beta1", "19beta3", "19rc1", "19.0"];
        for pair in sorted.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "9", "17", "9.6", "10.1.2", "a.b", "17.", ".3", "17.x", "17.+1", "17.1 ", "99999.1"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
        for text in ["", "9", "10.1", "17.0", "x", "-1"] {
            assert!(text.parse::<Major>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn server_version_num_is_understood() {
        assert_eq!(Version::from_server_version_num(90_023), version("9.0.23"));
        assert_eq!(Version::from_server_version_num(90_624), version("9.6.24"));
        assert_eq!(Version::from_server_version_num(100_023), version("10.23"));
        assert_eq!(Version::from_server_version_num(180_004), version("18.4"));
    }
}
