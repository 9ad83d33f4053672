//! The arguments of a COMPOUND.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("request", input));
