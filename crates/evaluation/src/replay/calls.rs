//! Replays a [`Trace`] by system calls in a folder, of a mounted file system or a local disk.
//!
//! The kernel's own caches are used here; the native NFS client needs a model of them. The bytes written
//! are the same in every replay of a trace, so the results of two replays can be compared ([`same_tree`]).
//!
//! What must never enter: which file system it is.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};

use super::content::Text;
use crate::trace::{Action, OpenNumber, PathNumber, Step, Trace};

/// A replay in progress.
#[derive(Debug)]
pub(crate) struct Calls<'a> {
    trace: &'a Trace,
    root: PathBuf,
    open: HashMap<OpenNumber, File>,
    text: Text,
    buffer: Vec<u8>,
}

impl<'a> Calls<'a> {
    /// Begins in an empty folder.
    pub(crate) fn begin(trace: &'a Trace, root: PathBuf) -> Self {
        Self {
            trace,
            root,
            open: HashMap::new(),
            text: Text::from_seed(1),
            buffer: vec![0; 1 << 20],
        }
    }

    /// Replays these steps without pauses, and returns the time.
    ///
    /// # Errors
    /// Fails when the files differ from those that the recorded programs found.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Result<Duration> {
        let began = Instant::now();
        for (number, step) in steps.iter().enumerate() {
            let done = self.perform(&step.action);
            done.with_context(|| format!("step {number}, {:?}, differs", step.action))?;
        }
        Ok(began.elapsed())
    }

    fn path(&self, number: PathNumber) -> Result<PathBuf> {
        let path = self.trace.path(number)?;
        Ok(match path {
            "" => self.root.clone(),
            path => self.root.join(path),
        })
    }

    fn opened(&self, open: OpenNumber) -> Result<&File> {
        let file = self.open.get(&open);
        file.with_context(|| format!("file {open} is not open"))
    }

    fn perform(&mut self, action: &Action) -> Result<()> {
        match *action {
            Action::Look { path, found } => look(&self.path(path)?, found),
            Action::Open { open, path, .. } => {
                let file = open_as(&self.path(path)?, action)?;
                self.open.insert(open, file);
                Ok(())
            }
            Action::Read { open } => {
                let file = self.open.get(&open).context("a file is not open")?;
                read_whole(file, &mut self.buffer)
            }
            Action::Write {
                open,
                offset,
                length,
            } => self.write(open, offset, length as usize),
            Action::Flush { open } => {
                // Closing a copy of the descriptor causes the same flush as closing one of several descriptors.
                drop(self.opened(open)?.try_clone()?);
                Ok(())
            }
            Action::Close { open } => {
                let file = self.open.remove(&open);
                file.map(drop).context("a file is not open")
            }
            Action::Sync { open } => Ok(self.opened(open)?.sync_all()?),
            Action::Execute { path } => {
                let file = File::open(self.path(path)?)?;
                read_whole(&file, &mut self.buffer)
            }
            _ => self.change(action),
        }
    }

    /// Actions on names and attributes.
    fn change(&self, action: &Action) -> Result<()> {
        match *action {
            Action::MakeDirectory { path } => fs::create_dir(self.path(path)?)?,
            Action::Symlink { path } => std::os::unix::fs::symlink("target", self.path(path)?)?,
            Action::Remove { path } => remove(&self.path(path)?)?,
            Action::Rename { from, to } => fs::rename(self.path(from)?, self.path(to)?)?,
            Action::Link { from, to } => fs::hard_link(self.path(from)?, self.path(to)?)?,
            Action::SetMode { path, mode } => {
                fs::set_permissions(self.path(path)?, fs::Permissions::from_mode(mode))?;
            }
            Action::SetTimes { path } => set_times(&self.path(path)?)?,
            Action::SetSize { path, size } => {
                let file = File::options().write(true).open(self.path(path)?)?;
                file.set_len(size)?;
            }
            Action::List { path } => {
                for entry in fs::read_dir(self.path(path)?)? {
                    entry?;
                }
            }
            _ => bail!("this changes no name"),
        }
        Ok(())
    }

    fn write(&mut self, open: OpenNumber, offset: u64, length: usize) -> Result<()> {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        self.text.fill(&mut self.buffer[..length]);
        let file = self.open.get(&open).context("a file is not open")?;
        Ok(file.write_all_at(&self.buffer[..length], offset)?)
    }
}

