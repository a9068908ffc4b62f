//! The rules that a machine can check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::run::{cargo, command, output, root, run};

/// Which of our crates each crate may import. A crate that is not here is an error, and so is an import that is not here.
const IMPORTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("protocol", &["base"]),
    ("dataplane/journal", &["base", "protocol"]),
    ("dataplane/shard", &["base", "protocol", "journal"]),
    ("dataplane", &["base", "journal", "shard"]),
    ("controlplane/groups", &["base"]),
    ("controlplane/cluster", &["base"]),
    ("controlplane", &["base", "protocol", "cluster", "groups"]),
    ("client", &["base", "protocol"]),
    ("sim", &["base", "protocol", "journal", "shard", "cluster", "groups", "client"]),
    ("fuzz", &["base", "protocol", "journal", "shard", "cluster", "groups", "client", "sim"]),
    (".", &["base", "protocol", "dataplane", "journal", "shard", "controlplane", "cluster", "groups", "client"]),
    ("benches", &["base", "protocol", "dataplane", "journal", "shard", "client"]),
    ("xtask", &[]),
];

/// Crates without I/O, clocks, threads or randomness.
const PURE: &[&str] =
    &["base", "protocol", "dataplane/journal", "dataplane/shard", "controlplane/groups", "controlplane/cluster"];

/// A file over this length says in its first lines why.
const LINES_MAX: usize = 900;

/// A target without an operating system: what builds for it has no sockets, clocks, threads or files to call.
pub const BARE_TARGET: &str = "x86_64-unknown-none";

/// Builds the pure crates for [`BARE_TARGET`].
pub fn bare() -> Result<()> {
    let mut args = vec!["check", "--quiet", "--target", BARE_TARGET];
    let names: Vec<String> = PURE.iter().map(|path| package(path)).collect();
    for name in &names {
        args.extend(["--package", name]);
    }
    run(&mut cargo(&args))
}

/// The package of a crate's folder.
fn package(path: &str) -> String {
    format!("barelog-{}", path.rsplit('/').next().unwrap_or(path))
}

/// Everything.
pub fn tidy() -> Result<()> {
    quick()?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// What takes seconds.
pub fn quick() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let mut faults = Vec::new();
    imports(&mut faults)?;
    pure(&mut faults);
    let files = files()?;
    lengths(&files, &mut faults);
    links(&files, &mut faults);
    words(&files, &mut faults);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("tidy found:\n  {}", faults.join("\n  "))
}

/// rustfmt and clippy's own fixes.
pub fn fix() -> Result<()> {
    run(&mut cargo(&["fmt", "--all"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty"]))
}

fn files() -> Result<Vec<PathBuf>> {
    let listed = output(&mut command("git", &["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    Ok(listed.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect())
}

fn imports(faults: &mut Vec<String>) -> Result<()> {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        IMPORTS.iter().map(|(name, imports)| (*name, imports.iter().copied().collect())).collect();
    let ours: BTreeSet<&str> = IMPORTS.iter().flat_map(|(_, imports)| imports.iter().copied()).collect();
    let manifest: toml::Table = toml::from_str(&std::fs::read_to_string(root().join("Cargo.toml"))?)?;
    let members = manifest["workspace"]["members"].as_array().cloned().unwrap_or_default();
    let members: Vec<&str> = members.iter().filter_map(|member| member.as_str()).chain(["."]).collect();
    for member in members {
        let Some(allowed) = allowed.get(member) else {
            faults.push(format!("{member}: not in the table of imports (xtask/src/tidy.rs)"));
            continue;
        };
        let text = std::fs::read_to_string(root().join(member).join("Cargo.toml"))?;
        let manifest: toml::Table = toml::from_str(&text)?;
        // Tests may use the simulator and what it needs; they ship nothing.
        let Some(dependencies) = manifest.get("dependencies").and_then(|table| table.as_table()) else { continue };
        for name in dependencies.keys().filter(|name| ours.contains(name.as_str())) {
            if !allowed.contains(name.as_str()) {
                faults.push(format!("{member}: imports {name}, which the table of imports does not allow"));
            }
        }
    }
    Ok(())
}

fn pure(faults: &mut Vec<String>) {
    for member in PURE {
        let lib = std::fs::read_to_string(root().join(member).join("src/lib.rs")).unwrap_or_default();
        if !lib.contains("#![no_std]") && !lib.contains("#![cfg_attr(not(test), no_std)]") {
            faults.push(format!("{member}/src/lib.rs: a pure crate says #![no_std]"));
        }
    }
}

fn lengths(files: &[PathBuf], faults: &mut Vec<String>) {
    for path in files.iter().filter(|path| has_ending(path, &["rs"])) {
        let text = read(path);
        let generated = text.lines().take(3).any(|line| line.contains("Generated"));
        let excused = text.lines().take(30).any(|line| line.contains("Long because"));
        let lines = text.lines().count();
        if lines > LINES_MAX && !generated && !excused && !path.components().any(|part| part.as_os_str() == "tests") {
            faults.push(format!("{}: {lines} lines; split it, or say \"Long because …\" at its top", path.display()));
        }
    }
}

/// Links between documents of the repository lead somewhere.
fn links(files: &[PathBuf], faults: &mut Vec<String>) {
    for path in files.iter().filter(|path| has_ending(path, &["md"])) {
        let text = read(path);
        for rest in text.split("](").skip(1) {
            let Some((link, _)) = rest.split_once(')') else { continue };
            let link = link.split('#').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let folder = path.parent().unwrap_or(Path::new(""));
            if !root().join(folder).join(link).exists() {
                faults.push(format!("{}: the link {link} leads nowhere", path.display()));
            }
        }
    }
}

/// Words that mean something is unfinished.
fn words(files: &[PathBuf], faults: &mut Vec<String>) {
    // Put together here, so that this file does not find itself.
    let unfinished =
        [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["todo", "!("].concat(), ["unimplemented", "!("].concat()];
    for path in files.iter().filter(|path| has_ending(path, &["rs", "py", "toml", "md"])) {
        for (number, line) in read(path).lines().enumerate() {
            if let Some(word) = unfinished.iter().find(|word| line.contains(word.as_str())) {
                faults.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}
