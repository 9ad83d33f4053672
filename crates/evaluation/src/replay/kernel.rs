//! A model of the Linux client: its knowledge, and its requests.
//!
//! What must never enter: the times of programs, and the encoding of requests.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use nfs4::attributes::Settime4;
use nfs4::{
    Attributes4, CreateHow4, CreateType4, NfsFh4, NfsFtype4, StableHow4, Stateid4, Verifier4, share,
};
use nfs4_client::{Client, How, STAT, ops};

use super::compare::{Object, Outcome};
use super::content::Text;
use super::requests::{Found, Requests, of_size};
use super::work::Counts;
use crate::trace::{Action, OpenNumber, PathNumber, Trace};

/// The validity of attributes: nfs(5), `acregmin` and `acdirmin`.
const FILE_FRESH: Duration = Duration::from_secs(3);
const DIRECTORY_FRESH: Duration = Duration::from_secs(30);

/// An object's place in [`Kernel::objects`].
pub(super) type Number = usize;

#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    Known(Number),
    Missing,
}

/// An object as the client knows it.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) handle: NfsFh4,
    kind: NfsFtype4,
    /// Its expected content.
    pub(super) content: Vec<u8>,
    /// The part that the server lacks.
    pub(super) dirty: Range<usize>,
    /// The change attribute that the pages belong to.
    change: u64,
    asked: Instant,
    /// The pages belong to another change attribute.
    is_stale: bool,
    pub(super) stateid: Option<Stateid4>,
    pub(super) opens: u32,
    /// The directory and name under which it awaits its last close.
    pub(super) silly: Option<(NfsFh4, String)>,
}

/// The client, with one file system mounted.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(super) requests: Requests,
    pub(super) objects: Vec<Inode>,
    pub(super) names: BTreeMap<String, Name>,
    open: HashMap<OpenNumber, Number>,
    text: Text,
}

impl Inode {
    fn new(found: Found) -> Self {
        Self {
            kind: found.attributes.type_.unwrap_or(NfsFtype4::Reg),
            change: found.attributes.change.unwrap_or(0),
            handle: found.handle,
            content: Vec::new(),
            dirty: 0..0,
            asked: Instant::now(),
            is_stale: false,
            stateid: None,
            opens: 0,
            silly: None,
        }
    }

    fn is_fresh(&self) -> bool {
        let time = match self.kind {
            NfsFtype4::Dir => DIRECTORY_FRESH,
            _ => FILE_FRESH,
        };
        self.asked.elapsed() < time
    }

    /// Attributes after an own change of this client.
    pub(super) fn refresh(&mut self, attributes: &Attributes4) {
        self.asked = Instant::now();
        self.change = attributes.change.unwrap_or(self.change);
    }
}

impl Kernel {
    /// Mounts a directory.
    pub(crate) fn mount(client: Client, root: NfsFh4) -> Self {
        let root = Inode::new(Found {
            handle: root,
            attributes: Attributes4 {
                type_: Some(NfsFtype4::Dir),
                ..Attributes4::default()
            },
        });
        Self {
            requests: Requests::of(client),
            objects: vec![root],
            names: BTreeMap::from([(String::new(), Name::Known(0))]),
            open: HashMap::new(),
            text: Text::from_seed(1),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.requests.counts
    }

    /// The tree that every server must have.
    pub(crate) fn outcome(&self) -> Outcome {
        let known = self.names.iter().filter_map(|(path, name)| match name {
            Name::Known(number) if !path.is_empty() => Some((path, &self.objects[*number])),
            _ => None,
        });
        let objects = known.map(|(path, inode)| {
            let object = match inode.kind {
                NfsFtype4::Dir => Object::Directory,
                NfsFtype4::Lnk => Object::Link,
                _ => Object::File(inode.content.clone()),
            };
            (path.clone(), object)
        });
        Outcome {
            objects: objects.collect(),
        }
    }

    /// Does the operation of a program.
    pub(crate) async fn perform(&mut self, trace: &Trace, action: &Action) -> Result<()> {
        let path = |number: PathNumber| trace.path(number);
        match *action {
            Action::Look { path: at, found } => self.look(path(at)?, found).await,
            Action::Open { open, path: at, .. } => {
                let number = self.open(path(at)?, action).await?;
                self.open.insert(open, number);
                Ok(())
            }
            Action::Read { open } => self.read(open).await,
            Action::Write {
                open,
                offset,
                length,
            } => self.write(open, offset, length),
            Action::Flush { open } | Action::Sync { open } => {
                let number = self.opened(open)?;
                self.flush(number).await
            }
            Action::Close { open } => self.close(open).await,
            Action::Execute { path: at } => self.execute(path(at)?).await,
            Action::MakeDirectory { path: at } => self.make(path(at)?, CreateType4::Dir).await,
            Action::Symlink { path: at } => {
                let target = Bytes::from_static(b"target");
                self.make(path(at)?, CreateType4::Lnk(target)).await
            }
            Action::Remove { path: at } => self.remove(path(at)?).await,
            Action::Rename { from, to } => self.rename(path(from)?, path(to)?).await,
            Action::Link { from, to } => self.link(path(from)?, path(to)?).await,
            Action::SetMode { path: at, mode } => {
                let wanted = Attributes4 {
                    mode: Some(mode),
                    ..Attributes4::default()
                };
                self.set(path(at)?, &wanted).await
            }
            Action::SetTimes { path: at } => {
                let wanted = Attributes4 {
                    time_modify_set: Some(Settime4::ServerTime),
                    ..Attributes4::default()
                };
                self.set(path(at)?, &wanted).await
            }
            Action::SetSize { path: at, size } => self.set_size(path(at)?, size).await,
            Action::List { path: at } => self.list(path(at)?).await,
        }
    }

    fn opened(&self, open: OpenNumber) -> Result<Number> {
        let number = self.open.get(&open).copied();
        number.with_context(|| format!("file {open} is not open"))
    }

    /// The directory of a path, after walking to it, and the last name.
    pub(super) async fn parent<'p>(&mut self, path: &'p str) -> Result<(NfsFh4, &'p str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        ensure!(!name.is_empty(), "the tree itself has no name");
        let mut end = 0;
        loop {
            let number = self.known(&path[..end]).await?;
            let number = number.with_context(|| format!("{} is missing", &path[..end]))?;
            if end == parent.len() {
                return Ok((self.objects[number].handle.clone(), name));
            }
            let from = if end == 0 { 0 } else { end + 1 };
            end = path[from..].find('/').map_or(parent.len(), |at| from + at);
        }
    }

