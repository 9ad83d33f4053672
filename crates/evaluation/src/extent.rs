//! How much of an experiment is done.

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything, for publication.
    Whole,
    /// Few and short trials, all experiments within about ten minutes: shows that everything works.
    Quick,
}

impl Extent {
    /// How often every point is measured, unless an experiment says something else.
    pub(crate) fn trials(self) -> u32 {
        match self {
            Extent::Whole => 5,
            Extent::Quick => 2,
        }
    }

    /// One of two, by extent.
    pub(crate) fn choose<T>(self, whole: T, quick: T) -> T {
        match self {
            Extent::Whole => whole,
            Extent::Quick => quick,
        }
    }
}
