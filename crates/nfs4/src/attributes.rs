//! Attributes of objects: their numbers, the types only they have, and their
//! values together. Servers decide which attributes an object has.

mod number;
mod types;
mod values;

pub use number::Attr;
pub use types::{
    ChangeAttrType4, FsLocation4, FsLocations4, FsLocationsInfo4, FsLocationsItem4,
    FsLocationsServer4, LayoutTypes4, ModeUmask4, Pathname4, Settime4, aclsupport, fh_expire, fsli,
};
pub use values::{AttributeError, Attributes4};
