//! Requests and answers about views, and entries of their log.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| view::decode_as_anything(bytes));
