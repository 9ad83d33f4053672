//! The events of a run: faults that come and go, restarts one by one, and servers that must not end by themselves.
//!
//! What must never enter: how a fault is done (`world`), which faults there are (`schedule`), and judgement of answers.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::check::Violation;
use crate::clients::Common;
use crate::history::{Act, Event, Time};
use crate::schedule::{Blow, Fault, Kind, Profile, draw, name};
use crate::world::clock::Clock;
use crate::world::{Sites, is_whole};

/// Clients work undisturbed for this long before each of the restarts one by one.
const BETWEEN_RESTARTS: Duration = Duration::from_secs(4);

/// The interval between checks of faults and servers.
const TICK: Duration = Duration::from_millis(50);

/// A server that has ended by itself is started again after this.
const RESTART_AFTER: Duration = Duration::from_secs(3);

/// How long clients continue to work after everything is mended.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// The maximum wait of a final fault until enough other servers have everything; then it is left out.
const LOSS_WAITS: Duration = Duration::from_secs(60);

/// Every site must have written something this soon after everything is mended.
const MENDED_WITHIN: Duration = Duration::from_secs(90);

/// The replacement of a lost server must have the tree and take part this soon after the loss.
const REPLACED_WITHIN: Duration = Duration::from_secs(180);

/// A fault as it happened.
#[derive(Debug, Clone, Serialize)]
pub struct Suffered {
    /// The fault.
    pub fault: Fault,
    /// When it began.
    pub begin: Time,
    /// When it was mended.
    pub end: Option<Time>,
}

/// Faults that come and go, and servers that must not end by themselves.
pub(crate) struct Stage<'s> {
    sites: &'s Sites,
    common: &'s Common,
    pub(crate) faults: Vec<Suffered>,
    pub(crate) violations: Vec<Violation>,
    /// Servers that have ended by themselves, and when they are started again.
    ended: Vec<(usize, Instant)>,
}

