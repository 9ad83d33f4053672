//! Rows of a data server about its contents.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("data_server_row", input));
