//! The fuzz targets: one function for each group of decoders of bytes from a network or a disk. Its name is also that of its
//! program in `fuzz_targets` and of its inputs in `corpus`.
//!
//! `scripts/fuzz` searches for inputs that break one of them; `crates/meridian/tests/decoders.rs` runs all of them with the
//! stored inputs and seeded mutations of these, with the ordinary toolchain.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_server::FileHandle;

pub mod nfs;

/// A target: the name of its program and of its inputs, and its decoder.
pub type Target = (&'static str, fn(&[u8]));

/// All of them, in the order of their names.
pub const TARGETS: &[Target] = &[
    ("attributes", nfs::attributes),
    ("callback", nfs::callback),
    ("data_server_row", data_server::decode_as_anything),
    ("filehandle", filehandle),
    ("peer_frame", peer_frame),
    ("pool", pool::decode_as_anything),
    ("records", nfs::records),
    ("replica_message", replica::decode_as_anything),
    ("reply", nfs::reply),
    ("request", nfs::request),
    ("rpc_message", nfs::rpc_message),
    ("server", server::decode_as_anything),
    ("store_row", store::decode_as_anything),
    ("striping_row", striping::decode_as_anything),
    ("view_message", view::decode_as_anything),
];

/// Runs the target of this name.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(of, _)| *of == name);
    let (_, decode) = target.unwrap_or_else(|| panic!("there is no target {name}"));
    decode(input);
}

/// A filehandle from a client.
pub fn filehandle(input: &[u8]) {
    let shown = NfsFh4(Bytes::copy_from_slice(input));
    if let Some(handle) = FileHandle::decode(&shown) {
        assert_eq!(handle.encode(), shown, "{handle:?}");
    }
}

/// Messages on a connection between servers, and the files of a server's set.
pub fn peer_frame(input: &[u8]) {
    let mut reading = pin!(peer::decode_as_anything(input));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        reading.as_mut().poll(&mut context).is_ready(),
        "reading from memory waits"
    );
}
