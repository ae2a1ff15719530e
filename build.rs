//! Rebuilds when a file is added to or removed from a directory that is embedded in the program:
//! by itself, the compiler only notices changes inside files that it already knows.

fn main() {
    for directory in ["configs", "sysbench-lua", "versions"] {
        println!("cargo::rerun-if-changed={directory}");
    }
}
