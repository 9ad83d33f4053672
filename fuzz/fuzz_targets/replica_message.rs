//! Messages between replicas, decoded as every kind, and the stored facts of a replica.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("replica_message", input));
