//! Names every generated message to the `decoders` target, so that a new one is fuzzed without being asked for.

use std::path::Path;

fn main() {
    let list = Path::new("../protocol/src/generated/mod.rs");
    println!("cargo::rerun-if-changed={}", list.display());
    let text = std::fs::read_to_string(list).expect("the generated messages");
    let names = text.lines().filter_map(|line| line.strip_prefix("pub use ")?.strip_suffix(';')?.split_once("::"));
    let names: Vec<&str> = names.map(|(_, name)| name).collect();
    assert!(names.len() > 60, "only {} messages are named in {}", names.len(), list.display());
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let table = format!("messages! {{ {} }}\n", names.join(" "));
    std::fs::write(Path::new(&out).join("messages.rs"), table).expect("cargo's folder can be written");
}
