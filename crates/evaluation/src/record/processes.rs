//! The processes of a recording: their folders and descriptors, and the effects of their calls on the tree.
//!
//! Descriptors are followed through dup(2), fork(2), execve(2) and exit, because a file is closed when
//! the last of them goes, often without a close call.
//!
//! What must never enter: parsing of lines, and the use of steps.

use std::collections::HashMap;

use super::strace::Call;
use crate::trace::{Action, OpenNumber, PathNumber, Step, Trace};

/// An open file as the kernel keeps it, shared by descriptors.
#[derive(Debug)]
struct Description {
    path: PathNumber,
    descriptors: u32,
    offset: u64,
    appends: bool,
    written: bool,
    read: bool,
}

#[derive(Debug, Clone, Default)]
struct Process {
    folder: String,
    /// Open file and whether execve(2) closes it.
    descriptors: HashMap<i64, (OpenNumber, bool)>,
    forking: bool,
}

/// Turns calls into steps.
#[derive(Debug)]
pub(crate) struct Processes {
    tree: String,
    processes: HashMap<u32, Process>,
    /// The process that began a fork last.
    forker: Option<u32>,
    open: HashMap<OpenNumber, Description>,
    opened: OpenNumber,
    numbers: HashMap<String, PathNumber>,
    pub(super) sizes: HashMap<PathNumber, u64>,
    idle_since: Option<f64>,
    /// The steps of this phase.
    steps: Vec<Step>,
    paths: Vec<String>,
}

