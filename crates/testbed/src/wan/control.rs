//! Commands for a running WAN from other processes, over a Unix socket in the folder of its first
//! site.
//!
//! A request is one line with the words of `testbed wan`. The answer is `ok` or `error REASON`, and then lines of text.
//! A process that can open the socket is root anyway.
//!
//! What must never enter: anything that [`Wan`] cannot do for Rust.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;

use super::{Link, Wan, addresses, units};
use crate::site::{Site, work_base};

/// The socket's name in the site's folder.
const SOCKET: &str = "wan.sock";

/// The longest time that either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest question.
const QUESTION_MAX: u64 = 4096;

/// The end in the process that runs the WAN. Dropping it ends its thread and removes the socket.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(folder: &Path, wan: Wan) -> Result<Self> {
        let path = folder.join(SOCKET);
        let socket = UnixListener::bind(&path)
            .with_context(|| format!("could not listen at {}", path.display()))?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || listen(&socket, &stopped, &wan));
        Ok(Self {
            path,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The thread reads both; neither write can fail while it lives.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers one question after another until it is told to stop.
fn listen(socket: &UnixListener, stop: &OwnedFd, wan: &Wan) {
    let mut watched = [
        PollFd::new(socket, PollFlags::IN),
        PollFd::new(stop, PollFlags::IN),
    ];
    loop {
        if poll(&mut watched, None).is_err() {
            continue;
        }
        if !watched[1].revents().is_empty() {
            return;
        }
        // A client that gave up in between needs no answer.
        let _ = socket
            .accept()
            .map_err(anyhow::Error::from)
            .and_then(|(stream, _)| answer(stream, wan));
    }
}

fn answer(mut stream: UnixStream, wan: &Wan) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new((&stream).take(QUESTION_MAX)).read_line(&mut question)?;
    let answer = match obey(wan, &question) {
        Ok(text) => format!("ok\n{text}"),
        Err(error) => format!("error {error:#}\n"),
    };
    Ok(stream.write_all(answer.as_bytes())?)
}

/// Carries out the request in a line of words.
fn obey(wan: &Wan, question: &str) -> Result<String> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let one_way = words.contains(&"--one-way");
    let words: Vec<&str> = words.into_iter().filter(|w| *w != "--one-way").collect();
    match words[..] {
        ["show"] => return table(wan),
        ["sites"] => return sites(wan),
        ["set", a, b, ref changes @ ..] => {
            return each(wan, a, b, one_way, |link| change(link, changes));
        }
        ["cut", a, b] => return each(wan, a, b, one_way, |link| link.cut()),
        ["heal", a, b] => return each(wan, a, b, one_way, |link| link.heal()),
        ["heal"] => wan.heal_all()?,
        ["partition", group] => wan.partition(&group.split(',').collect::<Vec<_>>())?,
        _ => bail!("this is no command for a WAN; see `testbed --help`"),
    }
    Ok(String::new())
}

/// Does the same to both directions between two sites, or to the first only.
fn each(
    wan: &Wan,
    a: &str,
    b: &str,
    one_way: bool,
    act: impl Fn(&Link) -> Result<()>,
) -> Result<String> {
    act(&wan.link(a, b)?)?;
    if !one_way {
        act(&wan.link(b, a)?)?;
    }
    Ok(String::new())
}

fn change(link: &Link, changes: &[&str]) -> Result<()> {
    ensure!(
        !changes.is_empty() && changes.len().is_multiple_of(2),
        "`set` takes settings, each with a value, such as --delay 60ms"
    );
    let changes: Vec<String> = changes.iter().map(|word| (*word).to_owned()).collect();
    link.update(move |settings| {
        let mut pairs = changes.chunks_exact(2);
        pairs.try_for_each(|pair| settings.set(&pair[0], &pair[1]))
    })
}

/// The columns of `show` and their widths, for links as they are in most tests.
const COLUMNS: [(&str, usize); 12] = [
    ("FROM", 10),
    ("TO", 10),
    ("STATE", 5),
    ("DELAY", 8),
    ("JITTER", 7),
    ("LOSS", 6),
    ("BANDWIDTH", 9),
    ("PACKETS", 9),
    ("BYTES", 13),
    ("DROPPED", 8),
    ("DROPPED-BYTES", 13),
    ("LATE-MEAN", 11),
];

