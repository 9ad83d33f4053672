//! A CB_COMPOUND and its reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("callback", input));
