//! Requests on data that an open allows. The open lasts until they have ended: when it has been closed, or allows less, others are let in
//! who deny what it allowed, and nothing may arrive then that rests on it (RFC 8881, section 9.7). Requests on different slots have no
//! order (section 2.10.6.1), so a client can send a WRITE and the CLOSE of its open at the same time. What is still allowed behind a
//! downgrade goes on meanwhile: clients send one whenever one of several users of an open is done.
//!
//! Nothing waits at the end of a byte-range lock: it is advisory, and keeps nobody from writing but those who ask for it.
//!
//! What must never enter: which requests an open allows.

use vfs::Share;

use crate::service::Service;
use crate::state::{OpenFile, StateidUse};

/// A request on data by the right of an open, until this is dropped.
pub(crate) struct Use<'s> {
    service: &'s Service,
    key: u64,
    wanted: StateidUse,
}

/// An open that is being closed or downgraded, until this is dropped: no request on data is under way by its right, or begins, that is
/// not allowed afterwards.
pub(crate) struct Ending<'s> {
    service: &'s Service,
    open: &'s OpenFile,
}

impl Service {
    /// Ends, when it is dropped, a request on data that was [begun](crate::state::State::begin_use).
    pub(crate) fn use_begun(&self, key: u64, wanted: StateidUse) -> Use<'_> {
        Use {
            service: self,
            key,
            wanted,
        }
    }

    /// Waits for the end of all requests on data by the right of an open that are not allowed by what will be `left` of it.
    pub(crate) async fn end_uses<'s>(&'s self, open: &'s OpenFile, left: Share) -> Ending<'s> {
        let ending = Ending {
            service: self,
            open,
        };
        self.state().leave(open, Some(left));
        self.until(|state| !state.is_used_beyond(open, left)).await;
        ending
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let is_waited_for = self.service.state().end_use(self.key, self.wanted);
        if is_waited_for {
            self.service.request_has_ended();
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.service.state().leave(self.open, None);
    }
}
