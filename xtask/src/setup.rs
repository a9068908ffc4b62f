//! Installs what the tests need: Debian packages as root, Python and Java clients into `.tools/`; and what the matrix of clients
//! needs beyond that, which the tests do without.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, command, output, root, run, target, which};
use crate::tidy;

/// A program and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("make", "make"),
    ("kcat", "kcat"),
    ("python3", "python3"),
    ("java", "default-jre-headless"),
    ("mvn", "maven"),
    ("qemu-storage-daemon", "qemu-system-common"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// What fuzzing needs beside [`PROGRAMS`]: libFuzzer is C++.
const FUZZ_PROGRAMS: &[(&str, &str)] = &[("c++", "g++")];

/// What the suite of librdkafka is fetched and built with; headers by their path.
const SUITE_PROGRAMS: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("c++", "g++"),
    ("make", "make"),
    ("python3", "python3"),
    ("npm", "npm"),
    ("/usr/include/zlib.h", "zlib1g-dev"),
    ("/usr/include/openssl/ssl.h", "libssl-dev"),
    ("/usr/include/zstd.h", "libzstd-dev"),
];

/// Python clients, pinned.
const PYTHON: &[&str] = &[
    "kafka-python==3.0.12",
    "confluent-kafka==2.16.1",
    "lz4==4.4.5",
    "zstandard==0.25.0",
    "python-snappy==0.7.3",
    "cramjam==2.14.0",
];

/// What the matrix of clients needs beside [`PROGRAMS`].
const CLIENT_PROGRAMS: &[(&str, &str)] = &[("javac", "default-jdk-headless"), ("node", "nodejs"), ("npm", "npm")];

/// Python clients of the matrix beside [`PYTHON`], pinned.
const CLIENT_PYTHON: &[&str] = &["aiokafka==0.14.0"];

/// The oldest Go that builds the Go clients, as their `go.mod` says.
const GO: (u32, u32) = (1, 26);
/// Where the Go on PATH is older, as Debian's is.
const GO_TOOLCHAIN: &str = "golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64";

/// Kafka's own tools and clients.
pub const KAFKA: &str = "4.4.0";

/// Where what is not a system package goes.
pub fn tools() -> PathBuf {
    root().join(".tools")
}

/// The Python that has the clients.
pub fn python() -> PathBuf {
    tools().join("venv/bin/python")
}

/// The folder of Java archives.
pub fn jars() -> PathBuf {
    tools().join("java")
}

/// The folder of a whole Kafka, broker and all.
pub fn kafka_jars() -> PathBuf {
    tools().join("kafka")
}

/// Programs of the matrix that are compiled.
pub fn built() -> PathBuf {
    tools().join("built")
}

/// Where Node.js finds kafkajs.
pub fn node_modules() -> PathBuf {
    tools().join("kafkajs/node_modules")
}

/// `cargo xtask setup`: installs what the tests need, with `--clients` also what the matrix of clients needs.
pub fn command_line(args: &[String]) -> Result<()> {
    match args {
        [] => setup(),
        [flag] if flag == "--clients" => clients(),
        _ => bail!("cargo xtask setup [--clients]"),
    }
}

/// Installs what is missing.
pub fn setup() -> Result<()> {
    packages(PROGRAMS)?;
    bare_target()?;
    python_clients()?;
    java_clients()
}

/// Installs what fuzzing needs.
pub fn fuzzing() -> Result<()> {
    packages(FUZZ_PROGRAMS)
}

/// Installs what builds the suite of librdkafka.
pub fn native_suite() -> Result<()> {
    packages(SUITE_PROGRAMS)
}

/// Installs what counts instructions.
pub fn counting() -> Result<()> {
    packages(&[("valgrind", "valgrind")])
}

/// The standard library's `core` and `alloc` for [`tidy::BARE_TARGET`].
fn bare_target() -> Result<()> {
    let libraries = output(&mut command("rustc", &["--print", "target-libdir", "--target", tidy::BARE_TARGET]))?;
    if PathBuf::from(libraries.trim()).is_dir() {
        return Ok(());
    }
    run(&mut command("rustup", &["target", "add", tidy::BARE_TARGET]))
        .with_context(|| format!("the Rust target {} is missing; where rustup is not: install it", tidy::BARE_TARGET))
}

/// Installs and compiles what is missing of all clients.
pub fn clients() -> Result<()> {
    setup()?;
    packages(CLIENT_PROGRAMS)?;
    more_python_clients()?;
    java_program()?;
    go_programs()?;
    rust_program()?;
    node_client()
}

