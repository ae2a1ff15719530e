//! Numbers and times as readers see them: half-up rounding, thousands separators, units by column.

use jiff::Timestamp;
use rust_decimal::prelude::FromPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

/// What stands where there is no value.
pub(super) const NONE: &str = "–";

/// A number with a fixed count of decimals, rounded half up as a person would round the decimal
/// digits (1.005 becomes 1.01 although its binary neighbour is below), thousands separated by commas.
pub(super) fn fixed(value: f64, decimals: u32) -> String {
    let Some(exact) = Decimal::from_f64(value) else {
        return NONE.to_owned();
    };
    let rounded = exact.round_dp_with_strategy(decimals, RoundingStrategy::MidpointAwayFromZero);
    let text = format!("{:.*}", decimals as usize, rounded.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let sign = if rounded.is_sign_negative() && !rounded.is_zero() { "−" } else { "" };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", separate(whole))
}

/// A whole number with thousands separators.
pub(super) fn whole(value: u64) -> String {
    separate(&value.to_string())
}

fn separate(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with as many decimals as it needs, three at most: `0.5`, `30`.
pub(super) fn plain(value: f64) -> String {
    let text = fixed(value, 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Decimals that give the largest value of a column at least four digits, so that one column has
/// one count of decimals and the points stand below each other.
pub(super) fn decimals_for(values: impl IntoIterator<Item = f64>) -> u32 {
    match values.into_iter().fold(0.0, |largest: f64, value| largest.max(value.abs())) {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    }
}

/// A ratio rounded half up to two decimals, as a number: colours and lists go by what is shown.
pub(super) fn two_decimals(value: f64) -> f64 {
    Decimal::from_f64(value)
        .map(|exact| exact.round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero))
        .and_then(|rounded| rounded.try_into().ok())
        .unwrap_or(value)
}

/// A point in time to the minute, in UTC.
pub(super) fn time(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A count of bytes in the largest binary unit that leaves at least one whole.
pub(super) fn bytes(count: usize) -> String {
    const KIB: f64 = 1024.0;
    match count as f64 {
        count if count < KIB => format!("{} B", fixed(count, 0)),
        count if count < KIB * KIB => format!("{} KiB", fixed(count / KIB, 1)),
        count => format!("{} MiB", fixed(count / (KIB * KIB), 1)),
    }
}

/// `1 launch`, `3 launches`.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", whole(count as u64), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_up_on_the_decimal_digits() {
        for (value, text) in [
            (1.005, "1.01"),
            (0.985, "0.99"),
            (1.004_999, "1.00"),
            (2.675, "2.68"),
            (0.0, "0.00"),
            (-0.004, "0.00"),
            (-1.005, "−1.01"),
        ] {
            assert_eq!(fixed(value, 2), text, "{value}");
        }
        assert!((two_decimals(1.005) - 1.01).abs() < 1e-12);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(fixed(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(fixed(999.96, 1), "1,000.0");
        assert_eq!(whole(30_000_000), "30,000,000");
        assert_eq!(whole(999), "999");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(fixed(f64::NAN, 2), NONE);
        assert_eq!(fixed(f64::INFINITY, 2), NONE);
    }

    #[test]
    fn a_column_has_one_count_of_decimals() {
        assert_eq!(decimals_for([0.1, 12_345.0]), 0);
        assert_eq!(decimals_for([0.1, 99.0]), 2);
        assert_eq!(decimals_for([]), 3);
        assert_eq!(plain(30.0), "30");
        assert_eq!(plain(0.25), "0.25");
        assert_eq!(plain(1200.0), "1,200");
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
        assert_eq!(time("2026-03-04T05:06:59.25Z".parse().unwrap()), "2026-03-04 05:06 UTC");
    }
}
