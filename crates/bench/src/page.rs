//! The published page: the words of `page.md` around the tables of one run.
//!
//! What must never enter: figures; they come from the report.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::contender::Kind;
use crate::report::Report;

/// The page with places in braces.
const TEMPLATE: &str = include_str!("../page.md");

/// Rewrites the page with the figures of this run.
pub(crate) fn publish(file: &Path, date: &str, report: &Report) -> Result<()> {
    ensure!(is_date(date), "'{date}' is no date; write it as 2026-01-31");
    let known = fs::read_to_string(file).unwrap_or_default();
    let [_, replication, failover] = split(&known);
    write(file, &(text(date, report) + replication + failover))
}

/// Replaces the section on replication, and leaves the rest.
pub(crate) fn publish_replication(file: &Path, date: &str, section: &str) -> Result<()> {
    ensure!(is_date(date), "'{date}' is no date; write it as 2026-01-31");
    let known = fs::read_to_string(file).unwrap_or_default();
    let [rest, _, failover] = split(&known);
    let section = section.trim_end();
    write(
        file,
        &format!("{}\n\n{section}\n{failover}", rest.trim_end()),
    )
}

/// Replaces the section on failover, which is the page's end, and leaves the rest.
pub(crate) fn publish_failover(file: &Path, date: &str, section: &str) -> Result<()> {
    ensure!(is_date(date), "'{date}' is no date; write it as 2026-01-31");
    let known = fs::read_to_string(file).unwrap_or_default();
    let [rest, replication, _] = split(&known);
    let before = format!("{rest}{replication}");
    write(file, &format!("{}\n\n{section}", before.trim_end()))
}

/// The page before the section on replication, that section, and the section on failover.
fn split(page: &str) -> [&str; 3] {
    let (rest, failover) = page.split_at(page.find("\n## Failover\n").unwrap_or(page.len()));
    let (page, replication) = rest.split_at(rest.find("\n## Replication\n").unwrap_or(rest.len()));
    [page, replication, failover]
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| {
        format!(
            "could not write {}; run it in the repository",
            file.display()
        )
    })?;
    eprintln!("bench: {} is written", file.display());
    Ok(())
}

fn text(date: &str, report: &Report) -> String {
    let conditions = &report.conditions;
    let machine = &conditions.machine;
    let places = [
        ("{date}", date.to_owned()),
        ("{meridian}", conditions.meridian.clone()),
        ("{ganesha}", conditions.ganesha.clone()),
        ("{rounds}", conditions.rounds.to_string()),
        ("{length}", conditions.length.as_secs_f64().to_string()),
        ("{data}", (conditions.data_size >> 20).to_string()),
        ("{entries}", conditions.entries.to_string()),
        ("{others}", format!("{:.0}", report.others * 100.0)),
        (
            "{async_table}",
            report.throughput(Kind::MeridianAsync, Kind::Ganesha),
        ),
        (
            "{sync_table}",
            report.throughput(Kind::MeridianSync, Kind::GaneshaDirsync),
        ),
        ("{costs_table}", report.costs()),
    ];
    let mut page = machine.fill(TEMPLATE);
    for (place, value) in places {
        page = page.replace(place, value.trim_end());
    }
    page
}

/// Whether it is written as 2026-01-31 is.
pub(crate) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [4, 2, 2] && parts.concat().bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_other_benchmarks_are_the_pages_end() {
        let page = "# Page\n\nrest\n\n## Replication\n\nsection\n\n## Failover\n\nend\n";
        let (rest, replication) = ("# Page\n\nrest\n", "\n## Replication\n\nsection\n");
        assert_eq!(split(page), [rest, replication, "\n## Failover\n\nend\n"]);
        assert_eq!(split("# Page\n"), ["# Page\n", "", ""]);
        let without = format!("{rest}\n## Failover\n");
        assert_eq!(split(&without), [rest, "", "\n## Failover\n"]);
    }

    #[test]
    fn dates_are_told_from_other_words() {
        assert!(is_date("2026-01-31"));
        assert!(!is_date("today"));
        assert!(!is_date("31-01-2026"));
    }
}
