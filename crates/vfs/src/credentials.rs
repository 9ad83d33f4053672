//! The user of an operation, after squashing, and the request to which the operation belongs.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::RequestId;

/// The user id that is exempt from permission checks.
pub const ROOT_ID: u32 = 0;

/// A user after the export's squashing rules have been applied.
///
/// Forwarded operations carry it, so that checks happen where the operation executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Numeric user id.
    pub user: u32,
    /// Numeric primary group id; new objects get it.
    pub group: u32,
    /// Further groups (AUTH_SYS carries at most 16, RFC 5531, appendix A).
    pub groups: Arc<[u32]>,
    /// The request of the operation, if a client may repeat it after a restart of its server
    /// and it must not be carried out twice.
    pub request: Option<RequestId>,
}

impl Credentials {
    /// The superuser, for work that no client requested.
    #[must_use]
    pub fn root() -> Credentials {
        Credentials {
            user: ROOT_ID,
            group: ROOT_ID,
            groups: Arc::from([]),
            request: None,
        }
    }

    /// The same user with this request.
    #[must_use]
    pub fn with_request(&self, request: Option<RequestId>) -> Credentials {
        Credentials {
            request,
            ..self.clone()
        }
    }

    /// Whether permission checks are waived.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.user == ROOT_ID
    }

    /// Whether the user belongs to `group`.
    #[must_use]
    pub fn is_member(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }
}
