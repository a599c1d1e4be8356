//! A quick hash for keys that are our own: buffer numbers and kernel specifications.
//!
//! The standard hash guards against keys that an attacker chose, and costs a fifth of recording a dispatch.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes with [`Mix`].
pub(crate) type FastHash = BuildHasherDefault<Mix>;

/// Multiply, rotate, repeat: the hash that compilers use for their own tables.
#[derive(Default, Clone, Copy)]
pub(crate) struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.add(byte.into());
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.add(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.add(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }

    fn finish(&self) -> u64 {
        // Tables take the low bits, which multiplication mixes least.
        self.0.rotate_left(26)
    }
}
