//! The one tool: `cargo xtask setup | test | ci | clients | suites | compare | golden | tidy | fix | bench | counts | sim | powercut | fuzz | bless | codegen`.

#![allow(unreachable_pub, reason = "a program exports nothing; pub says: used by a sibling module")]

mod broker;
mod ci;
mod clients;
mod codegen;
mod compare;
mod counts;
mod fuzz;
mod golden;
mod kafka;
mod powercut;
mod run;
mod setup;
mod sim;
mod suites;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  setup    install what the tests need (apt as root; else say what to install), into the system and .tools/;
           --clients: also what the matrix of clients needs
  test     everything that has to pass before a change lands; prints what it skips, and in CI a skip fails
  ci       [STEP…] [--seeds N] [--seconds N]  the long form, hours: test, clients, long simulation, power cuts, fuzzing, instruction
           counts, into docs/CI.md
  clients  [NAME…]  every Kafka client against a fresh broker, into docs/CLIENTS.md
  suites   [kgo|librdkafka]  test suites of other projects against a fresh broker, into docs/SUITES.md (needs Go, a C++ compiler, npm)
  compare  the same records to a real Kafka, and what each keeps of them after compaction, into docs/COMPACTION.md
  golden   records tests/golden/ anew from a real Kafka (needs Java and Maven)
  tidy     formatting, lints, who imports whom, links, file lengths
  fix      rustfmt and clippy's own fixes
  sim      [LEVEL...] [--seed N] [--count M]  shards and journals on a simulated device; --planted: with each planted fault
  powercut [CUTS]  the real binary on disks that lose what was not flushed, 200 power cuts; --planted: with a build that must fail
  fuzz     [TARGET…] [--seconds N] [--minimize]  hostile input by libFuzzer, from fuzz/corpus/ on (needs a C++ compiler);
           --seed-corpora: only write the first inputs anew
  bench    the benchmark table, into docs/benchmarks/ (run it when nothing else runs)
  counts   instructions of the hot steps against benches/baseline.json; --bless: make that anew
  bless    rewrite generated documents and golden files
  codegen  rewrite protocol/src/generated/ from Kafka's message schemas (needs Maven)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("setup") => setup::command_line(&args[1..]),
        Some("test") => test::test(),
        Some("ci") => ci::ci(&args[1..]),
        Some("clients") => clients::clients(&args[1..]),
        Some("suites") => suites::suites(&args[1..]),
        Some("compare") => compare::compare(),
        Some("golden") => golden::golden(),
        Some("tidy") => tidy::tidy(),
        Some("fix") => tidy::fix(),
        Some("sim") => sim::sim(&args[1..]),
        Some("powercut") => powercut::powercut(&args[1..]),
        Some("fuzz") => fuzz::fuzz(&args[1..]),
        Some("bench") => test::bench(&args[1..]),
        Some("counts") => counts::counts(&args[1..]),
        Some("bless") => test::bless(),
        Some("codegen") => codegen::codegen(),
        Some("help" | "--help" | "-h") => {
            eprint!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
