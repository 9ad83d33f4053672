//! A pool: files striped over data servers and named by metadata servers. What both kinds of server have to agree on, as a pure core.
//!
//! A **placement** ([`Placement`]) says where the contents of a file lie: on which data servers ([`DeviceGroup`]), and with which stripe
//! unit. [`Stripes`] is the arithmetic of a placement. A **handle** ([`Handle`]) is what a client shows a data server in place of an open:
//! a capability that the file's home has sealed for that server alone.
//!
//! [`home::Home`] decides which clients get handles of a file and when the handles end. [`data_server::DataServer`] decides whether a
//! request with a handle may be carried out now. Time, messages and requests are arguments, and commands are results.
//!
//! The rules are numbered in `docs/design/striping.md`. What must never enter: NFS and its wire types, sockets, disks, clocks, and
//! how a tree is stored. Bytes from other machines are checked and, if invalid, refused.

#![forbid(unsafe_code)]

pub mod data_server;
mod device_group;
mod handle;
pub mod home;
mod keys;
mod lease;
mod listing;
mod message;
mod numbers;
mod placement;
mod rules;
mod stripe_unit;
mod stripes;
mod wire;

pub use device_group::{DeviceGroup, InvalidDeviceGroup, MAX_DATA_SERVERS};
pub use handle::{Access, Capability, HANDLE_BYTES, Handle, Refused};
pub use keys::{HandleKey, HandleKeys, KeySource};
pub use lease::{LeaseClock, LeaseSettings};
pub use listing::Listing;
pub use message::{
    Act, ContentsId, Holding, Intent, IntentNumber, Report, StoreIdentity, ToDataServer, ToHome,
};
pub use numbers::{
    DataServerNumber, DeviceGroupNumber, Generation, HomeNumber, IssueNumber, KeyNumber,
    PlacementNumber, PoolId,
};
pub use placement::{LayoutKind, Placement};
pub use rules::Rules;
pub use stripe_unit::{InvalidStripeUnit, StripeUnit};
pub use stripes::{Segment, Segments, StripeMismatch, Stripes};

/// For fuzzing: decodes arbitrary bytes as everything that comes from a disk, a client or another server. What decodes must encode to the
/// same bytes, and a handle is refused unless the present key has sealed it.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    if let Ok(placement) = Placement::decode(bytes) {
        assert_eq!(placement.encode(), bytes, "{placement:?}");
    }
    if let Ok(group) = DeviceGroup::decode(bytes) {
        assert_eq!(group.encode(), bytes, "{group:?}");
    }
    if let Ok(message) = ToHome::decode(bytes) {
        assert_eq!(message.encode(), bytes, "{message:?}");
    }
    if let Ok(message) = ToDataServer::decode(bytes) {
        assert_eq!(message.encode(), bytes, "{message:?}");
    }
    if let Ok(holding) = Holding::decode(bytes) {
        assert_eq!(holding.encode(), bytes, "{holding:?}");
    }
    if let Ok(listing) = Listing::decode(bytes) {
        assert_eq!(listing.encode(), bytes, "{listing:?}");
    }
    let (server, keys) = (
        DataServerNumber(1),
        HandleKeys::new(HandleKey::new(KeyNumber(1), [7; 32])),
    );
    if let Ok(capability) = Capability::open(bytes, server, |_| Some(&keys)) {
        let sealed = keys.current().seal(&capability, server);
        assert_eq!(sealed.as_bytes(), bytes, "{capability:?}");
    }
}
