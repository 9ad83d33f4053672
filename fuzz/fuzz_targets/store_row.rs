//! Rows of the metadata store, as a disk or another replica hands them over, and frames of its journal.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| store::decode_as_anything(bytes));
