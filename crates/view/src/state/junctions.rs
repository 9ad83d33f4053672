//! The effect of decisions about names that lead to other servers.

use super::ViewState;
use super::apply::Verdict;
use crate::decision::{JUNCTION_BYTES_MAX, JUNCTIONS_MAX, Referral};

impl ViewState {
    /// Makes a name lead to these trees, or removes it if there are none.
    pub(super) fn junction(&mut self, name: &str, to: &[Referral]) -> Verdict {
        if to.is_empty() {
            return match self.junctions.remove(name) {
                Some(_) => Ok(format!("removed the junction {name}")),
                None => Err(format!(
                    "there is no junction {name}; `meridian junction list` shows those that there are"
                )),
            };
        }
        let referrals = to.iter().map(|to| to.server.len() + to.path.len());
        if name.len() + referrals.sum::<usize>() > JUNCTION_BYTES_MAX {
            return Err(format!(
                "a junction with its servers and paths has at most {JUNCTION_BYTES_MAX} bytes; name fewer servers, or shorter paths"
            ));
        }
        if self.junctions.get(name).is_some_and(|known| known == to) {
            return Err(format!("the junction {name} leads there already"));
        }
        let is_new = !self.junctions.contains_key(name);
        if is_new && self.junctions.len() >= JUNCTIONS_MAX {
            return Err(format!(
                "there are {JUNCTIONS_MAX} junctions; remove one first"
            ));
        }
        self.junctions.insert(name.to_owned(), to.to_vec());
        let places: Vec<String> = to.iter().map(place).collect();
        Ok(format!(
            "the junction {name} leads to {}",
            places.join(", ")
        ))
    }
}

/// A place as people write it: brackets separate the colons of an IPv6 address from the colon before the path.
fn place(to: &Referral) -> String {
    match to.server.contains(':') && !to.server.starts_with('[') {
        true => format!("[{}]:{}", to.server, to.path),
        false => format!("{}:{}", to.server, to.path),
    }
}
