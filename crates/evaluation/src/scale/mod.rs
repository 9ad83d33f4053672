//! Scale in theory and in simulation: the cost of an update in sets of 2 to 64 replicas all over the world.
//!
//! The cores of replication control are the real ones; the crate `sim` carries their messages over virtual links and
//! lets virtual time pass. Nothing is served, stored or sent.
//!
//! - `cities`: places, distances, delays;
//! - `set`: a set of replicas in cities drawn by the trial;
//! - `series`: panels and series;
//! - `work`, `contend`, `update`: the work of clients;
//! - `count`: messages and bytes;
//! - `rules`: the expectations from the rules;
//! - `shown`: tables, plots, and their bends.
//!
//! What must never enter: real time, and a figure from the rules in place of a counted one.

mod bend;
mod cities;
mod contend;
mod count;
mod rules;
mod series;
mod set;
mod shown;
mod update;
mod work;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::statistics::Results;
use bench::trial::{Job, Outcome, Point};
use control::Contention;
use series::{Amount, BURST, CONTEND, CONTENTIONS, LAID_OUT, LAY_OUT, MAKE, SINGLE, UNPACK, WRITE};
use set::Places;
use testbed::Requirements;

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::Field;
use work::Single;

/// Counts in the hash of settings: raised when simulation or cities change.
const VERSION: u32 = 1;

/// The experiment.
#[derive(Debug)]
pub(crate) struct Scale;

impl Experiment for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn needs(&self) -> Requirements {
        Requirements::default()
    }

    fn settings(&self, extent: Extent) -> String {
        format!(
            "{VERSION} {:?} {} {} {:?} {:?} {} {:?} {} {LAID_OUT:?}",
            Amount::of(extent),
            cities::STRETCH,
            set::JITTER_PERCENT,
            work::APART,
            work::FILE_EVERY,
            work::FILES_A_DIRECTORY,
            contend::EVERY,
            contend::COMMON_ONE_IN,
        )
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let counts: &[u16] = extent.choose(&[2, 3, 4, 6, 8, 16, 32, 64], &[2, 4, 16]);
        let at = |count: &u16| {
            let single = [MAKE, WRITE].map(|series| Point::new(SINGLE, series, count));
            let contend = CONTENTIONS.map(|(series, _)| Point::new(CONTEND, series, count));
            let burst = [Point::new(BURST, UNPACK, count)];
            let laid_out = LAID_OUT.map(|(series, ..)| Point::new(LAY_OUT, series, count));
            let all = single.into_iter().chain(burst);
            all.chain(contend).chain(laid_out)
        };
        counts.iter().flat_map(at).collect()
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let replicas: u32 = point.x.parse().unwrap_or(0);
        replicas * extent.choose(Duration::from_millis(20), Duration::from_millis(2))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for job in jobs {
            let amount = Amount::of(field.extent);
            let outcome = simulate(&job.point, job.trial, amount);
            book.keep(job, outcome.with_context(|| job.to_string())?)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        shown::shown(results, Amount::of(extent))
    }
}

/// Runs one trial at one point: the means of its draws.
fn simulate(point: &Point, trial: u32, amount: Amount) -> Result<Outcome> {
    let replicas: u16 = point.x.parse().context("no number of replicas")?;
    let mut sums = Outcome::new();
    for draw in 0..amount.draws {
        let seed = u64::from(trial) << 16 | u64::from(draw);
        let drawn = simulate_once(point, seed, replicas, amount);
        for (figure, value) in drawn.with_context(|| format!("seed {seed}"))? {
            *sums.entry(figure).or_default() += value / f64::from(amount.draws);
        }
    }
    if let Some(messages) = sums.get("messages_per_update") {
        let each = messages / (f64::from(replicas) - 1.0);
        sums.insert("messages_per_other".to_owned(), each);
    }
    Ok(sums)
}

