//! A byte stream that is cut into records.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("records", input));
