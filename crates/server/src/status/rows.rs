//! Long lists in answers: the first rows, and the number of further ones, so that an answer stays small.
//!
//! What must never enter: the meaning of a row.

use serde::{Deserialize, Serialize};

/// The maximum number of rows of a list in an answer.
const ROWS_MAX: usize = 10_000;

/// The first rows of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The number of further rows.
    pub more: usize,
}

impl<T> Default for Rows<T> {
    fn default() -> Rows<T> {
        Rows {
            rows: Vec::new(),
            more: 0,
        }
    }
}

impl<T> Rows<T> {
    /// The first rows, up to the maximum.
    pub(crate) fn of(all: impl IntoIterator<Item = T>) -> Rows<T> {
        let mut all = all.into_iter();
        Rows {
            rows: all.by_ref().take(ROWS_MAX).collect(),
            more: all.count(),
        }
    }

    /// The total number.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows.len() + self.more
    }

    /// A remark about the further rows, for people.
    #[must_use]
    pub fn remark(&self) -> String {
        format!("… and {} more", self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_how_many_rows_it_leaves_out() {
        let few = Rows::of(0..3);
        assert_eq!((few.rows.len(), few.more), (3, 0));
        let many = Rows::of(0..ROWS_MAX + 7);
        assert_eq!((many.rows.len(), many.more), (ROWS_MAX, 7));
        assert_eq!(many.total(), ROWS_MAX + 7);
        assert_eq!(many.remark(), "… and 7 more");
    }
}
