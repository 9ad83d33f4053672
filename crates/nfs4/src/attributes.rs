//! Attributes of objects: their numbers, the types only they have, and their
//! values together. Which of them an object has is a server matter.

mod number;
mod types;
mod values;

pub use number::Attr;
pub use types::{
    ChangeAttrType4, FsLocation4, FsLocations4, FsLocationsInfo4, FsLocationsItem4,
    FsLocationsServer4, LayoutTypes4, ModeUmask4, Pathname4, Settime4, aclsupport, fh_expire, fsli,
};
pub use values::{AttributeError, Attributes4};
