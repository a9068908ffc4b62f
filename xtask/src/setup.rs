//! Installs what the tests need: Debian packages as root, Python and Java clients into `.tools/`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::run::{command, output, root, run, which};

/// A program and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("make", "make"),
    ("kcat", "kcat"),
    ("python3", "python3"),
    ("java", "default-jre-headless"),
    ("mvn", "maven"),
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

/// Kafka's own tools and clients.
const KAFKA: &str = "4.4.0";

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

/// Installs what is missing.
pub fn setup() -> Result<()> {
    packages()?;
    python_clients()?;
    java_clients()
}

fn packages() -> Result<()> {
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| which(program).is_none()).map(|(_, package)| *package).collect();
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
    if is_current("java.versions", KAFKA) && jars().exists() {
        return Ok(());
    }
    std::fs::create_dir_all(tools())?;
    let pom = tools().join("pom.xml");
    let dependency = |artifact: &str| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{KAFKA}</version></dependency>"
        )
    };
    std::fs::write(
        &pom,
        format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>barelog</groupId><artifactId>test-clients</artifactId>\
             <version>1</version><dependencies>{}{}</dependencies></project>",
            dependency("kafka-tools"),
            dependency("kafka-clients")
        ),
    )?;
    let jars = jars();
    let _ = std::fs::remove_dir_all(&jars);
    let target = format!("-DoutputDirectory={}", jars.display());
    run(&mut command(
        "mvn",
        &["-q", "-B", "-f", &pom.to_string_lossy(), "dependency:copy-dependencies", "-DincludeScope=runtime", &target],
    ))?;
    mark("java.versions", KAFKA)
}
