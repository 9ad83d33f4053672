//! Rows that a home keeps of its data servers and of what they owe.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("striping_row", input));
