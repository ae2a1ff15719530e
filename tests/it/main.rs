//! The one integration-test binary.

mod common;
mod live;
mod published;
