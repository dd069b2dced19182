//! The properties of the fuzz targets on the inputs that are committed, without a fuzzer.
//!
//! `tests/corpus/TARGET/` holds what real values encode to (`seed-N`) and what a fuzzer once found
//! (`found-WHAT`). After a change of format `TAFFRAIL_RESEED=1 cargo test --test corpus` writes the
//! seeds anew; what was found stays for ever. `fuzz/README.md` says how to fuzz.

use std::path::{Path, PathBuf};

use taffrail::testing::fuzzing::{self, Property};

#[path = "corpus/bounded.rs"]
mod bounded;
#[cfg(feature = "cli")]
#[path = "corpus/command_line.rs"]
mod command_line;

/// Every target: the library's, and the command line's where there is one.
fn targets() -> impl Iterator<Item = (&'static str, Property)> {
    #[cfg(feature = "cli")]
    let beside = command_line::TARGETS;
    #[cfg(not(feature = "cli"))]
    let beside = [];
    fuzzing::TARGETS.iter().copied().chain(beside)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    #[cfg(feature = "cli")]
    if command_line::TARGETS.iter().any(|(known, _)| *known == target) {
        return command_line::seeds(target);
    }
    fuzzing::seeds(target)
}

/// These open stores or databases, which is too slow for each byte.
const STATEFUL: [&str; 4] = ["crashes", "database", "directory", "operations"];

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target)
}

fn committed(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn every_committed_input_holds() {
    if std::env::var_os("TAFFRAIL_RESEED").is_some() {
        write_the_seeds();
    }
    for (target, property) in targets() {
        for (path, input) in committed(target) {
            let accepted = property(&input);
            let is_seed = path.file_name().unwrap().to_string_lossy().starts_with("seed-");
            assert!(accepted || !is_seed, "{} is refused and tests nothing: write the seeds anew", path.display());
        }
    }
}

/// A seed cut or changed at any byte: the nearest that a plain test comes to fuzzing.
#[test]
fn every_seed_holds_however_it_is_changed() {
    for (target, property) in targets().filter(|(target, _)| !STATEFUL.contains(target)) {
        for seed in seeds(target) {
            for at in 0..seed.len() {
                property(&seed[..at]);
                for byte in [0, 1, 0x7f, 0x80, 0xff, seed[at] ^ 1, seed[at].wrapping_add(1)] {
                    let mut changed = seed.clone();
                    changed[at] = byte;
                    property(&changed);
                }
            }
        }
    }
}

#[test]
fn every_target_has_its_seeds_and_its_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    for (target, _) in targets() {
        assert!(committed(target).len() >= seeds(target).len(), "{target}: write the seeds");
        // A published crate has the corpus and not the fuzz targets.
        assert!(!fuzz.exists() || fuzz.join(format!("{target}.rs")).exists(), "{target} has no fuzz target");
    }
}

/// Writes the seeds into the source tree, when asked to.
fn write_the_seeds() {
    for (target, property) in targets() {
        std::fs::create_dir_all(folder(target)).unwrap();
        for (number, seed) in seeds(target).into_iter().enumerate() {
            assert!(property(&seed), "seed {number} of {target} is refused");
            std::fs::write(folder(target).join(format!("seed-{number}")), seed).unwrap();
        }
    }
}
