//! The header of an RPC message.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("rpc_message", input));
