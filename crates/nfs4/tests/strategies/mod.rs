//! Random values of every wire type, for property tests. Only shapes are random;
//! whether a value makes sense to a server is of no interest here.

pub mod arguments;
pub mod basics;
pub mod callbacks;
pub mod layouts;
pub mod results;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

/// A strategy for a structure, from one strategy for each of its fields.
macro_rules! fields {
    ($type:ident { $($field:ident : $strategy:expr),* $(,)? }) => {
        ($($strategy,)*).prop_map(|($($field,)*)| $type { $($field),* })
    };
}
pub(crate) use fields;

/// Opaque data of `length` bytes or fewer.
pub fn opaque(length: usize) -> impl Strategy<Value = Bytes> + Clone {
    vec(any::<u8>(), 0..=length).prop_map(Bytes::from)
}

/// Any value of an enumeration.
pub fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}
