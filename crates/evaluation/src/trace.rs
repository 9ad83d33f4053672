//! A trace: the file operations of programs in one tree, in order, so that they can be replayed elsewhere.
//!
//! Paths are relative to the tree, contents are not kept, and each step has the time
//! between the end of the step before it and its own beginning.
//!
//! What must never enter: how a trace is recorded, and how it is replayed.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The format's version. A file with another one is refused.
const VERSION: u32 = 1;

/// The number of a path in [`Trace::paths`].
pub(crate) type PathNumber = u32;

/// The number of an open file, in the order of opening.
pub(crate) type OpenNumber = u32;

/// A recorded piece of work.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Trace {
    version: u32,
    /// A description of the recording.
    pub(crate) title: String,
    /// All paths that occur, relative to the tree; the tree itself is the empty one.
    pub(crate) paths: Vec<String>,
    /// The work in its phases.
    pub(crate) phases: Vec<Phase>,
}

/// One part of the work, such as unpacking.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// Its name.
    pub(crate) name: String,
    /// The steps.
    pub(crate) steps: Vec<Step>,
}

/// One operation, and the time before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Microseconds between the end of the step before and the beginning of this one.
    pub(crate) think_us: u32,
    /// The operation.
    pub(crate) action: Action,
}

/// An operation of a program, by system calls of Linux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    /// stat(2), access(2), readlink(2), an open(2) that failed: checks whether the path exists.
    Look {
        /// The path.
        path: PathNumber,
        /// Whether it existed.
        found: bool,
    },
    /// open(2) of a file that existed, or is made.
    Open {
        /// The number of this open in other steps.
        open: OpenNumber,
        /// The file.
        path: PathNumber,
        /// The file may be written.
        writes: bool,
        /// It may be made.
        creates: bool,
        /// It must be made.
        exclusive: bool,
        /// Its content is dropped.
        truncates: bool,
    },
    /// read(2) or mmap(2), the first since the file was opened.
    Read {
        /// The open file.
        open: OpenNumber,
    },
    /// write(2).
    Write {
        /// The open file.
        open: OpenNumber,
        /// The offset.
        offset: u64,
        /// The number of bytes.
        length: u32,
    },
    /// close(2) of one of several descriptors of a file that was written: Linux flushes it.
    Flush {
        /// The open file.
        open: OpenNumber,
    },
    /// close(2) of the last descriptor.
    Close {
        /// The open file.
        open: OpenNumber,
    },
    /// fsync(2), fdatasync(2).
    Sync {
        /// The open file.
        open: OpenNumber,
    },
    /// execve(2) of a file in the tree.
    Execute {
        /// The file.
        path: PathNumber,
    },
    /// mkdir(2).
    MakeDirectory {
        /// The directory.
        path: PathNumber,
    },
    /// unlink(2) and rmdir(2).
    Remove {
        /// The removed path.
        path: PathNumber,
    },
    /// rename(2).
    Rename {
        /// The old name.
        from: PathNumber,
        /// The new name.
        to: PathNumber,
    },
    /// link(2).
    Link {
        /// The file.
        from: PathNumber,
        /// Its further name.
        to: PathNumber,
    },
    /// symlink(2).
    Symlink {
        /// The link.
        path: PathNumber,
    },
    /// chmod(2), fchmod(2).
    SetMode {
        /// The object.
        path: PathNumber,
        /// Permission bits.
        mode: u32,
    },
    /// utimensat(2) and its like.
    SetTimes {
        /// The object.
        path: PathNumber,
    },
    /// truncate(2), ftruncate(2).
    SetSize {
        /// The file.
        path: PathNumber,
        /// Its new size in bytes.
        size: u64,
    },
    /// getdents(2): the whole directory is read.
    List {
        /// The directory.
        path: PathNumber,
    },
}

