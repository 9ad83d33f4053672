//! Filehandles from clients.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("filehandle", input));
