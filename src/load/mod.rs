//! The load client: its connections, the data set, random numbers, the timed loop. Knows no release
//! and no file.

mod dataset;
mod digest;
mod idle;
mod random;
mod session;
mod sessions;
mod watchdog;
mod wire;

pub use dataset::{DatasetError, load};
pub use digest::digest;
pub use random::Random;
pub use session::{Control, Session, Tally, Until};
pub use sessions::Sessions;
pub use wire::{ServerError, Waiting, WireError};
