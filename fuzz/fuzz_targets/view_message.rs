//! Requests and answers about views, and entries of their log.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("view_message", input));
