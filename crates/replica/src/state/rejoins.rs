//! A rejoin of the view under way, as seen by the replicas that send what is lacking.
//!
//! The time left follows from how fast the rest has shrunk lately, new changes included.
//!
//! What must never enter: what is lacking, and whether a replica is admitted.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The time left follows from about this much of the past.
const WINDOW: Duration = Duration::from_secs(60);
/// An estimate from less than this is meaningless: the beginning is faster or slower than the rest.
const SETTLED: Duration = Duration::from_secs(5);
/// A report so soon after the last one replaces it.
const SPACING: Duration = Duration::from_millis(100);
/// Until half of the window has passed, an estimate counts only if it is at most this many times the observed time.
const FORESEEN: f64 = 60.0;
/// A report counts for this long.
const FRESH: Duration = Duration::from_secs(5);

/// What a rejoining replica gets from a replica that sends what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// The updates that it missed, one after another, and the contents that they changed.
    #[serde(rename = "by log")]
    ByLog,
    /// Contents of files of which it has another version, or none.
    #[serde(rename = "contents")]
    Contents,
    /// The rows of all objects, to compare its own with.
    #[serde(rename = "comparing")]
    Comparing,
}

impl Stage {
    /// For display and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::ByLog => "by log",
            Stage::Contents => "contents",
            Stage::Comparing => "comparing",
        }
    }
}

/// How far a rejoining replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejoinView {
    /// What it gets.
    pub stage: Stage,
    /// Updates, files or objects, depending on the stage, that it has got in this stage.
    pub objects_done: u64,
    /// Those that it still lacks.
    pub objects_left: u64,
    /// Bytes that it was sent in this stage.
    pub bytes_done: u64,
    /// Bytes of contents that it still lacks, at most; `None` if unknown.
    pub bytes_left: Option<u64>,
    /// Seconds until nothing is left, at the pace of the last minute; `None` if the rest does not shrink.
    pub seconds_left: Option<u64>,
}

/// What one sending replica reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remainder {
    pub(crate) stage: Stage,
    pub(crate) objects_done: u64,
    pub(crate) objects_left: u64,
    pub(crate) bytes_done: u64,
    pub(crate) bytes_left: Option<u64>,
}

/// The course of one rejoin.
#[derive(Debug)]
struct Course {
    last: Remainder,
    at: Instant,
    samples: VecDeque<(Instant, u64, Option<u64>)>,
}

impl Course {
    fn new(now: Instant, first: Remainder) -> Course {
        let mut course = Course {
            last: first,
            at: now,
            samples: VecDeque::new(),
        };
        course.sample(now, first);
        course
    }

    fn note(&mut self, now: Instant, remainder: Remainder) {
        if remainder.stage != self.last.stage {
            self.samples.clear();
        }
        self.last = remainder;
        self.at = now;
        self.sample(now, remainder);
    }

    fn sample(&mut self, now: Instant, remainder: Remainder) {
        let (objects, bytes) = (remainder.objects_left, remainder.bytes_left);
        let mut later = self.samples.iter().skip(1).rev();
        if later
            .next()
            .is_some_and(|(at, ..)| now.duration_since(*at) < SPACING)
        {
            // Independent of how often reports come.
            self.samples.pop_back();
        }
        self.samples.push_back((now, objects, bytes));
        while self
            .samples
            .front()
            .is_some_and(|(at, ..)| now.duration_since(*at) > WINDOW)
        {
            self.samples.pop_front();
        }
    }

    fn view(&self) -> RejoinView {
        let last = self.last;
        RejoinView {
            stage: last.stage,
            objects_done: last.objects_done,
            objects_left: last.objects_left,
            bytes_done: last.bytes_done,
            bytes_left: last.bytes_left,
            // Casts saturate.
            seconds_left: self.seconds_left().map(|seconds| seconds.ceil() as u64),
        }
    }

    /// The slower of objects and bytes decides.
    fn seconds_left(&self) -> Option<f64> {
        let ((from, objects, bytes), (to, objects_now, bytes_now)) =
            (*self.samples.front()?, *self.samples.back()?);
        let elapsed = to.duration_since(from);
        if something_is_left(objects_now, bytes_now) && elapsed < SETTLED {
            return None;
        }
        let elapsed = elapsed.as_secs_f64();
        let objects = time_left(elapsed, objects, objects_now)?;
        let bytes = match (bytes, bytes_now) {
            (Some(bytes), Some(now)) => time_left(elapsed, bytes, now)?,
            _ => 0.0,
        };
        let left = objects.max(bytes);
        let is_believed = elapsed >= WINDOW.as_secs_f64() / 2.0 || left <= FORESEEN * elapsed;
        is_believed.then_some(left)
    }
}

