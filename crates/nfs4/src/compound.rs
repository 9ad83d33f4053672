//! COMPOUND (RFC 8881, section 16.2): many operations in one request. Requests
//! are decoded one operation at a time, because the server answers each before
//! it looks at the next; replies are written the same way.

use xdr::{Bytes, Decode, DecodeError, Encode, Mark, Reader, Writer};

use crate::operation::{OpArgs, OpResult};
use crate::{ArgOp4, NfsStat4, OpError, ResOp4, TEXT_MAX};

/// The most results that are decoded from one reply.
const RESULTS_MAX: usize = 4096;

/// The operations of a request, decoded one at a time.
#[derive(Debug, Clone)]
pub struct Operations<A> {
    /// `None` once nothing more can be decoded.
    reader: Option<Reader>,
    left: u32,
    table: std::marker::PhantomData<fn() -> A>,
}

impl<A: OpArgs> Operations<A> {
    pub(crate) fn new(count: u32, reader: Reader) -> Self {
        Self {
            reader: Some(reader),
            left: count,
            table: std::marker::PhantomData,
        }
    }

    /// The bytes that are not decoded yet; empty if nothing more can be decoded.
    #[must_use]
    pub fn undecoded(&self) -> Bytes {
        self.reader
            .as_ref()
            .map_or_else(Bytes::new, |reader| reader.clone().into_rest())
    }
}

/// After an operation that is malformed, unsupported or illegal nothing follows:
/// where the next one begins is unknown, and the request ends there anyway.
impl<A: OpArgs> Iterator for Operations<A> {
    type Item = Result<A, OpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let op = A::decode_op(reader);
        if !op.as_ref().is_ok_and(A::is_decoded) {
            self.reader = None;
        }
        Some(op)
    }
}

/// A received request, `COMPOUND4args`.
#[derive(Debug, Clone)]
pub struct CompoundArgs {
    /// A comment of the client, which the reply repeats.
    pub tag: Bytes,
    /// The minor version that the operations belong to.
    pub minorversion: u32,
    /// The announced number of operations.
    pub count: u32,
    /// The operations.
    pub ops: Operations<ArgOp4>,
}

impl CompoundArgs {
    /// Decodes the head of a request. If that fails the RPC answer is
    /// GARBAGE_ARGS, because no reply can be formed without the tag.
    pub fn parse(mut r: Reader) -> Result<Self, DecodeError> {
        let (tag, minorversion, count) = (r.opaque(TEXT_MAX)?, r.u32()?, r.u32()?);
        Ok(Self {
            tag,
            minorversion,
            count,
            ops: Operations::new(count, r),
        })
    }

    /// Decodes the next operation. `None` at the end of the request.
    pub fn next_op(&mut self) -> Option<Result<ArgOp4, OpError>> {
        self.ops.next()
    }
}

/// A request to be sent, `COMPOUND4args`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompoundCall {
    /// A comment, which the reply repeats.
    pub tag: Bytes,
    /// The minor version that the operations belong to.
    pub minorversion: u32,
    /// The operations.
    pub ops: Vec<ArgOp4>,
}

impl Encode for CompoundCall {
    fn encode(&self, w: &mut Writer) {
        w.write(&self.tag);
        w.u32(self.minorversion);
        w.write(&self.ops);
    }
}

/// A received reply, `COMPOUND4res`, or a whole one to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompoundRes<R = ResOp4> {
    /// The status of the last operation.
    pub status: NfsStat4,
    /// The comment of the request.
    pub tag: Bytes,
    /// The results, up to the first failure.
    pub results: Vec<R>,
}

impl<R: OpResult> Encode for CompoundRes<R> {
    fn encode(&self, w: &mut Writer) {
        w.write(&self.status);
        w.write(&self.tag);
        w.write(&self.results);
    }
}

impl<R: OpResult> Decode for CompoundRes<R> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            status: r.read()?,
            tag: r.opaque(TEXT_MAX)?,
            results: r.array_of(RESULTS_MAX)?,
        })
    }
}

/// A reply that is being written, one result after another.
///
/// The status and the number of results precede the results on the wire and are
/// filled in by [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "the reply is not complete until it is finished"]
pub struct CompoundReply {
    status_at: Mark,
    count_at: Mark,
    status: NfsStat4,
    count: u32,
}

/// The result does not fit into the reply; it was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoesNotFit {
    /// The number of bytes of the result.
    pub size: usize,
}

impl CompoundReply {
    /// Begins a reply to a request with this tag.
    pub fn begin(w: &mut Writer, tag: &Bytes) -> Self {
        let status_at = w.mark();
        w.write(&NfsStat4::Ok);
        w.write(tag);
        let count_at = w.mark();
        w.u32(0);
        Self {
            status_at,
            count_at,
            status: NfsStat4::Ok,
            count: 0,
        }
    }

    /// Appends a result.
    pub fn push<R: OpResult>(&mut self, w: &mut Writer, result: &R) {
        w.write(result);
        self.count += 1;
        self.status = result.status();
    }

    /// Appends a result unless `w` would then exceed `limit`, a value of
    /// [`Writer::position`]. If it would, nothing is changed.
    pub fn push_within<R: OpResult>(
        &mut self,
        w: &mut Writer,
        limit: usize,
        result: &R,
    ) -> Result<(), DoesNotFit> {
        let before = w.mark();
        w.write(result);
        if w.position() > limit {
            let size = w.written_since(before);
            w.truncate_to(before);
            return Err(DoesNotFit { size });
        }
        self.count += 1;
        self.status = result.status();
        Ok(())
    }

    /// The number of results.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Completes the reply; its status is that of the last result.
    pub fn finish(self, w: &mut Writer) -> NfsStat4 {
        let status = self.status;
        self.finish_with(w, status)
    }

    /// Completes the reply with another status, for requests that are
    /// refused before their first operation.
    pub fn finish_with(self, w: &mut Writer, status: NfsStat4) -> NfsStat4 {
        w.patch_u32(self.status_at, status.into());
        w.patch_u32(self.count_at, self.count);
        status
    }
}
