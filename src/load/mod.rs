//! The load client: its connections, the data set, random numbers, the timed loop. Knows no release
//! and no file.

mod crew;
mod dataset;
mod digest;
mod random;
mod session;
mod watchdog;
mod wire;

pub use crew::Crew;
pub use dataset::{DatasetError, load};
pub use digest::digest;
pub use random::Random;
pub use session::{Control, Session, Tally, Until};
pub use wire::{ServerError, Waiting, WireError};
