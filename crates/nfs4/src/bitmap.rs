//! Sets of small numbers, mainly of attributes: `bitmap4`. The meaning of a
//! number is not known here.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use xdr::{Decode, DecodeError, Encode, Reader, Writer};

use crate::Attr;

/// A set of numbers below [`Bitmap4::BITS`], kept in place so that masks cost no
/// allocation.
///
/// Trailing zero words are dropped on the way in and out, so two bitmaps are
/// equal exactly when they hold the same numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap4 {
    words: [u32; Self::WORDS],
}

impl Bitmap4 {
    /// The words of the set. Today's attributes need three.
    pub const WORDS: usize = 8;
    /// The most words that are decoded.
    const DECODED_WORDS_MAX: usize = 1024;
    /// One more than the largest number that can be held.
    pub const BITS: u32 = 32 * Self::WORDS as u32;
    /// The set that holds nothing.
    pub const EMPTY: Self = Self {
        words: [0; Self::WORDS],
    };

    /// The set of these attributes.
    pub const fn of(attrs: &[Attr]) -> Self {
        let mut set = Self::EMPTY;
        let mut index = 0;
        while index < attrs.len() {
            let bit = attrs[index] as u32;
            set.words[(bit / 32) as usize] |= 1 << (bit % 32);
            index += 1;
        }
        set
    }

    /// The words that are needed to write the set, lowest numbers first.
    pub fn words(&self) -> &[u32] {
        let used = self
            .words
            .iter()
            .rposition(|&word| word != 0)
            .map_or(0, |last| last + 1);
        &self.words[..used]
    }

    /// True when the set holds nothing.
    pub fn is_empty(&self) -> bool {
        self.words().is_empty()
    }

    /// How many numbers the set holds.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// True when the set holds `bit`.
    #[inline]
    pub fn contains(&self, bit: impl Into<u32>) -> bool {
        let bit = bit.into();
        bit < Self::BITS && self.words[(bit / 32) as usize] & (1 << (bit % 32)) != 0
    }

    /// True when the set holds any number of `other`.
    pub fn intersects(&self, other: &Self) -> bool {
        !(*self & *other).is_empty()
    }

    /// True when `other` holds every number of the set.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        (*self - *other).is_empty()
    }

    /// Adds `bit`. Numbers of [`Bitmap4::BITS`] and above cannot be held and are
    /// left out.
    #[inline]
    pub fn insert(&mut self, bit: impl Into<u32>) {
        let bit = bit.into();
        if bit < Self::BITS {
            self.words[(bit / 32) as usize] |= 1 << (bit % 32);
        }
    }

    /// Takes `bit` out.
    #[inline]
    pub fn remove(&mut self, bit: impl Into<u32>) {
        let bit = bit.into();
        if bit < Self::BITS {
            self.words[(bit / 32) as usize] &= !(1 << (bit % 32));
        }
    }

    /// The numbers in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words()
            .iter()
            .zip((0..).step_by(32))
            .flat_map(|(&word, base)| {
                (0..32)
                    .filter(move |bit| word & (1 << bit) != 0)
                    .map(move |bit| base + bit)
            })
    }

    fn zip(self, other: Self, combine: impl Fn(u32, u32) -> u32) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(other.words) {
            *word = combine(*word, other);
        }
        Self { words }
    }
}

/// The intersection of both sets.
impl BitAnd for Bitmap4 {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
}

/// The union of both sets.
impl BitOr for Bitmap4 {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
}

/// The members of the first set that the second does not have.
impl Sub for Bitmap4 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }
}

impl FromIterator<u32> for Bitmap4 {
    fn from_iter<I: IntoIterator<Item = u32>>(bits: I) -> Self {
        let mut set = Self::EMPTY;
        bits.into_iter().for_each(|bit| set.insert(bit));
        set
    }
}

impl fmt::Debug for Bitmap4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Bitmap4 {
    fn encode(&self, w: &mut Writer) {
        self.words().encode(w);
    }
}

/// A peer may ask about numbers without a defined meaning (RFC 8881, section 5.3). Numbers that are
/// too large become the largest possible number, which has no meaning either, so that they are not
/// overlooked.
impl Decode for Bitmap4 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let count = r.length(Self::DECODED_WORDS_MAX)?;
        let mut set = Self::EMPTY;
        for index in 0..count {
            let word = r.u32()?;
            match set.words.get_mut(index) {
                Some(held) => *held = word,
                None if word != 0 => set.insert(Self::BITS - 1),
                None => {}
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdr::Bytes;

    fn decode(words: &[u32]) -> Result<Bitmap4, DecodeError> {
        let mut w = Writer::new();
        words.encode(&mut w);
        Reader::new(w.finish().into_contiguous()).read()
    }

    #[test]
    fn numbers_go_to_the_words_of_rfc_8881() {
        let set = Bitmap4::of(&[Attr::Type, Attr::Size, Attr::Mode, Attr::XattrSupport]);
        assert_eq!(set.words(), [1 << 1 | 1 << 4, 1 << 1, 1 << 18]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 4, 33, 82]);
        assert_eq!(set.len(), 4);
    }

    #[test]
    fn trailing_zero_words_do_not_matter() {
        assert_eq!(decode(&[5, 0, 0]), decode(&[5]));
        let mut set = Bitmap4::of(&[Attr::Mode]);
        set.remove(Attr::Mode);
        assert!(set.is_empty());
        assert_eq!(set.words(), &[] as &[u32]);
    }

    #[test]
    fn numbers_beyond_the_last_word_are_not_overlooked() {
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), decode(&[1]));
        let mut words = [0; 32];
        words[0] = 1;
        words[31] = 1 << 8;
        let expected = [0, Bitmap4::BITS - 1].into_iter().collect();
        assert_eq!(decode(&words), Ok(expected));
        let longest = [1; Bitmap4::DECODED_WORDS_MAX + 1];
        assert!(decode(&longest[1..]).is_ok());
        assert!(matches!(decode(&longest), Err(DecodeError::TooLong { .. })));
    }

    #[test]
    fn numbers_out_of_range_are_not_held() {
        let mut set = Bitmap4::EMPTY;
        set.insert(Bitmap4::BITS);
        assert!(set.is_empty());
        assert!(!set.contains(Bitmap4::BITS));
        set.insert(Bitmap4::BITS - 1);
        assert!(set.contains(Bitmap4::BITS - 1));
    }

    #[test]
    fn sets_combine() {
        let a: Bitmap4 = [1, 40].into_iter().collect();
        let b: Bitmap4 = [40, 70].into_iter().collect();
        assert_eq!(a & b, [40].into_iter().collect());
        assert_eq!(a | b, [1, 40, 70].into_iter().collect());
        assert_eq!(a - b, [1].into_iter().collect());
        assert!(a.intersects(&b));
        assert!((a & b).is_subset_of(&a));
        assert!(!a.is_subset_of(&b));
    }

    #[test]
    fn an_empty_set_is_a_single_zero_word_of_length() {
        let mut w = Writer::new();
        Bitmap4::EMPTY.encode(&mut w);
        assert_eq!(w.finish().into_contiguous(), Bytes::from_static(&[0; 4]));
    }
}
