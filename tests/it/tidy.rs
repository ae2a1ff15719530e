//! The rules of the house, as far as a program can check them.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_shape_has_its_twin_and_every_twin_its_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let suite = std::fs::read_to_string(root.join("src/catalog/suites/sysbench.toml")).unwrap();
    let suite: toml::Table = suite.parse().unwrap();
    let shapes: BTreeSet<String> = suite["shape"].as_table().unwrap().keys().cloned().collect();

    let twins: BTreeSet<String> = std::fs::read_dir(root.join("sysbench-lua"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();

    assert!(!shapes.is_empty());
    assert_eq!(shapes, twins, "left: [shape.NAME] in the suite; right: sysbench-lua/NAME.lua");
}
