//! One kernel's file: its lowered text and the driver's own form of it, under a checksum.
//!
//! ```text
//! magic 8 | environment 16 | key 16 | text length 4 | blob length 4 | text | blob | checksum 16
//! ```
//! Numbers are little-endian. The checksum covers everything before it, and nothing is believed before it was verified: a
//! driver may crash on a blob with one wrong bit. Environment and key are in the file, so that one that was renamed or
//! copied from another folder is told by its contents.

use xxhash_rust::xxh3::xxh3_128;

/// A file of another form, or of no form at all, starts otherwise.
const MAGIC: [u8; 8] = *b"KILNPC\x01\n";
const HEAD: usize = 48;
const SUM: usize = 16;

/// Bytes of the largest part that is believed.
const MOST: usize = 64 << 20;

/// What is kept of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entry {
    /// The kernel in the driver's language; empty where wgpu translates it.
    pub(crate) text: Vec<u8>,
    /// What the driver made of it; empty where drivers give nothing.
    pub(crate) blob: Vec<u8>,
}

/// 128-bit hash of some bytes, for keys and checksums.
pub(crate) fn hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

impl Entry {
    /// The file's bytes; `None` for a part that is too large to be kept.
    pub(crate) fn encode(&self, environment: u128, key: u128) -> Option<Vec<u8>> {
        let (text, blob) = (self.text.len(), self.blob.len());
        if text > MOST || blob > MOST {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEAD + text + blob + SUM);
        bytes.extend(MAGIC);
        bytes.extend(environment.to_le_bytes());
        bytes.extend(key.to_le_bytes());
        bytes.extend(u32::try_from(text).ok()?.to_le_bytes());
        bytes.extend(u32::try_from(blob).ok()?.to_le_bytes());
        bytes.extend(&self.text);
        bytes.extend(&self.blob);
        let sum = hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        Some(bytes)
    }

    /// Reads a file; why it is not one of this environment and key.
    pub(crate) fn decode(bytes: &[u8], environment: u128, key: u128) -> Result<Self, &'static str> {
        let Some((body, sum)) = bytes.len().checked_sub(SUM).and_then(|at| bytes.split_at_checked(at)) else {
            return Err("it is too short");
        };
        if body.len() < HEAD {
            return Err("it is too short");
        }
        if body[..8] != MAGIC {
            return Err("it is no cache file of this version");
        }
        if hash(body).to_le_bytes() != sum {
            return Err("its checksum is wrong");
        }
        if body[8..24] != environment.to_le_bytes() || body[24..40] != key.to_le_bytes() {
            return Err("it belongs to another device or kernel");
        }
        let length = |at: usize| {
            let four = body[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
            usize::try_from(four).unwrap_or(usize::MAX)
        };
        let (text, blob) = (length(40), length(44));
        if text.checked_add(blob) != Some(body.len() - HEAD) {
            return Err("its lengths are wrong");
        }
        let (text, blob) = body[HEAD..].split_at(text);
        Ok(Self { text: text.to_vec(), blob: blob.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { text: (0..100).collect(), blob: (0..77u8).collect() }
    }

    #[test]
    fn entries_come_back() {
        for entry in [entry(), Entry::default(), Entry { blob: Vec::new(), ..entry() }] {
            let bytes = entry.encode(7, 9).unwrap();
            assert_eq!(Entry::decode(&bytes, 7, 9), Ok(entry));
            assert!(Entry::decode(&bytes, 8, 9).is_err() && Entry::decode(&bytes, 7, 8).is_err());
        }
    }

    #[test]
    fn every_change_of_a_bit_and_every_other_length_is_noticed() {
        let bytes = entry().encode(7, 9).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&bytes, 7, 9).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..length], 7, 9).is_err(), "{length} bytes");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(Entry::decode(&long, 7, 9).is_err());
        assert!(Entry::decode(&vec![0; bytes.len()], 7, 9).is_err());
    }
}