    /// An object whose directory was walked to. Asks the server if its attributes are too old.
    pub(super) async fn known(&mut self, path: &str) -> Result<Option<Number>> {
        match self.names.get(path) {
            Some(Name::Missing) => return Ok(None),
            Some(&Name::Known(number)) => {
                if !self.objects[number].is_fresh() {
                    self.revalidate(number).await?;
                }
                return Ok(Some(number));
            }
            None => {}
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(&Name::Known(directory)) = self.names.get(parent) else {
            bail!("{parent} was not walked to");
        };
        let directory = self.objects[directory].handle.clone();
        let found = self.requests.lookup(&directory, name).await?;
        Ok(found.map(|found| self.learn(path, found)).or_else(|| {
            self.names.insert(path.to_owned(), Name::Missing);
            None
        }))
    }

    /// Remembers an object under a path.
    pub(super) fn learn(&mut self, path: &str, found: Found) -> Number {
        if let Some(&Name::Known(number)) = self.names.get(path)
            && self.objects[number].handle == found.handle
        {
            return number;
        }
        self.objects.push(Inode::new(found));
        let number = self.objects.len() - 1;
        self.names.insert(path.to_owned(), Name::Known(number));
        number
    }

    /// GETATTR. Nothing else changes files here, so another change attribute is a fault of the model
    /// or of the server. Changes of directories are not followed.
    pub(super) async fn revalidate(&mut self, number: Number) -> Result<()> {
        let handle = self.objects[number].handle.clone();
        let attributes = self.requests.attributes(&handle).await?;
        self.objects[number].refresh(&attributes);
        Ok(())
    }

    async fn look(&mut self, path: &str, found: bool) -> Result<()> {
        if path.is_empty() {
            return self.known("").await.map(drop);
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !found && !self.walk(parent).await? {
            return Ok(());
        }
        self.parent(path).await?;
        let number = self.known(path).await?;
        ensure!(number.is_some() == found, "it is there: {}", !found);
        match number {
            // The server decides about times and size, so it must get all data first.
            Some(number) => self.flush(number).await,
            None => Ok(()),
        }
    }

    /// Whether all directories of a path exist.
    async fn walk(&mut self, path: &str) -> Result<bool> {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            if self.known(&path[..end]).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn open(&mut self, path: &str, action: &Action) -> Result<Number> {
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
        if path.is_empty() {
            return Ok(0);
        }
        let (directory, name) = self.parent(path).await?;
        let known = self.names.get(path).copied();
        // A directory is opened without requests except for its attributes.
        if let Some(Name::Known(number)) = known
            && self.objects[number].kind == NfsFtype4::Dir
        {
            return self.revalidate(number).await.map(|()| number);
        }
        if let (Some(Name::Known(number)), true) = (known, truncates) {
            self.objects[number].dirty = 0..0;
        }
        let how = how(writes, creates, exclusive, truncates);
        let (found, stateid) = self.requests.open(&directory, name, &how).await?;
        let change = found.attributes.change.unwrap_or(0);
        let size = found.attributes.size.unwrap_or(0) as usize;
        let number = self.learn(path, found);
        let inode = &mut self.objects[number];
        ensure!(
            size <= inode.content.len(),
            "the server has {size} bytes and {} were written",
            inode.content.len()
        );
        if truncates {
            inode.content.clear();
        }
        let has_pages = inode.change == change || truncates || inode.opens > 0;
        inode.asked = Instant::now();
        inode.change = change;
        inode.stateid = Some(stateid);
        inode.opens += 1;
        inode.is_stale |= !has_pages && inode.dirty.is_empty();
        if truncates && !creates {
            self.set(path, &of_size(0)).await?;
        }
        Ok(number)
    }

    /// Reads the file if its cached pages are not valid.
    async fn read(&mut self, open: OpenNumber) -> Result<()> {
        let number = self.opened(open)?;
        let inode = &mut self.objects[number];
        if !std::mem::take(&mut inode.is_stale) {
            return Ok(());
        }
        let (handle, size) = (inode.handle.clone(), inode.content.len());
        let stateid = inode.stateid.context("the file is not open")?;
        let most = self.requests.io_max();
        for offset in (0..size).step_by(most) {
            let read = ops::read(stateid, offset as u64, most as u32);
            let request = vec![ops::putfh(&handle), read, ops::getattr(STAT)];
            self.requests.demand(request).await?;
        }
        Ok(())
    }

    fn write(&mut self, open: OpenNumber, offset: u64, length: u32) -> Result<()> {
        let number = self.opened(open)?;
        let inode = &mut self.objects[number];
        let (start, length) = (offset as usize, length as usize);
        let end = start + length;
        if inode.content.len() < end {
            inode.content.resize(end, 0);
        }
        self.text.fill(&mut inode.content[start..end]);
        inode.dirty = match inode.dirty.is_empty() {
            true => start..end,
            false => inode.dirty.start.min(start)..inode.dirty.end.max(end),
        };
        Ok(())
    }

    /// Sends the missing parts of a file to the server, and waits until they are stable.
    pub(super) async fn flush(&mut self, number: Number) -> Result<()> {
        let inode = &mut self.objects[number];
        let dirty = std::mem::take(&mut inode.dirty);
        if dirty.is_empty() {
            return Ok(());
        }
        let handle = inode.handle.clone();
        let stateid = inode
            .stateid
            .context("a file has pages and was not opened")?;
        let data = Bytes::copy_from_slice(&inode.content[dirty.clone()]);
        let most = self.requests.io_max();
        let stable = match data.len() <= most {
            true => StableHow4::FileSync,
            false => StableHow4::Unstable,
        };
        for part in (0..data.len()).step_by(most) {
            let piece = data.slice(part..data.len().min(part + most));
            let at = (dirty.start + part) as u64;
            let written = self.requests.write(&handle, stateid, at, piece, stable);
            let attributes = written.await?;
            self.objects[number].refresh(&attributes);
        }
        if stable == StableHow4::Unstable {
            let request = vec![ops::putfh(&handle), ops::commit(0, 0)];
            self.requests.demand(request).await?;
        }
        Ok(())
    }

    async fn close(&mut self, open: OpenNumber) -> Result<()> {
        let number = self.opened(open)?;
        self.open.remove(&open);
        self.flush(number).await?;
        let inode = &mut self.objects[number];
        if inode.kind == NfsFtype4::Dir {
            return Ok(());
        }
        inode.opens -= 1;
        if inode.opens > 0 {
            return Ok(());
        }
        let stateid = inode.stateid.take().context("the file is not open")?;
        let (handle, silly) = (inode.handle.clone(), inode.silly.take());
        let attributes = self.requests.close(&handle, stateid).await?;
        self.objects[number].refresh(&attributes);
        if let Some((directory, name)) = silly {
            let request = vec![ops::putfh(&directory), ops::remove(&*name)];
            self.requests.demand(request).await?;
        }
        Ok(())
    }

    async fn execute(&mut self, path: &str) -> Result<()> {
        let reading = Action::Open {
            open: 0,
            path: 0,
            writes: false,
            creates: false,
            exclusive: false,
            truncates: false,
        };
        let number = self.open(path, &reading).await?;
        // No recorded file has this number; the open is over before the next step.
        self.open.insert(OpenNumber::MAX, number);
        self.read(OpenNumber::MAX).await?;
        self.close(OpenNumber::MAX).await
    }
}

/// The way in which Linux opens a file with these flags of open(2).
fn how(writes: bool, creates: bool, exclusive: bool, truncates: bool) -> How {
    let attributes = Attributes4 {
        mode: Some(0o644),
        size: truncates.then_some(0),
        ..Attributes4::default()
    };
    let made = match (creates, exclusive) {
        (true, true) => How::create_exclusive(0o644, Verifier4(*b"replayed")),
        (true, false) => {
            let encoded = attributes.encode(&Attributes4::KNOWN);
            How::write().creating(CreateHow4::Unchecked(encoded))
        }
        (false, _) => How::write(),
    };
    let access = match writes {
        true => share::ACCESS_BOTH,
        false => share::ACCESS_READ,
    };
    How { access, ..made }.by("kernel")
}