/// One line per link. Columns are numbers and words without spaces, so that scripts can read them.
fn table(wan: &Wan) -> Result<String> {
    let mut table = line(COLUMNS.map(|(name, _)| name.to_owned()));
    for link in wan.links() {
        table += &line(row(&link)?);
    }
    Ok(table)
}

fn row(link: &Link) -> Result<[String; COLUMNS.len()]> {
    let report = link.report()?;
    let (settings, traffic) = (report.settings, report.traffic);
    Ok([
        link.from().to_owned(),
        link.to().to_owned(),
        if report.is_cut { "cut" } else { "up" }.to_owned(),
        units::show_time(settings.delay),
        units::show_time(settings.jitter),
        format!("{}%", settings.loss * 100.0),
        units::show_rate(settings.bandwidth),
        traffic.packets.to_string(),
        traffic.bytes.to_string(),
        traffic.dropped_packets.to_string(),
        traffic.dropped_bytes.to_string(),
        units::show_time(report.lateness.mean()),
    ])
}

/// Aligned cells, with two spaces before each.
fn line(cells: [String; COLUMNS.len()]) -> String {
    let padded = cells.into_iter().zip(COLUMNS);
    let padded = padded.map(|(cell, (_, width))| format!("{cell:width$}"));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
}

/// One line per site: name, address, namespace.
fn sites(wan: &Wan) -> Result<String> {
    let lines = wan.names().iter().map(|name| {
        let namespace = wan.site(name)?.namespace();
        Ok(format!("{name} {} {namespace}\n", wan.address(name)?))
    });
    lines.collect()
}

/// A WAN that another process runs.
#[derive(Clone, Debug)]
pub struct WanControl {
    path: PathBuf,
}

impl WanControl {
    /// The WAN that listens at this socket; see [`Wan::control_path`].
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The only WAN that runs on this machine.
    ///
    /// # Errors
    /// Fails when there is none, and names them when there are several.
    pub fn find() -> Result<Self> {
        let mut found = Vec::new();
        for folder in std::fs::read_dir(work_base()?)? {
            let path = folder?.path().join(SOCKET);
            // A socket whose process died refuses.
            if UnixStream::connect(&path).is_ok() {
                found.push(path);
            }
        }
        let [path] = &found[..] else {
            let listed: Vec<_> = found.iter().map(|path| path.to_string_lossy()).collect();
            ensure!(
                !found.is_empty(),
                "no WAN runs here; start one by `testbed wan up`"
            );
            bail!(
                "several WANs run here; name one by --control:\n{}",
                listed.join("\n")
            );
        };
        Ok(Self::at(path))
    }

    /// Sends a request with the words of `testbed wan`, such as `set a b --delay 60ms`, and returns what it prints.
    ///
    /// # Errors
    /// Fails with the WAN's own message when it refuses.
    pub fn ask(&self, words: &[impl AsRef<str>]) -> Result<String> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        ensure!(
            words.iter().all(|word| !word.contains(char::is_whitespace)),
            "words for a WAN have no spaces"
        );
        let mut stream = UnixStream::connect(&self.path)
            .with_context(|| format!("no WAN listens at {}", self.path.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{}", words.join(" "))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once('\n') {
            Some(("ok", text)) => Ok(text.to_owned()),
            _ => bail!("{}", answer.trim().trim_start_matches("error ")),
        }
    }

    /// A site of that WAN, for services and guests of this process. The site itself is not removed
    /// with the value.
    pub fn site(&self, name: &str) -> Result<Site> {
        let (index, namespace) = self.find_site(name)?;
        let site = Site::of_another_process(&namespace)?;
        site.number_guests(addresses::guests(index));
        Ok(site)
    }

    /// The address under which the other sites reach this one.
    pub fn address(&self, name: &str) -> Result<IpAddr> {
        let (index, _) = self.find_site(name)?;
        Ok(addresses::site(index).into())
    }

    /// The index and the namespace of a site.
    fn find_site(&self, name: &str) -> Result<(usize, String)> {
        let sites = self.ask(&["sites"])?;
        for (index, line) in sites.lines().take(addresses::SITES_MAX).enumerate() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                [known, _, namespace] if known == name => {
                    return Ok((index, namespace.to_owned()));
                }
                _ => {}
            }
        }
        bail!("the WAN has no site '{name}'")
    }
}
