//! Handles that clients show a data server, rows that say where contents lie, messages within a pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("pool", input));
