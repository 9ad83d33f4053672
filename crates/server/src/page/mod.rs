//! The status page: how the server and its set are, in a browser, with a little history.
//!
//! The page is drawn here, as HTML, each time it is asked for: its script only fetches the changing part anew and puts
//! it in place of the old one, so there is one rendering, escaped in one place, and the page works without a script
//! as well. Everything in it is what `meridian status` and `meridian frozen` say.
//!
//! What must never enter: anything that changes the server, anything that the page would have to fetch from elsewhere,
//! and the making of metrics, except for the last minutes of two of them.

mod chart;
mod endpoint;
mod history;
mod host;
mod picture;

pub use endpoint::PageError;
pub(crate) use endpoint::{Source, serve};
pub(crate) use history::{History, SAMPLED_EVERY, Sample};
pub(crate) use picture::Facts;
