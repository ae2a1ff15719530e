//! The one integration-test binary. `tests/README.md` says what is where.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod published;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod sim;
