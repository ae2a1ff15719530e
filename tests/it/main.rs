//! The one integration-test binary.

#[cfg(test)]
mod published;
#[cfg(test)]
mod sim;
