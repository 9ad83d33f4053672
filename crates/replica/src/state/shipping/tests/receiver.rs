//! The receiver of the model: applies rows in their order and pieces by the rules, and may crash.

use crate::state::shipping::PieceId;
use std::collections::BTreeMap;
use vfs::ObjectId;

/// An update record: the size of a file after it, or none when it was removed.
pub type Row = (ObjectId, Option<u64>);

/// A piece with its contents.
#[derive(Clone, Debug)]
pub struct SentPiece {
    pub id: PieceId,
    pub file: ObjectId,
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Only sums of the bytes came.
    pub sums: bool,
}

/// A replica that applies what it is sent. A crash takes back rows, not bytes.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Whether it drops what lies beyond the end of a file, and what belongs to no file that it knows.
    pub clips: bool,
    sizes: BTreeMap<ObjectId, u64>,
    bytes: BTreeMap<ObjectId, Vec<u8>>,
    pub applied: usize,
    stable: (BTreeMap<ObjectId, u64>, usize),
    unstable_pieces: Vec<PieceId>,
    /// Pieces whose bytes it lacks.
    refused: Vec<PieceId>,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            clips: true,
            sizes: BTreeMap::new(),
            bytes: BTreeMap::new(),
            applied: 0,
            stable: Default::default(),
            unstable_pieces: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl Receiver {
    pub fn apply_row(&mut self, &(file, size): &Row) {
        self.applied += 1;
        if let Some(size) = size {
            self.sizes.insert(file, size);
            self.bytes.entry(file).or_default().truncate(size as usize);
        } else {
            self.sizes.remove(&file);
            self.bytes.remove(&file);
        }
    }

    pub fn apply_piece(&mut self, sent_piece: &SentPiece) {
        if sent_piece.sums && !self.has(sent_piece) {
            return self.refused.push(sent_piece.id);
        }
        self.unstable_pieces.push(sent_piece.id);
        if !self.clips {
            let end = sent_piece.offset + sent_piece.bytes.len() as u64;
            let size = self.sizes.entry(sent_piece.file).or_default();
            *size = end.max(*size);
        }
        let Some(&size) = self.sizes.get(&sent_piece.file) else {
            return;
        };
        let bytes = self.bytes.entry(sent_piece.file).or_default();
        for (offset, byte) in (sent_piece.offset..size).zip(&sent_piece.bytes) {
            let offset = offset as usize;
            bytes.resize(bytes.len().max(offset + 1), 0);
            bytes[offset] = *byte;
        }
    }

    fn has(&self, sent_piece: &SentPiece) -> bool {
        let Some(content) = self.content(sent_piece.file) else {
            // No longer needed.
            return true;
        };
        let start = sent_piece.offset as usize;
        content.get(start..start + sent_piece.bytes.len()) == Some(&sent_piece.bytes[..])
    }

    /// Takes the pieces whose bytes it lacks.
    pub fn take_refused(&mut self) -> Vec<PieceId> {
        std::mem::take(&mut self.refused)
    }

    pub fn content(&self, file: ObjectId) -> Option<Vec<u8>> {
        let size = *self.sizes.get(&file)?;
        let mut bytes = self.bytes.get(&file).cloned().unwrap_or_default();
        bytes.resize(size as usize, 0);
        Some(bytes)
    }

    /// How many files it has.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the pieces that are stable now, with the rows they follow.
    pub fn make_stable(&mut self) -> Vec<PieceId> {
        self.stable = (self.sizes.clone(), self.applied);
        std::mem::take(&mut self.unstable_pieces)
    }

    /// The session ended: what was applied in it will not be acknowledged.
    pub fn forget_pieces(&mut self) {
        self.unstable_pieces.clear();
        self.refused.clear();
    }

    pub fn crash(&mut self) {
        (self.sizes, self.applied) = self.stable.clone();
        self.forget_pieces();
    }
}
