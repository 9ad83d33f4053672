//! `nemesis`: lets real servers fail by a seed while clients work, and judges the answers to the clients.
//!
//! It exits with 0 when every promise was kept, with 3 when a promise was broken, and with 1 when the run could not be done.
//!
//! What must never enter: anything a test would want to call.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use nemesis::schedule::{Kind, Profile};
use nemesis::world::Together;
use nemesis::{report, run};
use testbed::Requirements;

/// Needed when servers are lost for good.
const HELD_BY_MAJORITY: &str = "[replication]\ndurability = \"majority\"\n";

/// Keys of handles at data servers change while a run lasts.
const CHANGES_KEYS: &str = "[pool]\nkey_life = \"10 s\"\n";

/// Joined servers read and write at the data servers for their clients; all files are small here.
const DIRECT: &str = "direct_size = 0\n";

/// Directories live where clients make them.
const MAKES_DIRECTORIES: &str = "makes_directories = true\n";

/// The exit code of a broken promise.
const BROKEN: u8 = 3;

/// Lets servers at several sites fail while clients work, and judges what the clients were answered
#[derive(Debug, Parser)]
#[command(name = "nemesis")]
struct Arguments {
    /// Draws faults and work; the same seed draws the same faults [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
    /// For how long things fail
    #[arg(long, value_name = "MINUTES", default_value_t = 2.0)]
    minutes: f64,
    /// How many sites: 3 or 5
    #[arg(long, default_value_t = 3)]
    sites: usize,
    /// Kinds of faults; `none` for a run without [default: all]
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Let a majority fail at once; of a pool, any number
    #[arg(long)]
    majority: bool,
    /// Let servers be removed from the set, too, stopped or running, be lost for good with their disks, or be put back to an older copy
    /// of their data, and replace them; everything is held by a majority then
    #[arg(long, conflicts_with_all = ["majority", "rolling"])]
    lose: bool,
    /// Instead of drawn faults, restart every server once, one after another, as for an upgrade
    #[arg(long, conflicts_with_all = ["faults", "majority"])]
    rolling: bool,
    /// Let the last site have a witness, which keeps no contents, and no clients
    #[arg(long)]
    witness: bool,
    /// Let the second site's member of the set keep its contents on three data servers of its own, which fail, too
    #[arg(long, conflicts_with_all = ["lose", "witness", "pool"])]
    member_pool: bool,
    /// Let the servers be a pool instead of a set: clients work at two metadata servers (three of five), the others are data servers
    #[arg(long, conflicts_with_all = ["lose", "witness"])]
    pool: bool,
    /// Let the metadata servers of a pool that have joined be homes of the directories that clients make there
    #[arg(long, requires = "pool")]
    homes: bool,
    /// The time from one site to another and back, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60)]
    round_trip: u64,
    /// Let the client of a Linux kernel work at every site, too (User Mode Linux)
    #[arg(long)]
    kernels: bool,
    /// Waits longer than this, at sites that suffer nothing, are violations
    #[arg(long, value_name = "SECONDS")]
    stall_limit: Option<u64>,
    /// A file with more of the servers' configuration
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// The server program [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    meridian: Option<PathBuf>,
    /// Where a folder for the run is made
    #[arg(long, value_name = "DIR", default_value = "target/nemesis")]
    output: PathBuf,
}

fn main() -> ExitCode {
    match carry_out(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(error) => {
            eprintln!("nemesis: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every promise was kept.
fn carry_out(arguments: &Arguments) -> Result<bool> {
    ensure!(
        matches!(arguments.sites, 3 | 5),
        "a run has 3 or 5 sites, not {}",
        arguments.sites
    );
    ensure!(
        (0.1..=600.0).contains(&arguments.minutes),
        "a run takes 0.1 to 600 minutes"
    );
    let needs = match arguments.kernels {
        true => Requirements::guest(),
        false => Requirements::site(),
    };
    let needs = needs.with_wan();
    if !needs.admit("nemesis, which needs sites and a WAN between them")? {
        bail!("there is no WAN on this machine, see above");
    }
    let seed = arguments.seed.unwrap_or_else(new_seed);
    let kind = together(arguments);
    let order = run::Order {
        profile: Profile {
            seed,
            sites: arguments.sites,
            data_servers: kind.data_servers(),
            length: Duration::from_secs_f64(arguments.minutes * 60.0),
            kinds: kinds(&arguments.faults, arguments.lose)?,
            majority: arguments.majority,
            rolling: arguments.rolling,
        },
        kind,
        round_trip: Duration::from_millis(arguments.round_trip),
        homes: arguments.homes,
        kernels: arguments.kernels,
        stall_limit: arguments.stall_limit.map(Duration::from_secs),
        settings: match (&arguments.settings, arguments.lose) {
            (Some(file), _) => std::fs::read_to_string(file)
                .with_context(|| format!("could not read {}", file.display()))?,
            (None, true) => HELD_BY_MAJORITY.to_owned(),
            (None, false) if arguments.homes => {
                format!("{CHANGES_KEYS}{DIRECT}{MAKES_DIRECTORIES}")
            }
            (None, false) if kind.has_layouts() => format!("{CHANGES_KEYS}{DIRECT}"),
            (None, false) => String::new(),
        },
        program: program(arguments.meridian.as_deref())?,
        folder: run::folder(&arguments.output, seed)?,
    };
    eprintln!("nemesis: seed {seed}");
    let outcome = run::run(&order)?;
    report::write(&order, &outcome)?;
    print!("{}", report::in_short(&order, &outcome));
    Ok(outcome.violations.is_empty())
}

fn together(arguments: &Arguments) -> Together {
    match arguments {
        _ if arguments.pool => Together::Pool,
        _ if arguments.member_pool => Together::SetWithPool,
        _ if arguments.witness => Together::SetWithWitness,
        _ => Together::Set,
    }
}

fn kinds(words: &[String], lose: bool) -> Result<Vec<Kind>> {
    let mut kinds = named(words)?;
    ensure!(
        lose || !kinds.iter().any(|kind| kind.is_final()),
        "say --lose with --faults remove, expel, lose or rollback: what is lost has to be held by others"
    );
    if lose && !kinds.iter().any(|kind| kind.is_final()) {
        kinds.extend(Kind::FINAL);
    }
    Ok(kinds)
}

fn named(words: &[String]) -> Result<Vec<Kind>> {
    match words {
        [] => Ok(Kind::PASSING.to_vec()),
        [none] if none == "none" => Ok(Vec::new()),
        words => {
            let kinds = words.iter().map(|word| {
                let kind = <Kind as clap::ValueEnum>::from_str(word, false);
                kind.map_err(|_| anyhow::anyhow!("there is no fault `{word}`; write kill, restart, stop, cut, oneway, fill, slow, skew, jump, remove, expel, lose, rollback or none"))
            });
            kinds.collect()
        }
    }
}

fn program(named: Option<&Path>) -> Result<PathBuf> {
    let program = match named {
        Some(named) => named.to_owned(),
        None => std::env::current_exe()?.with_file_name("meridian"),
    };
    let advice = || {
        format!(
            "there is no {}; run `cargo build --package meridian`, or name it with --meridian",
            program.display()
        )
    };
    program.canonicalize().with_context(advice)
}

/// A seed that changes every second.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() % 1_000_000_000)
}
