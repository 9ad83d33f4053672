//! Rows of the metadata store, as a disk or another replica hands them over, and frames of its journal.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("store_row", input));
