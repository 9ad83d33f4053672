//! Rows of the metadata store, as they come from a disk or another replica, and frames of its journal.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("store_row", input));
