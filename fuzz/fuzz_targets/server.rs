//! Files of a data directory, words for a server that joins, requests over the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("server", input));
