//! When a peer's requests for leases were heard: the peer's time of asking beside the local time of hearing. Their order tells what the peer asked
//! before something happened here. No two clocks are compared, because a clock may stand still unnoticed.
//!
//! What must never enter: what is answered.

use control::Moment;

/// At most this many requests of a peer are remembered; older ones are farther apart.
const REMEMBERED: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    incarnation: u64,
    heard: Vec<(u64, Moment)>,
}

impl Questions {
    /// An incarnation of the peer sent a request at `asked` on its clock, which arrived now.
    pub(crate) fn note(&mut self, incarnation: u64, asked: u64, now: Moment) {
        if incarnation != self.incarnation {
            *self = Questions {
                incarnation,
                heard: Vec::new(),
            };
        }
        if self.heard.last().is_some_and(|(last, _)| *last >= asked) {
            return;
        }
        self.heard.push((asked, now));
        if self.heard.len() > REMEMBERED {
            let mut keep = false;
            self.heard.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// The time on the peer's clock of its last request that was heard at or before this moment.
    pub(crate) fn until(&self, moment: Moment) -> Option<u64> {
        let mut heard = self.heard.iter().rev();
        heard.find(|(_, at)| *at <= moment).map(|(asked, _)| *asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_before_a_moment_is_known_for_long_and_takes_little_memory() {
        let mut questions = Questions::default();
        for number in 1..=1000 {
            questions.note(1, 10 * number, Moment(number));
            assert!(questions.heard.len() <= REMEMBERED);
        }
        assert_eq!(questions.until(Moment(0)), None);
        assert_eq!(questions.until(Moment(2000)), Some(10_000));
        for moment in [100, 500, 990] {
            let asked = questions.until(Moment(moment)).unwrap();
            assert!(asked <= 10 * moment && asked > 0, "{asked}");
        }
        // It comes late, or twice.
        questions.note(1, 500, Moment(3000));
        assert_eq!(questions.until(Moment(3000)), Some(10_000));
        // Another incarnation has another clock.
        questions.note(2, 5, Moment(3001));
        assert_eq!(questions.until(Moment(3000)), None);
        assert_eq!(questions.until(Moment(3001)), Some(5));
    }
}
