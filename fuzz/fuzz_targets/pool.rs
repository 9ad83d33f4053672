//! Handles that clients show a data server, rows about the places of contents, messages within a pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("pool", input));
