//! Regular files: opening, reading, writing, and their holes.

use bytes::{Bytes, BytesMut};
use nfs4::{
    AllocateArgs, ArgOp4, Attributes4, Component4, CreateHow4, CreateVerfAttr, DataContent4,
    DeallocateArgs, NfsFh4, OpenArgs, OpenClaim4, OpenFlag4, ReadResOk, SeekArgs, SeekResOk,
    StableHow4, StateOwner4, Stateid4, Verifier4, WriteResOk, share,
};

use crate::client::{Client, take};
use crate::error::Error;
use crate::ops;

/// An open file, for READ and WRITE. Nothing happens when it is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// The file.
    pub handle: NfsFh4,
    /// The open, or a special stateid.
    pub stateid: Stateid4,
}

/// How a file is opened. Delegations are never requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct How {
    /// The open owner, as this client names it.
    pub owner: Bytes,
    /// Access wanted: bits of [`nfs4::share`].
    pub access: u32,
    /// Access denied to others: bits of [`nfs4::share`].
    pub deny: u32,
    /// Whether and how the file is created.
    pub create: OpenFlag4,
}

impl How {
    /// For reading; the file must exist.
    pub fn read() -> Self {
        Self {
            owner: Bytes::from_static(b"owner"),
            access: share::ACCESS_READ,
            deny: share::DENY_NONE,
            create: OpenFlag4::NoCreate,
        }
    }

    /// For reading and writing; the file must exist.
    pub fn write() -> Self {
        Self {
            access: share::ACCESS_BOTH,
            ..Self::read()
        }
    }

    /// For reading and writing, after creating the file with these permission bits unless it
    /// exists (UNCHECKED4).
    pub fn create(mode: u32) -> Self {
        let attributes = with_mode(mode).encode(&Attributes4::KNOWN);
        Self::write().creating(CreateHow4::Unchecked(attributes))
    }

    /// Like [`How::create`], and fails if the file exists (GUARDED4).
    pub fn create_new(mode: u32) -> Self {
        let attributes = with_mode(mode).encode(&Attributes4::KNOWN);
        Self::write().creating(CreateHow4::Guarded(attributes))
    }

    /// Like [`How::create_new`], and succeeds when repeated with the same verifier
    /// (EXCLUSIVE4_1), as the Linux client does for `O_EXCL`.
    pub fn create_exclusive(mode: u32, verifier: Verifier4) -> Self {
        let attrs = with_mode(mode).encode(&Attributes4::KNOWN);
        let verf = verifier;
        Self::write().creating(CreateHow4::Exclusive41(CreateVerfAttr { verf, attrs }))
    }

    /// The same, creating the file in this way.
    pub fn creating(self, how: CreateHow4) -> Self {
        Self {
            create: OpenFlag4::Create(how),
            ..self
        }
    }

    /// The same for another owner.
    pub fn by(self, owner: impl Into<Bytes>) -> Self {
        Self {
            owner: owner.into(),
            ..self
        }
    }

    /// The same, denying others this access: bits of [`nfs4::share`].
    pub fn denying(self, deny: u32) -> Self {
        Self { deny, ..self }
    }

    /// The OPEN operation for this, with a claim that identifies the file.
    pub fn operation(&self, claim: OpenClaim4) -> ArgOp4 {
        ArgOp4::Open(OpenArgs {
            seqid: 0,
            share_access: self.access | share::WANT_NO_DELEG,
            share_deny: self.deny,
            owner: StateOwner4 {
                clientid: 0,
                owner: self.owner.clone(),
            },
            openhow: self.create.clone(),
            claim,
        })
    }
}

fn with_mode(mode: u32) -> Attributes4 {
    Attributes4 {
        mode: Some(mode),
        ..Attributes4::default()
    }
}

impl Client {
    /// Opens an entry of a directory.
    pub async fn open(
        &self,
        directory: &NfsFh4,
        name: impl Into<Component4>,
        how: &How,
    ) -> Result<OpenFile, Error> {
        let claim = OpenClaim4::Null(name.into());
        self.open_by(directory, claim, how).await
    }

    /// Opens a file by its handle.
    pub async fn open_handle(&self, file: &NfsFh4, how: &How) -> Result<OpenFile, Error> {
        self.open_by(file, OpenClaim4::Fh, how).await
    }

    /// Opens a file by any claim, such as [`OpenClaim4::Previous`] to reclaim an open.
    pub async fn open_by(
        &self,
        current: &NfsFh4,
        claim: OpenClaim4,
        how: &How,
    ) -> Result<OpenFile, Error> {
        let request = vec![ops::putfh(current), how.operation(claim), ops::getfh()];
        let mut results = self.call(request).await?;
        let stateid = take!(results, Open).stateid;
        let handle = take!(results, Getfh).object;
        Ok(OpenFile { handle, stateid })
    }

