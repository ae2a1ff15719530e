//! The one integration-test binary.

mod common;
mod live;
mod published;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod twins;
