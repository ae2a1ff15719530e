//! The regtrack command.

fn main() {}
