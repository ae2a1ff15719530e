//! The one integration-test binary. `tests/README.md` says what is where. The attributes let clippy
//! know that all of this is tests.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod builds;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod common;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod live;
#[cfg(test)]
mod published;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod site;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod twins;
