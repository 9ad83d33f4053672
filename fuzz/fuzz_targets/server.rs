//! Files of a data directory, words that a server hears when it joins, questions over the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("server", input));
