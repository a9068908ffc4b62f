//! One program for all targets. Built to fuzz (`--cfg fuzzing`), libFuzzer drives the target that `BARELOG_FUZZ_TARGET` names.
//! Built as usual, it replays inputs, lists the targets, or writes their first inputs.

#![cfg_attr(fuzzing, no_main)]
#![allow(clippy::print_stdout, reason = "a program that tells what it was asked")]

#[cfg(fuzzing)]
mod fuzzer {
    #![allow(unsafe_code, reason = "the macro exports the function that libFuzzer, which is C++, calls")]

    use std::sync::LazyLock;

    static TARGET: LazyLock<fuzz::Target> = LazyLock::new(|| {
        let name = std::env::var("BARELOG_FUZZ_TARGET").expect("BARELOG_FUZZ_TARGET names a target");
        fuzz::target(&name).unwrap_or_else(|| panic!("no target {name}"))
    });

    libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    plain::main()
}

#[cfg(not(fuzzing))]
mod plain {
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;

    const HELP: &str =
        "barelog-fuzz TARGET FILE…  replays inputs; --list names the targets; --seeds writes their first inputs";

    pub(crate) fn main() -> ExitCode {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["--list"] => {
                for target in fuzz::TARGETS {
                    println!("{}", target.name);
                }
                ExitCode::SUCCESS
            }
            ["--seeds"] => done(seeds()),
            [name, ref files @ ..] if !files.is_empty() => match fuzz::target(name) {
                Some(target) => done(files.iter().try_for_each(|file| replay(target, Path::new(file)))),
                None => done(Err(format!("no target {name}; --list names them"))),
            },
            _ => done(Err(HELP.into())),
        }
    }

    fn done(result: Result<(), String>) -> ExitCode {
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        }
    }

    fn replay(target: fuzz::Target, file: &Path) -> Result<(), String> {
        let bytes = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        (target.run)(&bytes);
        println!("{} {}: {} bytes, nothing broke", target.name, file.display(), bytes.len());
        Ok(())
    }

    /// Writes each target's own inputs into its corpus, in place of those written before.
    fn seeds() -> Result<(), String> {
        for target in fuzz::TARGETS {
            let folder = fuzz::folder("corpus", target.name);
            let told = |error: std::io::Error| format!("{}: {error}", folder.display());
            std::fs::create_dir_all(&folder).map_err(told)?;
            for entry in std::fs::read_dir(&folder).map_err(told)? {
                let path: PathBuf = entry.map_err(told)?.path();
                if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")) {
                    std::fs::remove_file(&path).map_err(told)?;
                }
            }
            for (number, seed) in (target.seeds)().iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{number:03}")), seed).map_err(told)?;
            }
        }
        Ok(())
    }
}