/// Whether anything is left at all.
fn something_is_left(objects: u64, bytes: Option<u64>) -> bool {
    objects > 0 || bytes.is_some_and(|bytes| bytes > 0)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn time_left(elapsed: f64, before: u64, now: u64) -> Option<f64> {
    if now == 0 {
        return Some(0.0);
    }
    let less = before.checked_sub(now).filter(|less| *less > 0)?;
    Some(elapsed * now as f64 / less as f64)
}

/// Rejoins under way between this replica and one peer: that of the peer, to which this one sends what it lacks, and this replica's own, as the peer
/// reports it.
#[derive(Debug, Default)]
pub(crate) struct Rejoin {
    sent: Option<Course>,
    heard: Option<Course>,
}

fn note(course: &mut Option<Course>, remainder: Remainder) {
    let now = Instant::now();
    match course {
        Some(course) => course.note(now, remainder),
        None => *course = Some(Course::new(now, remainder)),
    }
}

impl Rejoin {
    /// The progress of the peer to which this replica sends what it lacks.
    pub(crate) fn of_peer(&self) -> Option<RejoinView> {
        self.sent.as_ref().map(Course::view)
    }

    /// What the peer reported lately about how much this replica lacks of it.
    pub(crate) fn heard(&self) -> Option<RejoinView> {
        let course = self.heard.as_ref()?;
        (course.at.elapsed() < FRESH).then(|| course.view())
    }

    /// The progress of this replica: the sum of the peers' recent reports, for the stage that comes first.
    pub(crate) fn own<'a>(of_peers: impl Iterator<Item = &'a Rejoin>) -> Option<RejoinView> {
        let views: Vec<RejoinView> = of_peers.filter_map(Rejoin::heard).collect();
        let stage = views.iter().map(|view| view.stage).max()?;
        let views = views.into_iter().filter(|view| view.stage == stage);
        views.reduce(|one, other| RejoinView {
            stage,
            objects_done: one.objects_done + other.objects_done,
            objects_left: one.objects_left + other.objects_left,
            bytes_done: one.bytes_done + other.bytes_done,
            bytes_left: one
                .bytes_left
                .zip(other.bytes_left)
                .map(|(a, b)| a.saturating_add(b)),
            seconds_left: one
                .seconds_left
                .zip(other.seconds_left)
                .map(|(a, b)| a.max(b)),
        })
    }

    /// The peer is no longer on its way back.
    pub(crate) fn end_of_peer(&mut self) {
        self.sent = None;
    }

    /// The peer still lacks this much of what this replica sends it.
    pub(crate) fn note_sent(&mut self, remainder: Remainder) {
        note(&mut self.sent, remainder);
    }

    /// The peer reports how much this replica lacks of it.
    pub(crate) fn hear(&mut self, remainder: Remainder) {
        note(&mut self.heard, remainder);
    }

    /// This replica lacks nothing any more.
    pub(crate) fn arrived(&mut self) {
        self.heard = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(stage: Stage, objects_left: u64, bytes_left: Option<u64>) -> Remainder {
        Remainder {
            stage,
            objects_done: 7,
            objects_left,
            bytes_done: 70,
            bytes_left,
        }
    }

    #[test]
    fn the_time_left_follows_from_how_fast_the_rest_becomes_less() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut course = Course::new(began, left(Stage::Contents, 100, Some(1000)));
        assert_eq!(course.view().seconds_left, None, "nothing has become less");
        course.note(at(1), left(Stage::Contents, 99, Some(999)));
        assert_eq!(course.view().seconds_left, None, "it has hardly begun");
        course.note(at(6), left(Stage::Contents, 99, Some(999)));
        assert_eq!(
            course.view().seconds_left,
            None,
            "not for days, after six seconds"
        );
        course.note(at(10), left(Stage::Contents, 50, Some(800)));
        assert_eq!(course.view().seconds_left, Some(40), "bytes are slower");
        course.note(at(11), left(Stage::Contents, 120, Some(800)));
        assert_eq!(
            course.view().seconds_left,
            None,
            "there is more than before"
        );
        course.note(at(200), left(Stage::Contents, 60, None));
        assert_eq!(course.samples.len(), 1, "only the last minute counts");
        course.note(at(210), left(Stage::Contents, 30, None));
        assert_eq!(course.view().seconds_left, Some(10));
        course.note(at(211), left(Stage::ByLog, 30, None));
        assert_eq!(
            course.view().seconds_left,
            None,
            "another stage begins anew"
        );
        course.note(at(212), left(Stage::ByLog, 0, None));
        assert_eq!(course.view().seconds_left, Some(0));
    }

    #[test]
    fn what_several_say_is_added_up_in_the_stage_that_comes_first() {
        let [mut one, mut other] = [Rejoin::default(), Rejoin::default()];
        let own = |one: &Rejoin, other: &Rejoin| Rejoin::own([one, other].into_iter());
        assert_eq!(own(&one, &other), None);
        one.hear(left(Stage::ByLog, 5, None));
        other.hear(left(Stage::Contents, 9, Some(90)));
        let both = own(&one, &other).unwrap();
        assert_eq!((both.stage, both.objects_left), (Stage::Contents, 9));
        one.hear(left(Stage::Contents, 5, Some(10)));
        let both = own(&one, &other).unwrap();
        assert_eq!((both.objects_left, both.objects_done), (14, 14));
        assert_eq!(both.bytes_left, Some(100));
        one.arrived();
        other.arrived();
        assert_eq!(own(&one, &other), None);
    }
}
