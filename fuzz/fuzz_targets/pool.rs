//! Handles that clients show a data server, and rows that say where contents lie.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pool::decode_as_anything(bytes));
