//! `bench paper`: the experiments of the papers repeated, extended, and shown beside what the papers say.
//!
//! An experiment (`experiment::Experiment`) has points (a panel, a series, a place on the axis), and every point is measured in several
//! trials. What comes out of one trial at one point is a line of JSON in a file of the experiment (`raw`), written at once:
//! a run that was interrupted goes on where it was. Tables (`table`), plots (`plot`) and pages (`page`) are
//! made of these files alone, with means and spreads over the trials (`statistics`). Each experiment has a page of its own
//! and is published for itself (`publish`); an `index` lists them all.
//!
//! A trial counts only when it was valid: the copy at another site was compared with what was written, and every
//! server ran and took part all the time. What is not valid ends the experiment with its reason; other experiments go on, and
//! the command fails in the end. Where a peer is missing nothing is begun.
//!
//! A new experiment is a file that implements `Experiment` and a line in `list`.
//!
//! What must never enter: figures that were not measured, and points left out without a word.

mod experiment;
mod field;
mod files;
mod grid;
mod index;
mod kernel_build;
mod list;
mod page;
mod peers;
mod plan;
mod plot;
mod progress;
mod publish;
mod raw;
mod run;
mod scale;
mod sharing;
mod ssh_build;
mod statistics;
mod strategies;
mod table;
mod today;
mod wan_bytes;

pub(crate) use run::run;