fn look(path: &Path, found: bool) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => ensure!(found, "it is there"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ensure!(!found, "it is missing"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn open_as(path: &Path, action: &Action) -> Result<File> {
    let &Action::Open {
        writes,
        creates,
        exclusive,
        truncates,
        ..
    } = action
    else {
        bail!("this opens nothing");
    };
    let mut flags = OFlags::CLOEXEC;
    flags |= if writes { OFlags::RDWR } else { OFlags::RDONLY };
    flags.set(OFlags::CREATE, creates);
    flags.set(OFlags::EXCL, exclusive);
    flags.set(OFlags::TRUNC, truncates);
    let mode = Mode::from_raw_mode(0o644);
    Ok(rustix::fs::open(path, flags, mode)?.into())
}

fn read_whole(file: &File, buffer: &mut [u8]) -> Result<()> {
    let mut at = 0;
    loop {
        match file.read_at(buffer, at)? {
            0 => return Ok(()),
            count => at += count as u64,
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(path),
        done => done,
    }
}

fn set_times(path: &Path) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// Compares names and contents of everything below two folders. Returns how many bytes were compared.
///
/// # Errors
/// Fails at the first difference.
pub(crate) fn same_tree(one: &Path, other: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut count = 0;
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        let (here, there) = (entry.path(), other.join(entry.file_name()));
        let kind = entry.file_type()?;
        let found = fs::symlink_metadata(&there);
        let found = found.with_context(|| format!("{} is missing", there.display()))?;
        ensure!(
            found.file_type() == kind,
            "{} is of another kind",
            there.display()
        );
        if kind.is_dir() {
            bytes += same_tree(&here, &there)?;
        } else if kind.is_file() {
            let content = fs::read(&here)?;
            ensure!(
                content == fs::read(&there)?,
                "{} has another content",
                there.display()
            );
            bytes += content.len() as u64;
        }
        count += 1;
    }
    ensure!(
        fs::read_dir(other)?.count() == count,
        "{} has more names than it should",
        other.display()
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Phase;

    fn trace() -> Trace {
        let open = |open, path, creates| Action::Open {
            open,
            path,
            writes: creates,
            creates,
            exclusive: false,
            truncates: creates,
        };
        let write = |offset, length| Action::Write {
            open: 1,
            offset,
            length,
        };
        let actions = [
            Action::MakeDirectory { path: 1 },
            Action::Look {
                path: 2,
                found: false,
            },
            open(1, 2, true),
            write(0, 5000),
            write(5000, 17),
            Action::Flush { open: 1 },
            Action::Close { open: 1 },
            Action::Rename { from: 2, to: 3 },
            open(2, 3, false),
            Action::Read { open: 2 },
            Action::Close { open: 2 },
            Action::SetTimes { path: 3 },
            Action::SetMode {
                path: 3,
                mode: 0o600,
            },
            Action::Symlink { path: 4 },
            Action::List { path: 1 },
            Action::Remove { path: 4 },
        ];
        let step = |action: Action| Step {
            think_us: 0,
            action,
        };
        let mut trace = Trace::new("made up".to_owned());
        trace.paths = ["", "d", "d/a", "d/b", "d/l"].map(str::to_owned).to_vec();
        trace.phases.push(Phase {
            name: "only".to_owned(),
            steps: actions.map(step).to_vec(),
        });
        trace
    }

    #[test]
    fn two_replays_leave_the_same_and_a_difference_is_found() {
        let trace = trace();
        let base = std::env::temp_dir().join(format!("calls-{}", std::process::id()));
        let folders = ["one", "other"].map(|name| base.join(name));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
            let mut calls = Calls::begin(&trace, folder.clone());
            calls.play(&trace.phases[0].steps).unwrap();
        }
        let [one, other] = &folders;
        assert_eq!(same_tree(one, other).unwrap(), 5017);
        fs::write(other.join("d/more"), "").unwrap();
        assert!(same_tree(one, other).is_err());
        fs::remove_file(other.join("d/more")).unwrap();
        fs::write(other.join("d/b"), "other").unwrap();
        assert!(same_tree(one, other).is_err());
        // Existing files make the next replay fail.
        let again = Calls::begin(&trace, one.clone()).play(&trace.phases[0].steps);
        assert!(again.is_err());
        fs::remove_dir_all(base).unwrap();
    }
}
