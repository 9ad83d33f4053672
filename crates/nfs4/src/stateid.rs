//! FREE_STATEID and TEST_STATEID (RFC 8881, sections 18.38 and 18.48) as they
//! travel: what a client asks about state that a server may have taken away.

use xdr::xdr_struct;

use crate::{NfsStat4, Stateid4};

/// The most stateids that one TEST_STATEID may name here. Linux sends one.
pub const TEST_STATEIDS_MAX: usize = 4096;

xdr_struct! {
    /// FREE_STATEID: gives up lock state that is no longer needed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FreeStateidArgs {
        /// The state.
        pub stateid: Stateid4,
    }
}

xdr_struct! {
    /// TEST_STATEID: asks whether stateids are still valid.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TestStateidArgs {
        /// The stateids.
        pub stateids: Vec<Stateid4> [<= TEST_STATEIDS_MAX],
    }
}

xdr_struct! {
    /// The successful result of TEST_STATEID.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TestStateidResOk {
        /// The status of each stateid, in the order of the request.
        pub status_codes: Vec<NfsStat4> [<= TEST_STATEIDS_MAX],
    }
}
