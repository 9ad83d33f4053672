//! Every decoder of bytes from a network or a disk takes what its fuzz target has kept, seeded mutations of that, and random bytes.
//! A smoke run of the fuzz targets without a fuzzer; `make fuzz` searches further.
//!
//! What must never enter: what a decoder has to make of its input; the targets say it.

#[path = "../../../fuzz/decoders.rs"]
mod fuzz;
#[path = "../../../fuzz/inputs.rs"]
mod inputs;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use inputs::Numbers;

/// Mutations for each target, and as many random inputs.
const ROUNDS: usize = 10_000;

/// The names of a folder of `fuzz`, without endings.
fn names(folder: &str) -> BTreeSet<String> {
    let found = fs::read_dir(place(folder)).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    found.map(|entry| stem(entry.unwrap().path())).collect()
}

fn place(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz")
        .join(folder)
}

#[test]
fn each_target_has_a_program_and_kept_inputs() {
    let targets = fuzz::TARGETS.iter().map(|(name, _)| (*name).to_owned());
    let targets = targets.collect::<BTreeSet<_>>();
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("corpus"), targets);
}

/// The inputs that are kept for a target, in the order of their names.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(place("corpus").join(target)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let kept: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!kept.is_empty(), "no inputs are kept for {target}");
    kept
}

fn feed(target: &str, input: &[u8]) {
    let fed = catch_unwind(|| fuzz::run(target, input));
    assert!(fed.is_ok(), "{target} cannot stand {input:02x?}");
}

/// A broken copy of a kept input, or of the beginning of one and the end of another.
fn broken(kept: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = kept[numbers.below(kept.len())].clone();
    if numbers.below(4) == 0 {
        let other = &kept[numbers.below(kept.len())];
        input.truncate(numbers.below(input.len() + 1));
        input.extend_from_slice(&other[numbers.below(other.len() + 1)..]);
    }
    numbers.mutate(&mut input);
    input
}

#[test]
fn every_decoder_takes_kept_broken_and_random_bytes() {
    for (seed, (target, _)) in fuzz::TARGETS.iter().enumerate() {
        let (kept, mut numbers) = (kept(target), Numbers::new(seed as u64));
        for input in &kept {
            feed(target, input);
        }
        for _ in 0..ROUNDS {
            feed(target, &broken(&kept, &mut numbers));
            feed(target, &numbers.message());
        }
    }
}
