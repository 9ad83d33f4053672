//! Long lists in answers: the first rows, and how many more there are, so that an answer stays small whatever there is.
//!
//! What must never enter: what a row is.

use serde::{Deserialize, Serialize};

/// No list in an answer has more rows.
const ROWS_MAX: usize = 10_000;

/// The first rows of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows<T> {
    /// These.
    pub rows: Vec<T>,
    /// How many more there are.
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
    /// As many of these as an answer has space for.
    pub(crate) fn of(all: impl IntoIterator<Item = T>) -> Rows<T> {
        let mut all = all.into_iter();
        Rows {
            rows: all.by_ref().take(ROWS_MAX).collect(),
            more: all.count(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows.len() + self.more
    }

    /// That there are more, for people.
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
