//! Every committed input of every target, without a fuzzer: what was found once is never found again.

use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}

fn replay(name: &str) {
    let target = fuzz::target(name).expect("a target");
    (target.run)(&[]);
    let corpus = files(&fuzz::folder("corpus", name));
    assert!(corpus.len() >= 3, "{name}: {} inputs in its corpus", corpus.len());
    assert!(corpus.len() <= 160, "{name}: {} inputs in its corpus; cargo xtask fuzz {name} --minimize", corpus.len());
    let mut bytes = 0;
    for path in corpus.iter().chain(&files(&fuzz::folder("regressions", name))) {
        let input = std::fs::read(path).expect("a committed file");
        bytes += input.len();
        if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
            panic!("{name} breaks on {}", path.display());
        }
    }
    assert!(bytes < 400 << 10, "{name}: {bytes} bytes of inputs; cargo xtask fuzz {name} --minimize");
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed_and_every_folder_is_a_targets() {
            let names = [$(stringify!($name)),*];
            assert_eq!(fuzz::TARGETS.map(|target| target.name), names);
            for kind in ["corpus", "regressions"] {
                for folder in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(kind)) {
                    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
                    assert!(names.contains(&name.as_str()), "{}: no such target", folder.display());
                }
            }
        }
    };
}

replays! { framing decoders batch unit recovery checkpoint local_state footer groups responses metadata }

#[test]
fn the_first_inputs_are_what_the_encoders_make_today() {
    for target in fuzz::TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.len() >= 3, "{}: {} first inputs", target.name, seeds.len());
        for seed in seeds {
            (target.run)(&seed);
        }
    }
}
