//! Rows of a home about its data servers and about what they owe.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("striping_row", input));
