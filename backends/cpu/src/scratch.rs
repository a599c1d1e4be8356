//! Scratch memory of one thread: buffers of one block each, reused without an allocation.
//!
//! What enters: a wish for a [`Buf`]. What leaves: one from the thread's own list, or a new one; dropping it gives it
//! back. Decided: the contents are left as they were (every user writes before it reads), buffers start at a cache line,
//! and their distance is no power of two, so that several of them share a small cache well.

use std::cell::RefCell;

use kiln_array::dtype::Dtype;

use crate::operand::{Arg, Dst};

/// Elements of a block: a few values of this size fit the second-level cache.
pub(crate) const BLOCK: usize = 4096;

/// Bytes of a cache line, and words.
pub(crate) const LINE: usize = 64;
const LINE_WORDS: usize = LINE / 4;

const WORDS: usize = BLOCK + LINE_WORDS + 33 * LINE_WORDS;
const KEPT: usize = 128;

thread_local! {
    static FREE: RefCell<Vec<Vec<u32>>> = const { RefCell::new(Vec::new()) };
}

/// Room for a block of elements of any type. The default has no room.
#[derive(Debug, Default)]
pub(crate) struct Buf {
    words: Vec<u32>,
}

impl Buf {
    /// No room.
    pub(crate) const fn none() -> Self {
        Self { words: Vec::new() }
    }

    pub(crate) fn new() -> Self {
        let words = FREE.try_with(|free| free.try_borrow_mut().ok().and_then(|mut free| free.pop())).ok().flatten();
        Self { words: words.unwrap_or_else(|| vec![0; WORDS]) }
    }

    pub(crate) fn several(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new()).collect()
    }

    pub(crate) fn words(&self, n: usize) -> &[u32] {
        let skip = line_start(&self.words);
        &self.words[skip..skip + n]
    }

    pub(crate) fn words_mut(&mut self, n: usize) -> &mut [u32] {
        let skip = line_start(&self.words);
        &mut self.words[skip..skip + n]
    }

    /// The first `n` elements as an operand.
    pub(crate) fn arg(&self, dtype: Dtype, n: usize) -> Arg<'_> {
        if dtype == Dtype::Bool {
            Arg::Bytes(&bytemuck::cast_slice(self.words(n.div_ceil(4)))[..n])
        } else {
            Arg::Words(self.words(n))
        }
    }

    /// The first `n` elements as a destination.
    pub(crate) fn dst(&mut self, dtype: Dtype, n: usize) -> Dst<'_> {
        if dtype == Dtype::Bool {
            Dst::Bytes(&mut bytemuck::cast_slice_mut(self.words_mut(n.div_ceil(4)))[..n])
        } else {
            Dst::Words(self.words_mut(n))
        }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        // At the end of a thread its list may be gone: then the memory just goes back.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < KEPT
            {
                free.push(words);
            }
        });
    }
}

/// How many words to skip to reach a cache line's start.
pub(crate) fn line_start(words: &[u32]) -> usize {
    words.as_ptr().align_offset(LINE).min(LINE_WORDS)
}
