//! The thread that moves frames from one site's device to another's, at the times that the lines between them
//! set: the access line out of the sender, the line of the pair, and the access line into the receiver. An access
//! line without limits is left out.
//!
//! One thread does all of this: it owns the lines, so nothing is locked. Between two frames it carries out requests
//! of other threads. It sleeps in one `ppoll` until a frame comes or is due.
//!
//! What must never enter: what happens to packets (`line`) and the format of packets (`frame`).

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, write};
use tun_rs::SyncDevice;

use super::addresses;
use super::buffers::{Buffer, Pool};
use super::frame::Shape;
use super::line::Line;
use super::settings::LinkSettings;
use crate::requirements::search_path;

/// The maximum number of frames taken from one device before the next device.
const TURN: usize = 32;

/// A frame, with the indices of its sites.
pub(crate) struct Frame {
    from: usize,
    to: usize,
    buffer: Buffer,
}

/// Every ordered pair of sites has a line, and every site one out and one in.
pub(crate) struct Lines {
    sites: usize,
    /// The lines of pairs first, then those out of each site, then those into each.
    lines: Vec<Line<Frame>>,
    /// The indices of lines with frames on them, and perhaps of some that were cut since.
    busy: Vec<usize>,
    /// For each line, whether it is in `busy`.
    is_busy: Vec<bool>,
    /// The indices of the sites that have the service addresses.
    services: HashMap<Ipv4Addr, usize>,
}

impl Lines {
    fn new(sites: usize, settings: LinkSettings) -> Self {
        let now = Instant::now();
        let pairs = sites * sites;
        let lines = (0..pairs + 2 * sites).map(|index| {
            let own = index < pairs;
            let settings = if own {
                settings
            } else {
                LinkSettings::default()
            };
            Line::new(settings, index as u64, now)
        });
        Self {
            sites,
            lines: lines.collect(),
            busy: Vec::new(),
            is_busy: vec![false; pairs + 2 * sites],
            services: HashMap::new(),
        }
    }

    /// Gives a service address to a site, or to none. Returns the site that had it.
    pub(crate) fn give(&mut self, address: Ipv4Addr, to: Option<usize>) -> Option<usize> {
        match to {
            Some(to) => self.services.insert(address, to),
            None => self.services.remove(&address),
        }
    }

    /// The index of the site that an address belongs to now.
    fn index(&self, address: Ipv4Addr) -> Option<usize> {
        let service = self.services.get(&address).copied();
        service.or_else(|| addresses::index(address).filter(|index| *index < self.sites))
    }

    /// One of the lines.
    pub(crate) fn at(&mut self, which: Which) -> &mut Line<Frame> {
        let index = self.place(which);
        &mut self.lines[index]
    }

    fn place(&self, which: Which) -> usize {
        let pairs = self.sites * self.sites;
        match which {
            Which::Between(from, to) => from * self.sites + to,
            Which::OutOf(site) => pairs + site,
            Which::Into(site) => pairs + self.sites + site,
        }
    }

    /// The line after this one for a frame, or its first line; none if the frame has arrived.
    fn after(&self, line: Option<usize>, frame: &Frame) -> Option<usize> {
        let (from, to) = (frame.from, frame.to);
        let way = [
            Which::OutOf(from),
            Which::Between(from, to),
            Which::Into(to),
        ];
        let way = way.map(|which| self.place(which));
        let done = line.map_or(0, |line| {
            way.iter().take_while(|one| **one != line).count() + 1
        });
        let pairs = self.sites * self.sites;
        let bounds =
            |line: &usize| *line < pairs || self.lines[*line].settings() != LinkSettings::default();
        way.into_iter().skip(done).find(bounds)
    }

    /// Notes that there is something on a line.
    fn wake(&mut self, line: usize) {
        if !std::mem::replace(&mut self.is_busy[line], true) {
            self.busy.push(line);
        }
    }
}

/// A line, by the indices of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// From one site to another.
    Between(usize, usize),
    /// From a site to all others.
    OutOf(usize),
    /// To a site from all others.
    Into(usize),
}

/// A request to the forwarder's thread.
type Work = Box<dyn FnOnce(&mut Lines) + Send>;

