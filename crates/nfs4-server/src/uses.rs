//! Requests on data that an open allows. The open lasts until they have ended. After it is closed or downgraded, opens that deny its former access are
//! admitted, and no request that depends on it may arrive then (RFC 8881, section 9.7). Requests on different slots have no order (section 2.10.6.1), so a
//! client can send a WRITE and the CLOSE of its open at the same time. Requests that are still allowed after a downgrade continue: clients send a downgrade
//! whenever one of several users of an open has finished.
//!
//! The end of a byte-range lock waits for nothing: locks are advisory, and only stop clients that ask for them.
//!
//! What must never enter: which requests an open allows.

use vfs::Share;

use crate::service::Service;
use crate::state::{OpenFile, StateidUse};

/// A request on data under an open, until this is dropped.
pub(crate) struct Use<'s> {
    service: &'s Service,
    key: u64,
    wanted: StateidUse,
}

/// An open that is being closed or downgraded, until this is dropped: no request on data that is not allowed afterwards
/// is running under it, or can begin.
pub(crate) struct Ending<'s> {
    service: &'s Service,
    open: &'s OpenFile,
}

impl Service {
    /// Wraps a request on data that was [begun](crate::state::State::begin_use); dropping the result ends it.
    pub(crate) fn use_begun(&self, key: u64, wanted: StateidUse) -> Use<'_> {
        Use {
            service: self,
            key,
            wanted,
        }
    }

    /// Waits for the end of all requests on data under an open that `left` does not allow.
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
