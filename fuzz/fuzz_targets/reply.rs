//! The results of a COMPOUND.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("reply", input));
