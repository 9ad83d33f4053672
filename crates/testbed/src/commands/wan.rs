//! `testbed wan`: a WAN for shells.
//!
//! `up` runs one in the foreground. The other commands are passed to a running WAN, which
//! interprets them.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use testbed::measure::round_trips;
use testbed::{LinkSettings, Requirements, Site, Wan, WanControl};

use super::wan_measure;

/// The text about it in `testbed --help`.
pub(crate) const USAGE: &str = "\
       testbed wan up --sites NAME,NAME,... [LINK OPTIONS] [--until-eof]
           Make sites, each a network namespace, and join them. Print their names, addresses and
           namespaces, then `ready`, and stay until Ctrl-C, or until the end of standard input.
           Everything vanishes with this process, however it ends.
       testbed wan set A B [LINK OPTIONS] [--one-way]
           Change settings between two sites, both ways or only from A to B.
       testbed wan cut A B [--one-way]
       testbed wan heal [A B [--one-way]]
           Stop and resume all traffic between two sites. `heal` alone resumes everything.
       testbed wan partition A,B,...
           Cut these sites off from the others.
       testbed wan show
           Print each link with its settings and counters.
       testbed wan sites
           Print each site with its address and namespace.
       testbed wan exec SITE COMMAND...
           Run a command in a site.
       testbed wan ping A B
           Print how long ten small packets took from A to B and back.
       testbed wan measure
           Make a WAN of its own and print what delays and throughput really are.

link options:
  --delay TIME         one way, such as 60ms (0)
  --jitter TIME        each frame takes longer by up to this (0)
  --loss SHARE         such as 0.1% (0)
  --bandwidth RATE     such as 1gbit (unlimited)
  --queue BYTES        space in front of the wire, such as 256k (100 ms at the bandwidth)

All but `up` and `measure` take --control PATH first; without it they speak to the only WAN that runs.";

/// Carries out the words after `testbed wan`.
pub(crate) fn command(words: Vec<String>) -> Result<ExitCode> {
    let (control, words) = match &words[..] {
        [option, path, rest @ ..] if option == "--control" => (Some(WanControl::at(path)), rest),
        _ => (None, &words[..]),
    };
    let control = || control.map_or_else(WanControl::find, Ok);
    match words.split_first() {
        Some((word, rest)) if word == "up" => up(rest)?,
        Some((word, [])) if word == "measure" => wan_measure::measure()?,
        Some((word, rest)) if word == "exec" => exec(&control()?, rest)?,
        Some((word, rest)) if word == "ping" => ping(&control()?, rest)?,
        Some(_) => print!("{}", control()?.ask(words)?),
        None => bail!("`wan` needs a command; see `testbed --help`"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if this machine cannot run a WAN.
pub(crate) fn require() -> Result<()> {
    match Requirements::site().with_wan().lacks().first() {
        Some(lack) => bail!("{lack}"),
        None => Ok(()),
    }
}

fn up(words: &[String]) -> Result<()> {
    let mut names = Vec::new();
    let mut settings = LinkSettings::default();
    let mut until_eof = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--sites" => names = value()?.split(',').collect(),
            "--until-eof" => until_eof = true,
            _ => settings.set(word, value()?)?,
        }
    }
    require()?;
    // Blocked before any thread starts, so that all threads leave these signals to `wait_for_end`.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block()?;
    let sites: Vec<Site> = names.iter().map(|_| Site::new()).collect::<Result<_>>()?;
    let pairs: Vec<(&str, &Site)> = names.into_iter().zip(&sites).collect();
    let wan = Wan::join(&pairs, &settings)?;
    let control = WanControl::at(wan.control_path());
    print!("{}", control.ask(&["sites"])?);
    println!("control {}", wan.control_path().display());
    println!("ready");
    wait_for_end(&signals, until_eof)
}

/// Waits for one of the signals, or for the end of standard input.
fn wait_for_end(signals: &SigSet, until_eof: bool) -> Result<()> {
    if until_eof {
        std::thread::spawn(|| {
            // An input that cannot be read has ended too.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            kill(Pid::this(), Signal::SIGTERM)
        });
    }
    signals.wait()?;
    Ok(())
}

fn ping(control: &WanControl, words: &[String]) -> Result<()> {
    let [from, to] = words else {
        bail!("`ping` needs two sites");
    };
    let (near, far) = (control.site(from)?, control.site(to)?);
    let times = round_trips(&near, &far, control.address(to)?, 10)?;
    let [least, middle, most] = [0, times.len() / 2, times.len() - 1].map(|at| times[at]);
    println!("{from} to {to} and back: least {least:.3?}, median {middle:.3?}, most {most:.3?}");
    Ok(())
}

/// Becomes the command.
fn exec(control: &WanControl, words: &[String]) -> Result<()> {
    let [site, program, rest @ ..] = words else {
        bail!("`exec` needs a site and a command");
    };
    let site = control.site(site)?;
    let mut command = site.command(program);
    // This process is about to become the command, and then cannot remove the site's folder.
    drop(site);
    Err(command.args(rest).exec()).context("could not start `ip`, of Debian's package iproute2")
}