impl<'s> Stage<'s> {
    pub(crate) fn new(sites: &'s Sites, common: &'s Common) -> Self {
        Self {
            sites,
            common,
            faults: Vec::new(),
            violations: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        self.common.recorder.now()
    }

    /// Runs all faults of a profile, and returns when they are mended.
    pub(crate) fn faults(&mut self, profile: &Profile) -> Result<()> {
        match profile.rolling {
            true => self.restart_one_by_one(),
            false => self.drawn(profile),
        }
    }

    /// Restarts the servers one after another, as for an upgrade. The next one follows when the set is whole again.
    fn restart_one_by_one(&mut self) -> Result<()> {
        for victim in self.sites.numbers() {
            std::thread::sleep(BETWEEN_RESTARTS);
            let begin = Duration::from_micros(self.now());
            self.strike(Fault {
                victim,
                kind: Kind::Restart,
                blow: Blow::Restart,
                begin,
                end: begin,
            })?;
            self.mend(self.faults.len() - 1)?;
            if let Err(error) = self.sites.wait_until("whole", is_whole) {
                self.violations.push(Violation {
                    promise: "the set is whole after a restart",
                    what: format!("that of {}: {error:#}", name(victim)),
                    at: Some(self.now()),
                });
            }
            self.look_after()?;
        }
        Ok(())
    }

    fn drawn(&mut self, profile: &Profile) -> Result<()> {
        let mut coming = draw(profile).into_iter().peekable();
        // A fault that has to wait lasts as long as it was to, and delays all later ones, so that no other faults overlap than were drawn.
        let mut late = Duration::ZERO;
        loop {
            let time = Duration::from_micros(self.now());
            for index in 0..self.faults.len() {
                match &self.faults[index] {
                    suffered if suffered.end.is_some() => {}
                    suffered if suffered.fault.end <= time => self.mend(index)?,
                    suffered => self.sites.go_on(&suffered.fault)?,
                }
            }
            // While a server is being replaced no other fault may begin.
            while time < profile.length
                && !self.is_replacing(time)
                && let Some(fault) =
                    coming.next_if(|fault| self.is_due(profile, fault, time.saturating_sub(late)))
            {
                // Mending may have taken a while since `time`.
                late = Duration::from_micros(self.now()).saturating_sub(fault.begin);
                let has_server = !self.sites.server(fault.victim).is_lost();
                match has_server && self.may_begin(profile, &fault) {
                    true => self.strike(fault.later(late))?,
                    false => self.leave_out(&fault, has_server),
                }
            }
            self.look_after()?;
            let is_mended = self.faults.iter().all(|suffered| suffered.end.is_some());
            if is_mended && time >= profile.length {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
    }

    /// Whether a fault's time has come. A final fault waits for servers that are coming back, but not for ever.
    fn is_due(&self, profile: &Profile, fault: &Fault, time: Duration) -> bool {
        let patient = time < fault.begin + LOSS_WAITS;
        fault.begin <= time && (!patient || self.may_begin(profile, fault))
    }

    /// Before a final fault, a server that is still coming back counts as failed: a majority must have everything
    /// that only the victim had, and the remaining servers must be able to
    /// agree.
    fn may_begin(&self, profile: &Profile, fault: &Fault) -> bool {
        !fault.kind.is_final() || self.sites.missing_but(fault.victim) < profile.victims_max()
    }

    fn leave_out(&self, fault: &Fault, has_server: bool) {
        let (time, site) = (self.now() as f64 / 1e6, name(fault.victim));
        let why = match has_server {
            true => "not taken away, as too few others have everything",
            false => "left alone, as no server has taken the place of the lost one",
        };
        eprintln!("nemesis: {time:7.3} s  {site}: {why}");
    }

    fn is_replacing(&self, time: Duration) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|suffered| {
            let is_late = suffered.end.is_none() && suffered.fault.end <= time;
            is_late && suffered.fault.kind.is_final()
        })
    }

    fn strike(&mut self, fault: Fault) -> Result<()> {
        let begin = self.now();
        let site = name(fault.victim);
        eprintln!(
            "nemesis: {:7.3} s  {site}: {}",
            begin as f64 / 1e6,
            fault.blow
        );
        self.sites.begin(&fault)?;
        self.faults.push(Suffered {
            fault,
            begin,
            end: None,
        });
        Ok(())
    }

    fn mend(&mut self, index: usize) -> Result<()> {
        let fault = self.faults[index].fault.clone();
        let is_mended = self.sites.end(&fault)?;
        let end = self.now();
        if !is_mended && Duration::from_micros(end) < fault.end + REPLACED_WITHIN {
            return Ok(());
        }
        if !is_mended {
            let (site, victim) = (name(fault.victim), fault.victim);
            let waits_for = self.sites.server(victim).waits_for.clone();
            let says = self.sites.says(victim);
            self.violations.push(Violation {
                promise: "another server takes the place of one that is gone",
                what: format!("at {site} it has not after {REPLACED_WITHIN:?}: it waits for {waits_for}; {says}"),
                at: Some(end),
            });
        }
        self.faults[index].end = Some(end);
        let site = name(fault.victim);
        eprintln!(
            "nemesis: {:7.3} s  {site}: mended, {}",
            end as f64 / 1e6,
            fault.blow
        );
        Ok(())
    }

    /// Notes servers that have ended by themselves, and starts them again.
    fn look_after(&mut self) -> Result<()> {
        for site in self.sites.numbers() {
            if self.ended.iter().any(|(ended, _)| *ended == site) {
                continue;
            }
            let Some(how) = self.sites.server(site).collapse()? else {
                continue;
            };
            let at = self.now();
            eprintln!(
                "nemesis: {:7.3} s  {} HAS ENDED: {how}",
                at as f64 / 1e6,
                name(site)
            );
            self.violations.push(Violation {
                promise: "a server goes on",
                what: format!("that of {} has ended: {how}", name(site)),
                at: Some(at),
            });
            self.ended.push((site, Instant::now() + RESTART_AFTER));
        }
        for (site, _) in self
            .ended
            .extract_if(.., |(_, again)| *again <= Instant::now())
        {
            self.sites.server(site).start(Clock::True)?;
        }
        Ok(())
    }

    /// Lets clients continue to work, and notes sites where nothing can be written any more.
    pub(crate) fn afterwards(&mut self) -> Result<()> {
        let mended = self.now();
        let began = Instant::now();
        loop {
            self.look_after()?;
            let events = self.common.recorder.events();
            let idle: Vec<&str> = (0..self.sites.serving().len())
                .filter(|&site| !writes_after(&events, site, mended))
                .map(name)
                .collect();
            if idle.is_empty() && began.elapsed() >= AFTERWARDS {
                return Ok(());
            }
            if began.elapsed() > MENDED_WITHIN {
                self.violations.push(Violation {
                    promise: "work goes on when everything is mended",
                    what: format!("nothing was written at {idle:?} for {MENDED_WITHIN:?}"),
                    at: Some(mended),
                });
                return Ok(());
            }
            std::thread::sleep(TICK * 10);
        }
    }
}

/// Whether a write and a record that began after a time were answered as done.
fn writes_after(events: &[Event], site: usize, time: Time) -> bool {
    let mut later = events
        .iter()
        .rev()
        .filter(|event| event.site == site && event.is_done() && event.begin > time);
    let is_change = |event: &Event| matches!(event.act, Act::Write { .. } | Act::Append { .. });
    later.any(is_change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history;

    #[test]
    fn a_site_counts_as_mended_when_it_has_written() {
        let read = Event {
            site: 1,
            client: 0,
            begin: 10,
            end: 11,
            act: Act::Read {
                register: 0,
                saw: None,
            },
            outcome: history::Outcome::Done,
        };
        let write = Event {
            act: Act::Append { log: 0, number: 1 },
            ..read.clone()
        };
        assert!(!writes_after(std::slice::from_ref(&read), 1, 5));
        assert!(writes_after(&[read, write.clone()], 1, 5));
        assert!(!writes_after(std::slice::from_ref(&write), 1, 10));
        assert!(!writes_after(&[write], 0, 5));
    }
}
