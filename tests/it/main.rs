//! The one integration-test binary.

#[cfg(test)]
mod published;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod twins;
