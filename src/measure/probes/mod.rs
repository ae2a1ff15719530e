//! Counter sources, one file each. A source that the machine or the release lacks gives `None`.

mod cpu;
mod instructions;
mod server;

pub(super) use cpu::{BackendCpu, client_cpu_ns, process_cpu_ns};
pub(super) use instructions::InstructionCounter;
pub(super) use server::{buffers, wal_position};
