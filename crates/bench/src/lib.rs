//! The instruments of all measurements, and the one way from a trial to a page.
//!
//! A trial at a point (`trial`) gives figures, which are stored as a line of JSON at once (`raw`). Tables (`table`), charts
//! (`chart`, drawn by the crate `plot`) and pages (`page`) are made only from these lines, with means, medians and spreads over the
//! trials (`statistics`). `bench server` and the experiments of the crate `evaluation` work this way.
//!
//! Every measurement also needs: the servers' programs (`program`), a client (`client`), a folder on the disk (`work_folder`), the
//! machine's description (`machine`), processor time (`processor`), waiting times (`waiting`), assigned processors (`affinity`), latencies (`tally`).
//!
//! What must never enter: what is measured.

#![forbid(unsafe_code)]

pub mod affinity;
pub mod chart;
pub mod client;
pub mod machine;
pub mod page;
pub mod processor;
pub mod program;
pub mod raw;
pub mod statistics;
pub mod table;
pub mod tally;
pub mod trial;
pub mod waiting;
pub mod work_folder;