/// A running forwarder. Dropping it ends the thread and closes the devices.
#[derive(Debug)]
pub(crate) struct Forwarder {
    inbox: Option<Sender<Work>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts to forward between these devices, of which each belongs to the site of its index.
    pub(crate) fn start(devices: Vec<SyncDevice>, settings: LinkSettings) -> Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (inbox, work) = mpsc::channel();
        let mut traffic = Loop {
            lines: Lines::new(devices.len(), settings),
            pool: Pool::default(),
            survivors: Vec::new(),
            work,
        };
        let woken = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("wan".into())
            .spawn(move || traffic.run(&devices, &woken))?;
        Ok(Self {
            inbox: Some(inbox),
            wake,
            thread: Some(thread),
        })
    }

    /// Runs a request between two frames, and waits for the answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Lines) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let work = move |lines: &mut Lines| {
            // The caller waits below, so the answer is always taken.
            let _ = answer.send(work(lines));
        };
        let sent = self.inbox.as_ref().map(|inbox| inbox.send(Box::new(work)));
        sent.and_then(Result::ok)
            .context("the WAN's forwarder has ended")?;
        self.ring();
        answered.recv().context("the WAN's forwarder has ended")
    }

    fn ring(&self) {
        // Fails only where the counter is full, and then the thread is awake anyway.
        let _ = write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        drop(self.inbox.take());
        self.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Loop {
    lines: Lines,
    pool: Pool,
    /// Space for the runs of one frame, kept between frames.
    survivors: Vec<Range<u32>>,
    work: Receiver<Work>,
}

impl Loop {
    fn run(&mut self, devices: &[SyncDevice], wake: &OwnedFd) {
        expedite();
        let mut scratch = self.pool.largest();
        let mut watched: Vec<PollFd> = devices
            .iter()
            .map(|device| PollFd::new(device, PollFlags::IN))
            .collect();
        watched.push(PollFd::new(wake, PollFlags::IN));
        while self.obey() {
            self.deliver(devices);
            self.sleep(&mut watched);
            for (from, device) in devices.iter().enumerate() {
                let news = watched[from].revents();
                if news.contains(PollFlags::IN) {
                    self.collect(from, device, &mut scratch);
                } else if news.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                    // Its site is gone. The slot now repeats an entry that is watched anyway.
                    watched[from] = PollFd::new(wake, PollFlags::IN);
                }
            }
            // Resets the event; it may be unset if a frame was the reason to wake.
            let _ = read(wake, &mut [0; 8]);
        }
    }

    /// Carries out the requests. False when no caller is left.
    fn obey(&mut self) -> bool {
        loop {
            match self.work.try_recv() {
                Ok(work) => work(&mut self.lines),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Hands over every frame that is due, or puts it on its next line.
    fn deliver(&mut self, devices: &[SyncDevice]) {
        let mut place = 0;
        while let Some(&index) = self.lines.busy.get(place) {
            let now = Instant::now();
            while let Some(frame) = self.lines.lines[index].arrive(now) {
                if let Some(next) = self.lines.after(Some(index), &frame) {
                    self.put(next, frame, now);
                    continue;
                }
                // A device refuses frames while it is down or gone: they have no receiver.
                let _ = write(&devices[frame.to], frame.buffer.bytes());
                self.pool.give_back(frame.buffer);
            }
            if self.lines.lines[index].next_due().is_some() {
                place += 1;
            } else {
                self.lines.busy.swap_remove(place);
                self.lines.is_busy[index] = false;
            }
        }
    }

    /// Puts the surviving part of a frame on a line.
    fn put(&mut self, index: usize, frame: Frame, now: Instant) {
        let Some(shape) = Shape::of(frame.buffer.bytes()) else {
            return self.pool.give_back(frame.buffer);
        };
        let line = &mut self.lines.lines[index];
        let due = line.admit(now, &shape, &mut self.survivors);
        let is_whole = |run: &Range<u32>| run.len() == shape.segments() as usize;
        if let [run] = &self.survivors[..]
            && is_whole(run)
        {
            line.carry(frame, run.len() as u64, shape.wire_bytes(run), due);
            return self.lines.wake(index);
        }
        let Frame { from, to, buffer } = frame;
        for run in &self.survivors {
            let mut part = self.pool.sized(shape.cut_length(run));
            shape.cut(buffer.bytes(), run, part.bytes_mut());
            let buffer = part;
            let part = Frame { from, to, buffer };
            line.carry(part, run.len() as u64, shape.wire_bytes(run), due);
        }
        self.pool.give_back(buffer);
        self.lines.wake(index);
    }

    /// Waits until a frame comes, a frame is due, or a request arrives.
    fn sleep(&self, watched: &mut [PollFd]) {
        let busy = self.lines.busy.iter();
        let next = busy.filter_map(|index| self.lines.lines[*index].next_due());
        let next = next.min();
        let left = next.map(|due| due.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            // Delays are seconds at most.
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        if poll(watched, left.as_ref()).is_err() {
            // Interrupted by a signal: the flags are from the last round.
            watched.iter_mut().for_each(PollFd::clear_revents);
        }
    }

    /// Takes frames from a device until it has no more or its turn ends.
    fn collect(&mut self, from: usize, device: &SyncDevice, scratch: &mut Buffer) {
        for _ in 0..TURN {
            match read(device, scratch.space()) {
                Ok(length) => self.dispatch(from, scratch, length),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends a frame on its way. A frame without a known destination is dropped, as on a
    /// router without a route.
    fn dispatch(&mut self, from: usize, scratch: &mut Buffer, length: usize) {
        let Some(shape) = Shape::of(&scratch.space()[..length]) else {
            return;
        };
        let to = self.lines.index(shape.destination);
        let Some(to) = to.filter(|to| *to != from) else {
            return;
        };
        let buffer = self.pool.keep(scratch, length);
        let frame = Frame { from, to, buffer };
        if let Some(first) = self.lines.after(None, &frame) {
            self.put(first, frame, Instant::now());
        }
    }
}

/// Makes the calling thread wake on time, also on a busy machine. Measured while two compilers ran: at most 0.2 ms late
/// with a real-time policy, and 15 ms without it. If the policy is not allowed,
/// delays are less exact, as [`super::LinkReport::lateness`] shows, but everything works.
fn expedite() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // On Linux this is the priority of the thread, not of the process (setpriority(2), notes).
    let _ = rustix::process::setpriority_process(None, -20);
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    // No library offers sched_setscheduler(2) without unsafe code; chrt(1) is in every Debian.
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread])
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
