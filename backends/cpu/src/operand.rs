//! Operands of a block, without their element type and with it.
//!
//! What enters: slices of words or bytes, single values, destinations. What leaves: the same as values of a Rust type
//! that computes ([`Lane`]). Decided: truth values are bytes 0 and 1 everywhere, all other types are 32-bit words, so that
//! a buffer needs no copy to be an operand; an operand of another width than asked for is empty, since checked programs
//! never mix them.

use std::ops::Range;

use bytemuck::Pod;

/// An operand of a block: 32-bit values, truth values of one byte, or one value's bits for all places.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Words(&'a [u32]),
    Bytes(&'a [u8]),
    Splat(u32),
}

/// Where a block's results go.
#[derive(Debug)]
pub(crate) enum Dst<'a> {
    Words(&'a mut [u32]),
    Bytes(&'a mut [u8]),
}

impl Arg<'_> {
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        match self {
            Arg::Words(words) => Arg::Words(&words[range]),
            Arg::Bytes(bytes) => Arg::Bytes(&bytes[range]),
            Arg::Splat(bits) => Arg::Splat(bits),
        }
    }
}

impl Default for Dst<'_> {
    fn default() -> Self {
        Dst::Words(&mut [])
    }
}

impl<'a> Dst<'a> {
    pub(crate) fn reborrow(&mut self) -> Dst<'_> {
        match self {
            Dst::Words(words) => Dst::Words(words),
            Dst::Bytes(bytes) => Dst::Bytes(bytes),
        }
    }

    pub(crate) fn range(&mut self, range: Range<usize>) -> Dst<'_> {
        match self {
            Dst::Words(words) => Dst::Words(&mut words[range]),
            Dst::Bytes(bytes) => Dst::Bytes(&mut bytes[range]),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Dst::Words(words) => words.len(),
            Dst::Bytes(bytes) => bytes.len(),
        }
    }

    /// What has been written, as an operand.
    pub(crate) fn arg(&self) -> Arg<'_> {
        match self {
            Dst::Words(words) => Arg::Words(words),
            Dst::Bytes(bytes) => Arg::Bytes(bytes),
        }
    }

    /// The first `n` places, and the rest.
    pub(crate) fn split_at(self, n: usize) -> (Self, Self) {
        match self {
            Dst::Words(words) => {
                let (a, b) = words.split_at_mut(n);
                (Dst::Words(a), Dst::Words(b))
            }
            Dst::Bytes(bytes) => {
                let (a, b) = bytes.split_at_mut(n);
                (Dst::Bytes(a), Dst::Bytes(b))
            }
        }
    }
}

/// An operand as values of its type.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a, T> {
    Slice(&'a [T]),
    Splat(T),
}

/// A Rust type that computes for an element type; truth values are bytes 0 and 1.
pub(crate) trait Lane: Pod + Send + Sync {
    fn from_bits(bits: u32) -> Self;
    fn bits(self) -> u32;
    /// The values of an operand; none if it holds values of another width.
    fn values(arg: Arg<'_>) -> Values<'_, Self>;
    /// The places of the results; none if they have another width.
    fn places<'a>(dst: &'a mut Dst<'_>) -> &'a mut [Self];
}

macro_rules! lane {
    ($ty:ty, $kind:ident, $from:expr, $to:expr) => {
        impl Lane for $ty {
            fn from_bits(bits: u32) -> Self {
                $from(bits)
            }
            fn bits(self) -> u32 {
                $to(self)
            }
            fn values(arg: Arg<'_>) -> Values<'_, Self> {
                match arg {
                    Arg::$kind(slice) => Values::Slice(bytemuck::cast_slice(slice)),
                    Arg::Splat(bits) => Values::Splat(Self::from_bits(bits)),
                    _ => Values::Slice(&[]),
                }
            }
            fn places<'a>(dst: &'a mut Dst<'_>) -> &'a mut [Self] {
                match dst {
                    Dst::$kind(slice) => bytemuck::cast_slice_mut(slice),
                    _ => &mut [],
                }
            }
        }
    };
}
lane!(f32, Words, f32::from_bits, f32::to_bits);
lane!(i32, Words, u32::cast_signed, i32::cast_unsigned);
lane!(u32, Words, std::convert::identity, std::convert::identity);
lane!(u8, Bytes, |bits: u32| u8::from(bits != 0), u32::from);