fn packages(programs: &[(&'static str, &'static str)]) -> Result<()> {
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| which(program).is_none()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let root = output(&mut command("id", &["-u"]))?.trim() == "0";
    if !root || which("apt-get").is_none() {
        bail!("missing: {0}. As root on Debian: apt-get install {0}", missing.join(" "));
    }
    run(command("apt-get", &["update", "-qq"]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
    args.extend(missing);
    run(command("apt-get", &args).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Whether `.tools/NAME` was made from exactly these versions.
fn is_current(name: &str, wanted: &str) -> bool {
    std::fs::read_to_string(tools().join(name)).is_ok_and(|text| text == wanted)
}

fn mark(name: &str, wanted: &str) -> Result<()> {
    std::fs::write(tools().join(name), wanted).with_context(|| format!("cannot write .tools/{name}"))
}

fn python_clients() -> Result<()> {
    let wanted = PYTHON.join("\n");
    if is_current("python.versions", &wanted) && python().exists() {
        return Ok(());
    }
    std::fs::create_dir_all(tools())?;
    let venv = tools().join("venv");
    let venv = venv.to_string_lossy();
    run(&mut command("python3", &["-m", "venv", "--clear", &venv]))
        .context("python3 -m venv failed; on Debian: apt-get install python3-venv")?;
    let pip = format!("{venv}/bin/pip");
    let mut args = vec!["install", "--quiet", "--disable-pip-version-check"];
    args.extend(PYTHON);
    run(&mut command(&pip, &args))?;
    mark("python.versions", &wanted)
}

fn java_clients() -> Result<()> {
    archives("java", &["kafka-tools", "kafka-clients"])
}

/// Installs a whole Kafka, for recording what it answers.
pub fn kafka() -> Result<()> {
    packages(&[("java", "default-jre-headless"), ("mvn", "maven")])?;
    archives("kafka", &["kafka_2.13"])
}

/// Archives of Kafka and what they need, in a folder of this name.
fn archives(name: &str, artifacts: &[&str]) -> Result<()> {
    let (folder, versions) = (tools().join(name), format!("{name}.versions"));
    if is_current(&versions, KAFKA) && folder.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(tools())?;
    let pom = tools().join("pom.xml");
    let dependencies: String = artifacts
        .iter()
        .map(|artifact| {
            format!(
                "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{KAFKA}</version></dependency>"
            )
        })
        .collect();
    std::fs::write(
        &pom,
        format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>barelog</groupId><artifactId>{name}</artifactId>\
             <version>1</version><dependencies>{dependencies}</dependencies></project>"
        ),
    )?;
    let _ = std::fs::remove_dir_all(&folder);
    let target = format!("-DoutputDirectory={}", folder.display());
    run(&mut command(
        "mvn",
        &["-q", "-B", "-f", &pom.to_string_lossy(), "dependency:copy-dependencies", "-DincludeScope=runtime", &target],
    ))?;
    mark(&versions, KAFKA)
}

fn more_python_clients() -> Result<()> {
    // With the versions of the others: a venv made anew has lost these.
    let wanted = [PYTHON, CLIENT_PYTHON].concat().join("\n");
    if is_current("python-clients.versions", &wanted) && has_module("aiokafka") {
        return Ok(());
    }
    let mut args = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    args.extend(CLIENT_PYTHON);
    run(&mut command(&python().to_string_lossy(), &args))?;
    mark("python-clients.versions", &wanted)
}

fn has_module(name: &str) -> bool {
    let import = format!("import {name}");
    output(&mut command(&python().to_string_lossy(), &["-c", &import])).is_ok()
}

/// One class file, from the source of the tests.
fn java_program() -> Result<()> {
    let (classes, archives) = (built().join("java"), jars().join("*"));
    let (classes, archives) = (classes.to_string_lossy(), archives.to_string_lossy());
    run(&mut command("javac", &["-d", &classes, "-cp", &archives, "tests/clients/java/Scenarios.java"]))
}

/// One program for all Go clients, from modules that go.sum pins.
fn go_programs() -> Result<()> {
    let target = built().join("go");
    let target = target.to_string_lossy();
    let go = go()?;
    run(command(&go, &["build", "-mod=readonly", "-o", &target, "."])
        .current_dir(root().join("tests/clients/go"))
        .env_remove("GOROOT"))
}

/// A Go that is new enough: the one on PATH, else a toolchain that comes as a module, which any Go can fetch.
pub fn go() -> Result<String> {
    packages(&[("go", "golang-go")])?;
    let found = output(&mut command("go", &["env", "GOVERSION"]))?;
    let mut numbers = found.trim().trim_start_matches("go").split('.').map(|number| number.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= GO {
        return Ok("go".into());
    }
    let told = output(&mut command("go", &["mod", "download", "-json", GO_TOOLCHAIN]))?;
    let told: serde_json::Value = serde_json::from_str(&told).context(GO_TOOLCHAIN)?;
    let folder = PathBuf::from(told["Dir"].as_str().with_context(|| format!("{GO_TOOLCHAIN}: {told}"))?);
    // A module's files come without their execute bits.
    for programs in ["bin", "pkg/tool/linux_amd64"] {
        for program in std::fs::read_dir(folder.join(programs))? {
            std::fs::set_permissions(program?.path(), Permissions::from_mode(0o755))?;
        }
    }
    Ok(folder.join("bin/go").to_string_lossy().into_owned())
}

/// An example of the benchmarks, which have the rdkafka crate already.
fn rust_program() -> Result<()> {
    run(&mut cargo(&["build", "--quiet", "--package", "barelog-benches", "--example", "scenarios"]))?;
    std::fs::create_dir_all(built())?;
    std::fs::copy(target().join("debug/examples/scenarios"), built().join("rust")).context("the rdkafka program")?;
    Ok(())
}

/// kafkajs and its codecs from the lock file.
fn node_client() -> Result<()> {
    let source = root().join("tests/clients/kafkajs");
    let wanted = std::fs::read_to_string(source.join("package-lock.json"))?;
    if is_current("kafkajs.lock", &wanted) && node_modules().exists() {
        return Ok(());
    }
    let folder = tools().join("kafkajs");
    std::fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), folder.join(file))?;
    }
    run(command("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder))?;
    mark("kafkajs.lock", &wanted)
}