impl Processes {
    /// For programs that work on the tree at this absolute path, and start there.
    pub(crate) fn in_tree(tree: &str) -> Self {
        Self {
            tree: tree.trim_end_matches('/').to_owned(),
            processes: HashMap::new(),
            forker: None,
            open: HashMap::new(),
            opened: 0,
            numbers: HashMap::new(),
            sizes: HashMap::new(),
            idle_since: None,
            steps: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// The steps so far; a new phase begins, with new processes.
    pub(crate) fn end_phase(&mut self) -> Vec<Step> {
        let all: Vec<u32> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|process| self.exit(process));
        self.idle_since = None;
        std::mem::take(&mut self.steps)
    }

    /// Hands the paths over at the end.
    pub(crate) fn finish(self, trace: &mut Trace) {
        trace.paths = self.paths;
    }

    /// A process has begun a call that other calls will interrupt.
    pub(crate) fn begun(&mut self, process: u32, name: &str) {
        if is_fork(name) {
            self.process(process).forking = true;
            self.forker = Some(process);
        }
    }

    /// A call is over.
    pub(crate) fn done(&mut self, call: &Call) {
        self.process(call.process);
        let before = self.steps.len();
        self.carry_out(call);
        if let Some(first) = self.steps.get_mut(before) {
            let since = self.idle_since.unwrap_or(call.began);
            first.think_us = ((call.began - since).max(0.0) * 1e6) as u32;
            self.idle_since = Some(call.ended.max(since));
        } else {
            self.idle_since.get_or_insert(call.began);
        }
    }

    /// A process seen for the first time has the descriptors of the one that is forking.
    fn process(&mut self, number: u32) -> &mut Process {
        if !self.processes.contains_key(&number) {
            let parent = self.forker.filter(|parent| *parent != number);
            let parent = parent.and_then(|parent| self.processes.get(&parent).cloned());
            let process = parent.unwrap_or_else(|| Process {
                folder: self.tree.clone(),
                ..Process::default()
            });
            for (open, _) in process.descriptors.values() {
                if let Some(description) = self.open.get_mut(open) {
                    description.descriptors += 1;
                }
            }
            let process = Process {
                forking: false,
                ..process
            };
            self.processes.insert(number, process);
        }
        self.processes.entry(number).or_default()
    }

    fn carry_out(&mut self, call: &Call) {
        let Call { process, name, .. } = call;
        match name.as_str() {
            "exit" => self.exit(*process),
            _ if is_fork(name) => self.fork(call),
            "execve" => self.execute(call),
            "chdir" | "fchdir" => self.change_folder(call),
            "close" => self.close(*process, number(call, 0)),
            "dup" | "dup2" | "dup3" | "fcntl" => self.duplicate(call),
            "openat" | "open" | "creat" => self.open(call),
            _ => {
                if !self.data(call) {
                    self.names(call);
                }
            }
        }
    }

    fn fork(&mut self, call: &Call) {
        self.process(call.process).forking = false;
        let Some(child) = call.result.and_then(|child| u32::try_from(child).ok()) else {
            return;
        };
        self.forker = Some(call.process);
        self.process(child);
    }

    fn exit(&mut self, process: u32) {
        let Some(gone) = self.processes.remove(&process) else {
            return;
        };
        for (open, _) in gone.descriptors.into_values() {
            self.release(open);
        }
    }

    fn execute(&mut self, call: &Call) {
        let path = self.path(call, None, 0);
        match (path, call.result) {
            (Some(path), Some(_)) => self.emit(Action::Execute { path }),
            (Some(path), None) => return self.emit_failure(call, path),
            (None, None) => return,
            (None, Some(_)) => {}
        }
        let process = self.process(call.process);
        let closing: Vec<i64> = process
            .descriptors
            .iter()
            .filter(|(_, (_, closes))| *closes)
            .map(|(&descriptor, _)| descriptor)
            .collect();
        for descriptor in closing {
            self.close(call.process, Some(descriptor));
        }
    }

    fn change_folder(&mut self, call: &Call) {
        if call.result.is_none() {
            return;
        }
        let argument = &call.arguments[0];
        let folder = match annotated(argument) {
            Some(folder) if call.name == "fchdir" => folder.to_owned(),
            _ => join(&self.process(call.process).folder, &unquoted(argument)),
        };
        self.process(call.process).folder = folder;
    }

    fn close(&mut self, process: u32, descriptor: Option<i64>) {
        let Some(descriptor) = descriptor else { return };
        if let Some((open, _)) = self.process(process).descriptors.remove(&descriptor) {
            self.release(open);
        }
    }

    /// One descriptor of an open file is gone.
    fn release(&mut self, open: OpenNumber) {
        let Some(description) = self.open.get_mut(&open) else {
            return;
        };
        description.descriptors -= 1;
        if description.descriptors == 0 {
            self.open.remove(&open);
            self.emit(Action::Close { open });
        } else if std::mem::take(&mut description.written) {
            self.emit(Action::Flush { open });
        }
    }

    fn duplicate(&mut self, call: &Call) {
        let duplicates = call.name != "fcntl"
            || call
                .arguments
                .get(1)
                .is_some_and(|what| what.starts_with("F_DUPFD"));
        if call.name == "fcntl" && !duplicates {
            return self.mark_closing(call);
        }
        let (Some(from), Some(to)) = (number(call, 0), call.result) else {
            return;
        };
        if from == to {
            return;
        }
        self.close(call.process, Some(to));
        let closes = call.arguments.iter().any(|word| word.contains("CLOEXEC"));
        let found = self.process(call.process).descriptors.get(&from).copied();
        if let Some((open, _)) = found {
            self.process(call.process)
                .descriptors
                .insert(to, (open, closes));
            if let Some(description) = self.open.get_mut(&open) {
                description.descriptors += 1;
            }
        }
    }

    /// fcntl(2) F_SETFD.
    fn mark_closing(&mut self, call: &Call) {
        let sets = call.arguments.get(1).is_some_and(|what| what == "F_SETFD");
        let (true, Some(descriptor)) = (sets, number(call, 0)) else {
            return;
        };
        let closes = call
            .arguments
            .get(2)
            .is_some_and(|flag| flag == "FD_CLOEXEC");
        if let Some(known) = self.process(call.process).descriptors.get_mut(&descriptor) {
            known.1 = closes;
        }
    }

    fn open(&mut self, call: &Call) {
        let (folder, name) = match call.name.as_str() {
            "openat" => (call.arguments.first().cloned(), 1),
            _ => (None, 0),
        };
        let path = self.path(call, folder.as_deref(), name);
        if let Some(descriptor) = call.result {
            self.close(call.process, Some(descriptor));
        }
        let Some(path) = path else { return };
        let Some(descriptor) = call.result else {
            return self.emit_failure(call, path);
        };
        let flags = match call.name.as_str() {
            "creat" => "O_WRONLY|O_CREAT|O_TRUNC",
            _ => call.arguments.get(name + 1).map_or("", String::as_str),
        };
        let has = |flag: &str| flags.split('|').any(|one| one == flag);
        if has("O_DIRECTORY") || has("O_PATH") {
            // A directory is not an open file for NFS; only reading it counts.
            return self.emit(Action::Look { path, found: true });
        }
        if has("O_TRUNC") {
            self.sizes.insert(path, 0);
        }
        let open = self.opened;
        self.opened += 1;
        self.open.insert(
            open,
            Description {
                path,
                descriptors: 1,
                offset: 0,
                appends: has("O_APPEND"),
                written: false,
                read: false,
            },
        );
        let closes = has("O_CLOEXEC");
        self.process(call.process)
            .descriptors
            .insert(descriptor, (open, closes));
        self.emit(Action::Open {
            open,
            path,
            writes: has("O_WRONLY") || has("O_RDWR"),
            creates: has("O_CREAT"),
            exclusive: has("O_EXCL"),
            truncates: has("O_TRUNC"),
        });
    }

    /// Calls on open files; false for all others.
    fn data(&mut self, call: &Call) -> bool {
        let name = call.name.as_str();
        let place = match name {
            "mmap" => 4,
            "copy_file_range" => 2,
            "read" | "pread64" | "readv" | "write" | "pwrite64" | "writev" | "lseek" | "fsync"
            | "fdatasync" | "sendfile" => 0,
            _ => return false,
        };
        let (Some(descriptor), Some(result)) = (number(call, place), call.result) else {
            return true;
        };
        let open = self.process(call.process).descriptors.get(&descriptor);
        let Some(&(open, _)) = open else { return true };
        match name {
            "mmap" => self.read(open),
            "read" | "readv" | "pread64" => {
                self.advance(open, if name == "pread64" { 0 } else { result });
                if result > 0 {
                    self.read(open);
                }
            }
            "lseek" => self.seek(open, result),
            "fsync" | "fdatasync" => self.emit(Action::Sync { open }),
            "pwrite64" => self.write(open, number(call, 3), result),
            _ => self.write(open, None, result),
        }
        true
    }

    /// Only the first time counts; afterwards the pages are cached.
    fn read(&mut self, open: OpenNumber) {
        let description = self.open.get_mut(&open);
        if description.is_some_and(|one| !std::mem::replace(&mut one.read, true)) {
            self.emit(Action::Read { open });
        }
    }

    fn advance(&mut self, open: OpenNumber, by: i64) {
        if let Some(description) = self.open.get_mut(&open) {
            description.offset += by.unsigned_abs();
        }
    }

    fn seek(&mut self, open: OpenNumber, to: i64) {
        if let Some(description) = self.open.get_mut(&open) {
            description.offset = to.unsigned_abs();
        }
    }

    fn write(&mut self, open: OpenNumber, at: Option<i64>, length: i64) {
        let Some(description) = self.open.get_mut(&open) else {
            return;
        };
        let size = self.sizes.entry(description.path).or_insert(0);
        let offset = match at {
            Some(at) => at.unsigned_abs(),
            None if description.appends => *size,
            None => description.offset,
        };
        let end = offset + length.unsigned_abs();
        *size = (*size).max(end);
        if at.is_none() {
            description.offset = end;
        }
        description.written = true;
        let length = u32::try_from(length).unwrap_or(0);
        self.emit(Action::Write {
            open,
            offset,
            length,
        });
    }

    pub(super) fn emit(&mut self, action: Action) {
        self.steps.push(Step {
            think_us: 0,
            action,
        });
    }

    /// The path in an argument, if it is in the tree. `folder` is the argument with the folder in which
    /// the path begins; none means the process's own folder.
    pub(super) fn path(
        &mut self,
        call: &Call,
        folder: Option<&str>,
        place: usize,
    ) -> Option<PathNumber> {
        let name = unquoted(call.arguments.get(place)?);
        let start = match folder.and_then(annotated) {
            Some(start) => start.to_owned(),
            None => self.process(call.process).folder.clone(),
        };
        let whole = join(&start, &name);
        self.intern(&whole)
    }

    /// The path of a descriptor in the output of strace, if it is in the tree.
    pub(super) fn path_of(&mut self, argument: &str) -> Option<PathNumber> {
        self.intern(annotated(argument)?)
    }

    fn intern(&mut self, whole: &str) -> Option<PathNumber> {
        let rest = whole.strip_prefix(&self.tree)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let path = rest.trim_start_matches('/');
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        let number = self.paths.len() as PathNumber;
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        Some(number)
    }
}

fn is_fork(name: &str) -> bool {
    matches!(name, "fork" | "vfork" | "clone" | "clone3")
}

/// A descriptor or another number at the beginning of an argument.
pub(super) fn number(call: &Call, place: usize) -> Option<i64> {
    let argument = call.arguments.get(place)?;
    let digits = argument
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(argument.len());
    argument[..digits].parse().ok()
}

/// `/path` of `3</path>` and of `AT_FDCWD</path>`.
fn annotated(argument: &str) -> Option<&str> {
    let (_, path) = argument.split_once('<')?;
    path.strip_suffix('>')
}

/// The name in an argument. NULL means the object of the descriptor beside it (utimensat(2)).
fn unquoted(argument: &str) -> String {
    match argument {
        "NULL" => String::new(),
        quoted => quoted.trim_matches('"').to_owned(),
    }
}

/// A path relative to a folder, without `.` and `..`. Links are not followed.
fn join(folder: &str, name: &str) -> String {
    let whole = match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("{folder}/{name}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::strace::{Event, Lines};
    use super::*;

    fn steps(text: &str) -> (Vec<Step>, Vec<String>) {
        let (mut lines, mut processes) = (Lines::default(), Processes::in_tree("/t"));
        for line in text.lines() {
            match lines.read(line.trim()) {
                Some(Event::Done(call)) => processes.done(&call),
                Some(Event::Begun { process, name }) => processes.begun(process, &name),
                None => {}
            }
        }
        (processes.end_phase(), processes.paths)
    }

    #[test]
    fn a_file_is_closed_with_its_last_descriptor() {
        let (steps, paths) = steps(
            r#"1 1.0 openat(AT_FDCWD</t>, "x", O_WRONLY|O_CREAT, 0666) = 3</t/x> <0.0>
               1 1.1 dup2(3</t/x>, 1) = 1</t/x> <0.0>
               1 1.2 close(3</t/x>) = 0 <0.0>
               1 1.3 vfork( <unfinished ...>
               2 1.4 write(1</t/x>, ""..., 5) = 5 <0.0>
               2 1.5 +++ exited with 0 +++
               1 1.6 <... vfork resumed>) = 2 <0.3>
               1 1.7 close(1</t/x>) = 0 <0.0>"#,
        );
        let actions: Vec<&Action> = steps.iter().map(|step| &step.action).collect();
        assert_eq!(paths, ["x"]);
        assert!(matches!(actions[0], Action::Open { creates: true, .. }));
        assert!(matches!(
            actions[1],
            Action::Write {
                offset: 0,
                length: 5,
                ..
            }
        ));
        assert_eq!(
            actions[2..],
            [&Action::Flush { open: 0 }, &Action::Close { open: 0 }]
        );
    }

    #[test]
    fn only_the_tree_counts() {
        let (steps, paths) = steps(
            r#"1 1.0 chdir("sub") = 0 <0.0>
               1 1.5 mkdir("../d", 0777) = 0 <0.5>
               1 2.0 access("/etc/passwd", F_OK) = 0 <0.0>
               1 3.0 unlink("/tx") = 0 <0.0>
               1 4.0 unlink("/t/y") = -1 ENOENT (No such file or directory) <0.0>"#,
        );
        assert_eq!(paths, ["d", "y"]);
        assert_eq!(steps[0].action, Action::MakeDirectory { path: 0 });
        assert_eq!(
            steps[1].action,
            Action::Look {
                path: 1,
                found: false
            }
        );
        assert_eq!((steps.len(), steps[1].think_us), (2, 2_000_000));
    }
}
