//! Messages between replicas, as every kind that there is, and the facts that a replica keeps.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("replica_message", input));
