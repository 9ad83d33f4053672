//! Calls on names and attributes, as steps.
//!
//! What must never enter: open files and processes; see `processes`.

use super::processes::{Processes, number};
use super::strace::Call;
use crate::trace::{Action, PathNumber};

impl Processes {
    /// Calls on names and attributes.
    pub(super) fn names(&mut self, call: &Call) {
        let first = call.arguments.first().cloned().unwrap_or_default();
        let at = first.as_str();
        let done = call.result.is_some();
        let (path, action): (_, fn(PathNumber) -> Action) = match call.name.as_str() {
            "mkdir" => (self.path(call, None, 0), make_directory),
            "mkdirat" => (self.path(call, Some(at), 1), make_directory),
            "unlink" | "rmdir" => (self.path(call, None, 0), remove),
            "unlinkat" => (self.path(call, Some(at), 1), remove),
            "symlink" => (self.path(call, None, 1), |path| Action::Symlink { path }),
            "symlinkat" => {
                let folder = call.arguments.get(1).cloned();
                (self.path(call, folder.as_deref(), 2), |path| {
                    Action::Symlink { path }
                })
            }
            "utimensat" | "futimesat" => (self.path(call, Some(at), 1), set_times),
            "utimes" | "utime" => (self.path(call, None, 0), set_times),
            "getdents64" | "getdents" => (self.path_of(at), |path| Action::List { path }),
            "stat" | "lstat" | "access" | "readlink" | "fstat" | "statx" | "newfstatat"
            | "readlinkat" | "faccessat" | "faccessat2" => return self.look(call),
            "chmod" | "fchmod" | "fchmodat" => return self.set_mode(call),
            "truncate" | "ftruncate" => return self.set_size(call),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => return self.two_names(call),
            _ => return,
        };
        let Some(path) = path else { return };
        match done {
            // Reading a directory ends with an empty answer, for which the server is not asked.
            true if call.name.starts_with("getdents") && call.result == Some(0) => {}
            true => self.emit(action(path)),
            false => self.emit_failure(call, path),
        }
    }

    /// A failed call has looked up the name and found it, or not.
    pub(super) fn emit_failure(&mut self, call: &Call, path: PathNumber) {
        let found = !call.lacks_name;
        self.emit(Action::Look { path, found });
    }

    fn look(&mut self, call: &Call) {
        let with_folder = matches!(
            call.name.as_str(),
            "statx" | "newfstatat" | "readlinkat" | "faccessat" | "faccessat2"
        );
        let found = !call.lacks_name;
        let path = match call.name.as_str() {
            "fstat" => self.path_of(&call.arguments[0]),
            _ if with_folder => {
                let folder = call.arguments.first().cloned();
                self.path(call, folder.as_deref(), 1)
            }
            _ => self.path(call, None, 0),
        };
        if let Some(path) = path {
            self.emit(Action::Look { path, found });
        }
    }

    fn set_mode(&mut self, call: &Call) {
        let (path, mode) = match call.name.as_str() {
            "fchmodat" => {
                let folder = call.arguments.first().cloned();
                (self.path(call, folder.as_deref(), 1), 2)
            }
            "fchmod" => (self.path_of(&call.arguments[0]), 1),
            _ => (self.path(call, None, 0), 1),
        };
        let digits = call.arguments.get(mode).map_or("0644", String::as_str);
        let mode = u32::from_str_radix(digits, 8).unwrap_or(0o644) & 0o7777;
        if let (Some(path), true) = (path, call.result.is_some()) {
            self.emit(Action::SetMode { path, mode });
        }
    }

    fn set_size(&mut self, call: &Call) {
        let path = match call.name.as_str() {
            "ftruncate" => self.path_of(&call.arguments[0]),
            _ => self.path(call, None, 0),
        };
        let size = number(call, 1).map_or(0, i64::unsigned_abs);
        if let (Some(path), true) = (path, call.result.is_some()) {
            self.sizes.insert(path, size);
            self.emit(Action::SetSize { path, size });
        }
    }

    fn two_names(&mut self, call: &Call) {
        let (from, to) = match call.name.as_str() {
            "rename" | "link" => (self.path(call, None, 0), self.path(call, None, 1)),
            _ => {
                let folders = [0, 2].map(|place: usize| call.arguments.get(place).cloned());
                let from = self.path(call, folders[0].as_deref(), 1);
                (from, self.path(call, folders[1].as_deref(), 3))
            }
        };
        let (Some(from), Some(to), true) = (from, to, call.result.is_some()) else {
            return;
        };
        let size = self.sizes.get(&from).copied().unwrap_or(0);
        self.sizes.insert(to, size);
        self.emit(match call.name.starts_with("link") {
            true => Action::Link { from, to },
            false => Action::Rename { from, to },
        });
    }
}

fn make_directory(path: PathNumber) -> Action {
    Action::MakeDirectory { path }
}

fn remove(path: PathNumber) -> Action {
    Action::Remove { path }
}

fn set_times(path: PathNumber) -> Action {
    Action::SetTimes { path }
}
