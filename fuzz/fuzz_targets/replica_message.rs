//! Messages between replicas, as every kind that there is.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| replica::decode_as_anything(bytes));
