//! The status page: the state of the server and its set in a browser, with a short history.
//!
//! The server renders the page as HTML for each request. The page's script only fetches the changing part again and
//! replaces the old one. So there is one rendering, escaped in one place, and the page also works without a script. It
//! shows the same information as `meridian status` and `meridian frozen`.
//!
//! What must never enter: anything that changes the server, anything that the page would load from elsewhere, and the
//! making of metrics, except for the recent history of two of them.

mod chart;
mod endpoint;
mod history;
mod host;
mod picture;

pub use endpoint::PageError;
pub(crate) use endpoint::{Source, serve};
pub(crate) use history::{History, SAMPLED_EVERY, Sample};
pub(crate) use picture::Facts;
