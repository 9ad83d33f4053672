//! The testbed from the command line, for `make demo` and for looking at things by hand.
//!
//! What must never enter: anything a test cannot also do through the library.
fn main() {}