fn simulate_once(point: &Point, seed: u64, replicas: u16, amount: Amount) -> Result<Outcome> {
    let no_series = || format!("there is no series {}", point.series);
    match (point.panel.as_str(), point.series.as_str()) {
        (SINGLE, MAKE) => work::single(Single::Make, seed, replicas, amount.single_updates),
        (SINGLE, WRITE) => work::single(Single::Write, seed, replicas, amount.single_updates),
        (BURST, UNPACK) => work::burst(seed, replicas, amount.burst_files),
        (CONTEND, series) => {
            let known = CONTENTIONS.iter().find(|(name, _)| *name == series);
            let (_, contention) = known.with_context(no_series)?;
            let places = Places::draw(seed);
            work::contend(*contention, &places, seed, replicas, amount.updates_a_site)
        }
        (LAY_OUT, series) => {
            let known = LAID_OUT.iter().find(|(name, ..)| *name == series);
            let &(_, first_two, others) = known.with_context(no_series)?;
            let places = Places::Apart { first_two, others };
            let wait = Contention::Wait;
            work::contend(wait, &places, seed, replicas, amount.updates_a_site)
        }
        _ => bail!(no_series()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Amount = Amount {
        single_updates: 4,
        burst_files: 12,
        updates_a_site: 15,
        draws: 2,
    };

    fn figures(panel: &str, series: &str, replicas: u16) -> Outcome {
        simulate(&Point::new(panel, series, replicas), 1, FEW).unwrap()
    }

    #[test]
    fn single_updates_cost_what_the_rules_say() {
        for (replicas, series) in [2, 3, 4, 5]
            .into_iter()
            .flat_map(|n| [(n, MAKE), (n, WRITE)])
        {
            let found = figures(SINGLE, series, replicas);
            assert_eq!(found["proposals_per_update"], 1.0);
            let expected = rules::messages_of_a_control(replicas);
            assert_eq!(
                found["messages_per_update"], expected,
                "{replicas} {series}"
            );
            // One record, and the contents of written files, to each of the others; each confirms.
            assert_eq!(found["all_messages_per_update"], expected * 1.5);
            assert_eq!(found["primary_messages_per_update"], expected * 0.75);
            assert!(found["bytes_per_update"] > found["body_bytes_per_update"]);
        }
    }

    #[test]
    fn making_waits_for_a_majority_and_closing_for_everybody() {
        let jitter = 1.0 + f64::from(set::JITTER_PERCENT) / 100.0;
        for (series, bound) in [(MAKE, "majority_s"), (WRITE, "everybody_s")] {
            for replicas in [2, 4, 7] {
                let found = figures(SINGLE, series, replicas);
                let (took, least) = (found["first_update_s"], found[bound]);
                let fits = (least * 0.999..=least * jitter * 1.001).contains(&took);
                assert!(fits, "{series}, {replicas} replicas: {took}, {least}");
            }
        }
    }

    #[test]
    fn a_burst_costs_one_control_for_the_directory_and_one_for_each_file() {
        for replicas in [2, 4] {
            let found = figures(BURST, UNPACK, replicas);
            let updates = work::updates_of_a_burst(FEW.burst_files);
            assert_eq!(found["updates"], updates as f64);
            let expected = rules::messages_in_a_burst(replicas, FEW.burst_files, updates);
            assert_eq!(found["messages_per_update"], expected);
            assert!(found["mean_update_s"] < found["first_update_s"]);
        }
    }

    #[test]
    fn waiting_takes_more_elections_than_forwarding() {
        let [forward, wait] = ["forward", "wait"].map(|series| figures(CONTEND, series, 4));
        assert!(wait["proposals_per_update"] > forward["proposals_per_update"]);
        assert!(wait["common_s"] > forward["common_s"]);
        for found in [forward, wait] {
            assert!(found["again_per_update"] <= found["proposals_per_update"]);
            // An object made in the common directory is controlled by its maker.
            assert!(found["inherited_per_update"] > 0.0);
        }
    }

    #[test]
    fn trials_repeat_themselves_and_differ_from_each_other() {
        let trial = |number| {
            let point = Point::new(CONTEND, "wait", 3);
            simulate(&point, number, FEW).unwrap()
        };
        assert_eq!(trial(1), trial(1));
        assert_ne!(trial(1), trial(2));
    }
}
