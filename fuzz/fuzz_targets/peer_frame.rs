//! Messages on a connection between servers: hellos, frames, lists of members, tokens; and the files of a set.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("peer_frame", input));
