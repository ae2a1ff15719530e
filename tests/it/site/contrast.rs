//! Contrast of the colours that stand on each other, by the formula of WCAG 2.2.

use std::collections::BTreeMap;

/// Texts on what they stand on: success criterion 1.4.3.
const TEXTS: [(&str, &str); 21] = [
    ("ink", "paper"),
    ("ink", "panel"),
    ("soft", "paper"),
    ("soft", "panel"),
    ("soft", "warn-paper"),
    ("ink", "warn-paper"),
    ("link", "paper"),
    ("link", "panel"),
    ("link", "warn-paper"),
    ("paper", "ink"),
    ("ink", "n"),
    ("ink", "s1"),
    ("ink", "s2"),
    ("ink", "s3"),
    ("on-mid", "s4"),
    ("on-strong", "s5"),
    ("ink", "f1"),
    ("ink", "f2"),
    ("ink", "f3"),
    ("on-mid", "f4"),
    ("on-strong", "f5"),
];

/// Lines and borders that mean something: 1.4.11.
const SHAPES: [(&str, &str); 9] = [
    ("edge", "paper"),
    ("edge", "panel"),
    ("warn-rule", "paper"),
    ("line-0", "paper"),
    ("line-1", "paper"),
    ("line-2", "paper"),
    ("line-3", "paper"),
    ("launch", "paper"),
    ("link", "n"),
];

/// The custom properties of the light and of the dark palette.
fn palettes() -> [BTreeMap<String, [f64; 3]>; 2] {
    let style = include_str!("../../../site/assets/style.css");
    let (light, rest) = style.split_once("@media screen and (prefers-color-scheme: dark)").unwrap();
    let dark = rest.split("\n}\n").next().unwrap();
    [light, dark].map(|part| part.split(';').filter_map(colour).collect())
}

fn colour(declaration: &str) -> Option<(String, [f64; 3])> {
    let (name, value) = declaration.rsplit_once(':')?;
    let name = name.rsplit("--").next()?.trim();
    // What follows the last declaration of a rule is not one.
    let digits = value.trim().strip_prefix('#').filter(|digits| digits.len() == 6)?;
    let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok().map(|part| f64::from(part) / 255.0);
    Some((name.to_owned(), [part(0)?, part(2)?, part(4)?]))
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear = |part: f64| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn colours_that_stand_on_each_other_can_be_told_apart() {
    let mut faint = Vec::new();
    for (scheme, palette) in ["light", "dark"].into_iter().zip(palettes()) {
        let mut check = |(one, other): (&str, &str), least: f64| {
            let contrast = contrast(palette[one], palette[other]);
            if contrast < least {
                faint.push(format!("{scheme}: {one} on {other} has {contrast:.2}, not {least}"));
            }
        };
        for pair in TEXTS {
            check(pair, 4.5);
        }
        for pair in SHAPES {
            check(pair, 3.0);
        }
    }
    assert_eq!(faint, Vec::<String>::new());
}

#[test]
fn the_formula_is_that_of_the_guidelines() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    // #767676 on white is the lightest grey that passes.
    let grey = [f64::from(0x76) / 255.0; 3];
    assert!((contrast(grey, [1.0; 3]) - 4.54).abs() < 0.005);
}