impl Trace {
    /// An empty trace.
    pub(crate) fn new(title: String) -> Self {
        Self {
            version: VERSION,
            title,
            paths: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// Its first steps, and a close for each file that is still open then.
    pub(crate) fn beginning(&self, steps: usize) -> Self {
        let mut beginning = Self::new(self.title.clone());
        beginning.paths.clone_from(&self.paths);
        let (mut left, mut open) = (steps, BTreeSet::new());
        for phase in &self.phases {
            if left == 0 {
                break;
            }
            let kept = &phase.steps[..left.min(phase.steps.len())];
            left -= kept.len();
            for step in kept {
                match step.action {
                    Action::Open { open: number, .. } => drop(open.insert(number)),
                    Action::Close { open: number } => drop(open.remove(&number)),
                    _ => {}
                }
            }
            beginning.phases.push(Phase {
                name: phase.name.clone(),
                steps: kept.to_vec(),
            });
        }
        let closes = open.into_iter().map(|open| Step {
            think_us: 0,
            action: Action::Close { open },
        });
        if let Some(last) = beginning.phases.last_mut() {
            last.steps.extend(closes);
        }
        beginning
    }

    /// The number of its steps.
    pub(crate) fn steps(&self) -> usize {
        self.phases.iter().map(|phase| phase.steps.len()).sum()
    }

    /// Reads a file made by [`Trace::write`].
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let shown = file.display();
        let packed = File::open(file).with_context(|| format!("could not open {shown}"))?;
        let bytes = zstd::decode_all(packed).with_context(|| format!("{shown} is no trace"))?;
        let trace: Self =
            postcard::from_bytes(&bytes).with_context(|| format!("{shown} is no trace"))?;
        ensure!(
            trace.version == VERSION,
            "{shown} has version {}, and {VERSION} is wanted; record it anew",
            trace.version
        );
        Ok(trace)
    }

    /// Writes it to a file, compressed.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        const LEVEL: i32 = 19;
        let packed = zstd::encode_all(&*postcard::to_allocvec(self)?, LEVEL)?;
        std::fs::write(file, packed).with_context(|| format!("could not write {}", file.display()))
    }

    /// A path by its number.
    ///
    /// # Errors
    /// Fails when the trace has no such path.
    pub(crate) fn path(&self, number: PathNumber) -> Result<&str> {
        let path = self.paths.get(number as usize);
        Ok(path.context("the trace names a path that it does not have")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_survives_its_file() {
        let folder = std::env::temp_dir().join(format!("evaluation-trace-{}", std::process::id()));
        let mut trace = Trace::new("made up".to_owned());
        trace.paths.push("a/b".to_owned());
        trace.phases.push(Phase {
            name: "only".to_owned(),
            steps: vec![Step {
                think_us: 7,
                action: Action::MakeDirectory { path: 0 },
            }],
        });
        trace.write(&folder).unwrap();
        let found = Trace::read(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(found.path(0).unwrap(), "a/b");
        assert!(found.path(1).is_err());
        let step = &found.phases[0].steps[0];
        assert_eq!(step.action, Action::MakeDirectory { path: 0 });
        assert_eq!(step.think_us, 7);
    }

    #[test]
    fn a_beginning_closes_what_it_has_opened() {
        let open = |open| Action::Open {
            open,
            path: 0,
            writes: true,
            creates: true,
            exclusive: false,
            truncates: false,
        };
        let phase = |name: &str, actions: &[Action]| Phase {
            name: name.to_owned(),
            steps: actions
                .iter()
                .map(|action| Step {
                    think_us: 1,
                    action: action.clone(),
                })
                .collect(),
        };
        let mut trace = Trace::new("made up".to_owned());
        let first = [open(1), open(2), Action::Close { open: 1 }];
        trace.phases.push(phase("first", &first));
        let second = [open(3), Action::Close { open: 2 }];
        trace.phases.push(phase("second", &second));
        let beginning = trace.beginning(4);
        assert_eq!(beginning.phases.len(), 2);
        assert_eq!(beginning.phases[0].steps.len(), 3);
        let last: Vec<&Action> = beginning.phases[1]
            .steps
            .iter()
            .map(|step| &step.action)
            .collect();
        let closed = [Action::Close { open: 2 }, Action::Close { open: 3 }];
        assert_eq!(last, [&open(3), &closed[0], &closed[1]]);
        assert_eq!(trace.beginning(1).steps(), 2);
        assert_eq!(trace.beginning(100).steps(), 6);
    }
}
