//! Messages of a member that no correct member sends.
//!
//! Such a message costs its sender the session, and its place in the view as if it were silent; it costs the receiver nothing. The same incarnation
//! of the sender gets no other session, so that it cannot send the message again; a later incarnation is heard.
//!
//! What must never enter: which messages are valid (`wire`), and how a session ends.

use peer::Incarnation;

/// An invalid message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offence {
    /// The incarnation that sent it; `None` if others relayed it, so that the incarnation is unknown.
    by: Option<Incarnation>,
    what: String,
}

/// What a member sent that is invalid, since this replica started.
#[derive(Debug, Default)]
pub(crate) struct Nonsense {
    offence: Option<Offence>,
    /// The latest incarnation with which a session has begun.
    latest: Option<Incarnation>,
}

impl Nonsense {
    /// This incarnation of the member sent an invalid message. Returns whether it is the first of this incarnation, and no later one is known.
    pub(crate) fn note(&mut self, by: Incarnation, what: &str) -> bool {
        let known = self.offence.as_ref().and_then(|offence| offence.by);
        let is_over = self.latest.is_some_and(|latest| by < latest);
        let is_news = !is_over && known.is_none_or(|known| known < by);
        if is_news {
            let what = what.to_owned();
            self.offence = Some(Offence { by: Some(by), what });
        }
        is_news
    }

    /// Others relayed this message, which the member made. Returns whether none was known.
    pub(crate) fn note_relayed(&mut self, what: &str) -> bool {
        let is_news = self.offence.is_none();
        self.offence.get_or_insert_with(|| Offence {
            by: None,
            what: what.to_owned(),
        });
        is_news
    }

    /// A session with this incarnation of the member begins: earlier incarnations are over.
    pub(crate) fn begin(&mut self, with: Incarnation) {
        self.latest = self.latest.max(Some(with));
        self.offence
            .take_if(|offence| offence.by.is_none_or(|by| by < with));
    }

    /// What this incarnation of the member sent, if it gets no more sessions.
    pub(crate) fn refuses(&self, start: Incarnation) -> Option<String> {
        let offence = self.offence.as_ref()?;
        (offence.by >= Some(start)).then(|| offence.what.clone())
    }

    /// Whether the latest known incarnation of the member is refused.
    pub(crate) fn is_refused(&self) -> bool {
        (self.offence.as_ref()).is_some_and(|offence| offence.by.is_some())
    }

    /// What the member sent, for display.
    pub(crate) fn told(&self) -> Option<String> {
        self.offence.as_ref().map(|offence| offence.what.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterexample_93_a_start_that_sent_nonsense_is_refused_and_a_later_one_is_heard() {
        let mut known = Nonsense::default();
        assert!(known.note(Incarnation(5), "junk"));
        assert!(!known.note(Incarnation(5), "more junk"), "it is told once");
        assert_eq!(known.refuses(Incarnation(5)), Some("junk".to_owned()));
        assert_eq!(known.refuses(Incarnation(4)), Some("junk".to_owned()));
        assert_eq!(known.refuses(Incarnation(6)), None);
        known.begin(Incarnation(5));
        assert!(known.is_refused());
        known.begin(Incarnation(6));
        assert!(!known.is_refused());
        // A message that came before and is read now belongs to the earlier incarnation.
        assert!(!known.note(Incarnation(5), "late"));
        assert_eq!(known.refuses(Incarnation(6)), None);
        assert!(!known.is_refused());
    }

    #[test]
    fn what_others_relayed_is_told_and_refuses_nobody() {
        let mut known = Nonsense::default();
        assert!(known.note_relayed("junk"));
        assert!(!known.note_relayed("junk"));
        assert_eq!(known.refuses(Incarnation(5)), None);
        assert!(!known.is_refused());
        assert_eq!(known.told(), Some("junk".to_owned()));
    }
}
