//! The load client: one connection, the data set, random numbers, the timed loop. Knows no release
//! and no file.

mod dataset;
mod idle;
mod random;
mod session;
mod wire;

pub use dataset::{DatasetError, digest, load};
pub use random::Random;
pub use session::{Control, Session, Tally, Until};
pub use wire::{ServerError, WireError};
