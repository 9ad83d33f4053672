//! What arrives over a connection between servers: hellos, frames, lists of members, tokens.

#![no_main]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reading = pin!(peer::decode_as_anything(bytes));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        reading.as_mut().poll(&mut context).is_ready(),
        "reading from memory waits"
    );
});
