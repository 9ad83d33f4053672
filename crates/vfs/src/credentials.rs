//! On whose behalf an operation runs, after squashing, and for which of their requests.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::RequestId;

/// The user id that permission checks do not apply to.
pub const ROOT_ID: u32 = 0;

/// A user as the server sees it once the export's squashing rules have been applied.
///
/// It travels with forwarded operations, so that checks happen where the operation executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Numeric user id.
    pub user: u32,
    /// Numeric primary group id; new objects get it.
    pub group: u32,
    /// Further groups (at most 16 arrive with AUTH_SYS, RFC 5531, appendix A).
    pub groups: Arc<[u32]>,
    /// The request that the operation belongs to, if a client may ask for it again after its server was started anew
    /// and it must not be carried out a second time.
    pub request: Option<RequestId>,
}

impl Credentials {
    /// The superuser, for work that no client asked for.
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
