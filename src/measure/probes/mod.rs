//! Counter sources, one file each. A source that the machine or the release lacks gives `None`.

mod cpu;
mod instructions;
mod server;

pub(super) use cpu::{BackendCpu, MachineCpu, client_cpu_ns, process_cpu_ns};
pub(super) use instructions::InstructionCounter;
pub(super) use server::{Background, Buffers, background, buffers, wal_position};
