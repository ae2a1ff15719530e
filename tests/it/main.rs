//! The one integration-test binary. The attribute lets clippy know that all of this is tests.

#[cfg(test)]
mod common;
#[cfg(test)]
mod live;
#[cfg(test)]
mod published;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod twins;
