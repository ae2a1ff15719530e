//! The command line.

pub mod tables;
