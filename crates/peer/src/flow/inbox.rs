//! The receiving half of a lane: which message is next, and how many bytes the peer may still send.

use crate::wire::WireError;

/// What to do with a message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the next one; it counts as received from now on.
    Fresh,
    /// It already arrived over an earlier connection.
    Duplicate,
}

/// Whether the peer waits for an acknowledgement or for credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReportDue {
    /// The peer knows everything.
    Never,
    /// The report would free some memory at the peer.
    Soon,
    /// The peer may be waiting.
    Now,
}

/// The number of unreported messages at which a report is sent without delay.
const MESSAGES_UNREPORTED_MAX: u64 = 64;

/// Which messages of one lane have arrived, and their cost.
#[derive(Debug)]
pub(crate) struct Inbox {
    window: u64,
    received: u64,
    /// Cost of everything received, and of what the handler has finished with, since the session began.
    charged: u64,
    consumed: u64,
    reported_received: u64,
    reported_charged: u64,
    reported_credit: u64,
    expedited: bool,
}

impl Inbox {
    /// An inbox that lets the peer be `window` bytes ahead of the handler.
    pub(crate) fn new(window: u64) -> Inbox {
        Inbox {
            window,
            received: 0,
            charged: 0,
            consumed: 0,
            reported_received: 0,
            reported_charged: 0,
            reported_credit: window,
            expedited: false,
        }
    }

    pub(crate) fn is_duplicate(&self, sequence: u64) -> bool {
        sequence <= self.received
    }

    /// Records a message that has arrived complete. `cost` is 0 for a message that needs no credit.
    pub(crate) fn accept(&mut self, sequence: u64, cost: u64) -> Result<Arrival, WireError> {
        if self.is_duplicate(sequence) {
            return Ok(Arrival::Duplicate);
        }
        if sequence != self.received + 1 {
            return Err(WireError::Violation("a message was left out"));
        }
        if self.charged.saturating_add(cost) > self.reported_credit {
            return Err(WireError::Violation(
                "more was sent than there was credit for",
            ));
        }
        self.received = sequence;
        self.charged += cost;
        Ok(Arrival::Fresh)
    }

    /// The handler has finished with `cost` bytes.
    pub(crate) fn consume(&mut self, cost: u64) {
        self.consumed += cost;
    }

    /// The numbers to report to the peer now: all messages received up to the first, credit up to the second.
    pub(crate) fn report(&mut self) -> (u64, u64) {
        self.expedited = false;
        self.reported_received = self.received;
        self.reported_charged = self.charged;
        self.reported_credit = self.consumed + self.window;
        (self.reported_received, self.reported_credit)
    }

    /// A report that may wait has waited long enough.
    pub(crate) fn expedite(&mut self) {
        self.expedited = self.report_due() >= ReportDue::Soon;
    }

    /// Whether a report is worth a frame of its own.
    pub(crate) fn report_due(&self) -> ReportDue {
        let credit = self.consumed + self.window - self.reported_credit;
        let unreported = self.received - self.reported_received;
        let bytes = self.charged - self.reported_charged;
        let much = self.window / 8;
        let waited = self.expedited && (credit > 0 || unreported > 0);
        if waited || credit >= much || bytes >= much || unreported >= MESSAGES_UNREPORTED_MAX {
            ReportDue::Now
        } else if credit > 0 || unreported > 0 {
            ReportDue::Soon
        } else {
            ReportDue::Never
        }
    }

    /// Bytes that arrived and are still with the handler.
    pub(crate) fn held(&self) -> u64 {
        self.charged - self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_accepted_once_and_in_order() {
        let mut inbox = Inbox::new(100);
        assert_eq!(inbox.accept(1, 10).expect("next"), Arrival::Fresh);
        assert_eq!(inbox.accept(1, 10).expect("again"), Arrival::Duplicate);
        assert!(inbox.accept(3, 10).is_err(), "2 is missing");
        assert_eq!(inbox.accept(2, 10).expect("next"), Arrival::Fresh);
        assert_eq!(inbox.held(), 20, "a duplicate costs nothing");
    }

    #[test]
    fn credit_that_was_not_given_cannot_be_used() {
        let mut inbox = Inbox::new(100);
        inbox.accept(1, 90).expect("within the window");
        assert!(inbox.accept(2, 20).is_err());
        inbox.consume(90);
        assert!(inbox.accept(2, 20).is_err(), "the peer was not told yet");
        assert_eq!(inbox.report(), (1, 190));
        inbox.accept(2, 20).expect("told");
    }

    #[test]
    fn reports_become_due_as_the_window_fills() {
        let mut inbox = Inbox::new(800);
        assert_eq!(inbox.report_due(), ReportDue::Never);
        inbox.accept(1, 10).expect("next");
        assert_eq!(inbox.report_due(), ReportDue::Soon);
        inbox.accept(2, 100).expect("next");
        assert_eq!(inbox.report_due(), ReportDue::Now);
        inbox.report();
        assert_eq!(inbox.report_due(), ReportDue::Never);
        inbox.consume(50);
        assert_eq!(inbox.report_due(), ReportDue::Soon);
        inbox.consume(60);
        assert_eq!(inbox.report_due(), ReportDue::Now);
    }
}
