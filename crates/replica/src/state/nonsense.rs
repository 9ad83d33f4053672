//! What a member sent that no member sends.
//!
//! Such bytes cost their sender its session, and its place in the view as if it were silent; they cost the receiver nothing. The
//! same start of the sender gets no other session, lest it send them again; a later start is heard.
//!
//! What must never enter: what makes sense (`wire`), and how a session ends.

use peer::Incarnation;

/// What somebody sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offence {
    /// Which start of it; `None` when others relayed it, so that nobody knows.
    by: Option<Incarnation>,
    what: String,
}

/// What a member sent that makes no sense, since this replica started.
#[derive(Debug, Default)]
pub(crate) struct Nonsense(Option<Offence>);

impl Nonsense {
    /// One start of the member sent this. Whether that is the first such thing of that start, and of none before a later one's.
    pub(crate) fn note(&mut self, by: Incarnation, what: &str) -> bool {
        let known = self.0.as_ref().and_then(|offence| offence.by);
        let is_news = known.is_none_or(|known| known < by);
        if is_news {
            let what = what.to_owned();
            self.0 = Some(Offence { by: Some(by), what });
        }
        is_news
    }

    /// Others relayed this of the member's making. Whether nothing was known of it.
    pub(crate) fn note_relayed(&mut self, what: &str) -> bool {
        let is_news = self.0.is_none();
        self.0.get_or_insert_with(|| Offence {
            by: None,
            what: what.to_owned(),
        });
        is_news
    }

    /// A session with this start of the member begins: earlier ones are past.
    pub(crate) fn begin(&mut self, with: Incarnation) {
        self.0
            .take_if(|offence| offence.by.is_none_or(|by| by < with));
    }

    /// What this start of the member sent, if it is to have no session any more.
    pub(crate) fn refuses(&self, start: Incarnation) -> Option<String> {
        let offence = self.0.as_ref()?;
        (offence.by >= Some(start)).then(|| offence.what.clone())
    }

    /// Whether the latest start of the member that was met is refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.as_ref().is_some_and(|offence| offence.by.is_some())
    }

    /// What the member sent, for people.
    pub(crate) fn told(&self) -> Option<String> {
        self.0.as_ref().map(|offence| offence.what.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_sent_nonsense_is_refused_and_a_later_one_is_heard() {
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
        // What came before and is looked at now is of the earlier start.
        assert!(known.note(Incarnation(5), "late"));
        assert_eq!(known.refuses(Incarnation(6)), None);
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