    /// Ends an open.
    pub async fn close(&self, file: &OpenFile) -> Result<(), Error> {
        let request = vec![ops::putfh(&file.handle), ops::close(file.stateid)];
        let mut results = self.call(request).await?;
        take!(results, Close);
        Ok(())
    }

    /// Reads at most `count` bytes; fewer at the end of the file or if the server decides so.
    pub async fn read(&self, file: &OpenFile, offset: u64, count: u32) -> Result<ReadResOk, Error> {
        let read = ops::read(file.stateid, offset, count);
        let mut results = self.call(vec![ops::putfh(&file.handle), read]).await?;
        Ok(take!(results, Read))
    }

    /// The whole content of a file, one request after the other.
    pub async fn read_to_end(&self, file: &OpenFile) -> Result<Bytes, Error> {
        let mut content = BytesMut::new();
        loop {
            let offset = content.len() as u64;
            let part = self.read(file, offset, self.io_max()).await?;
            if part.data.is_empty() && !part.eof {
                return Err(Error::Unexpected("READ"));
            }
            content.extend_from_slice(&part.data);
            if part.eof {
                return Ok(content.freeze());
            }
        }
    }

    /// Writes once. The server may write only a part.
    pub async fn write(
        &self,
        file: &OpenFile,
        offset: u64,
        data: Bytes,
        stable: StableHow4,
    ) -> Result<WriteResOk, Error> {
        let write = ops::write(file.stateid, offset, stable, data);
        let mut results = self.call(vec![ops::putfh(&file.handle), write]).await?;
        Ok(take!(results, Write))
    }

    /// Writes all of `data`, one request after the other, and commits it. A server that restarts
    /// meanwhile, so that its write verifier changes, makes this start again.
    pub async fn write_all(&self, file: &OpenFile, offset: u64, data: &Bytes) -> Result<(), Error> {
        loop {
            let verifier = self.write_unstable(file, offset, data).await?;
            let committed = self.commit(&file.handle, 0, 0).await?;
            if verifier.is_none_or(|verifier| verifier == committed) {
                return Ok(());
            }
        }
    }

    /// Writes all of `data`. Returns the verifier of the last part if all parts have the same.
    async fn write_unstable(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &Bytes,
    ) -> Result<Option<Verifier4>, Error> {
        let mut verifier = None;
        let mut done = 0;
        while done < data.len() {
            let end = data.len().min(done + self.io_max() as usize);
            let part = data.slice(done..end);
            let at = offset + done as u64;
            let taken = self.write(file, at, part, StableHow4::Unstable).await?;
            let count = taken.count as usize;
            if count == 0 || count > end - done {
                return Err(Error::Unexpected("WRITE"));
            }
            if verifier.is_some_and(|known| known != taken.writeverf) {
                done = 0;
                verifier = None;
                continue;
            }
            verifier = Some(taken.writeverf);
            done += count;
        }
        Ok(verifier)
    }

    /// Makes written data durable; a count of zero means "to the end". Data is safe if the
    /// verifier equals that of the writes.
    pub async fn commit(&self, file: &NfsFh4, offset: u64, count: u32) -> Result<Verifier4, Error> {
        let request = vec![ops::putfh(file), ops::commit(offset, count)];
        let mut results = self.call(request).await?;
        Ok(take!(results, Commit).writeverf)
    }

    /// The beginning of the next data or hole at or after `offset` (RFC 7862, section 15.11).
    pub async fn seek(
        &self,
        file: &OpenFile,
        offset: u64,
        what: DataContent4,
    ) -> Result<SeekResOk, Error> {
        let seek = ArgOp4::Seek(SeekArgs {
            stateid: file.stateid,
            offset,
            what,
        });
        let mut results = self.call(vec![ops::putfh(&file.handle), seek]).await?;
        Ok(take!(results, Seek))
    }

    /// Reserves space for a range (RFC 7862, section 15.1).
    pub async fn allocate(&self, file: &OpenFile, offset: u64, length: u64) -> Result<(), Error> {
        let allocate = ArgOp4::Allocate(AllocateArgs {
            stateid: file.stateid,
            offset,
            length,
        });
        self.call(vec![ops::putfh(&file.handle), allocate]).await?;
        Ok(())
    }

    /// Makes a range a hole (RFC 7862, section 15.4).
    pub async fn deallocate(&self, file: &OpenFile, offset: u64, length: u64) -> Result<(), Error> {
        let deallocate = ArgOp4::Deallocate(DeallocateArgs {
            stateid: file.stateid,
            offset,
            length,
        });
        self.call(vec![ops::putfh(&file.handle), deallocate])
            .await?;
        Ok(())
    }
}
