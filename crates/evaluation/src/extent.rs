//! The extent of an experiment.

/// The extent of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything, for publication.
    Whole,
    /// Few and short trials, all experiments within about ten minutes: shows that everything works.
    Quick,
}

impl Extent {
    /// The number of trials of every point, unless an experiment sets another one.
    pub(crate) fn trials(self) -> u32 {
        match self {
            Extent::Whole => 5,
            Extent::Quick => 2,
        }
    }

    /// One of two values, by extent.
    pub(crate) fn choose<T>(self, whole: T, quick: T) -> T {
        match self {
            Extent::Whole => whole,
            Extent::Quick => quick,
        }
    }
}
