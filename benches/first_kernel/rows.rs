//! What a child computes: the values, the operation, and what must come out.

use kiln::prelude::*;

/// Elements of an array.
pub(crate) const N: usize = 1_000_000;
/// Elements of a row.
pub(crate) const WIDTH: usize = 1000;
/// What `fill` writes.
const FILLED: f32 = 1.5;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Row {
    /// `full`.
    Fill,
    /// `a + b`.
    Vadd,
    /// `(a − b) * c + d`, where `b` is one row.
    Fused,
    /// The sum of everything.
    Sum,
    /// Running sums along a line.
    Cumsum,
    /// More than thirty kernels on small arrays.
    Program,
}

impl Row {
    pub(crate) const ALL: [Self; 6] = [Self::Fill, Self::Vadd, Self::Fused, Self::Sum, Self::Cumsum, Self::Program];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Vadd => "vadd",
            Self::Fused => "fused",
            Self::Sum => "sum",
            Self::Cumsum => "cumsum",
            Self::Program => "program",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|row| row.name() == name)
    }

    /// Whether there is a program by hand that does the same.
    pub(crate) const fn has_bare(self) -> bool {
        matches!(self, Self::Vadd | Self::Sum)
    }

    /// The values that it reads, array by array. All are small whole numbers, so that `f32` holds every result.
    pub(crate) fn values(self) -> Vec<Vec<f32>> {
        let full = |period, first| values(N, period, first);
        match self {
            Self::Fill | Self::Program => Vec::new(),
            Self::Vadd => vec![full(3, 1), full(5, 1)],
            Self::Fused => vec![full(3, 1), values(WIDTH, 7, 4), full(5, 1), full(11, 1)],
            Self::Sum | Self::Cumsum => vec![full(3, 1)],
        }
    }

    /// Brings the values to the device.
    pub(crate) fn upload(self, gpu: &Device, values: &[Vec<f32>]) -> kiln::Result<Vec<Array<f32>>> {
        let array = |values: &Vec<f32>| match self {
            Self::Fused => gpu.array(values, [values.len() / WIDTH, WIDTH]),
            _ => gpu.array(values, values.len()),
        };
        values.iter().map(array).collect()
    }

    /// The operation itself. The program is elsewhere, and nothing here.
    pub(crate) fn compute(self, gpu: &Device, arrays: &[Array<f32>]) -> kiln::Result<Array<f32>> {
        match (self, arrays) {
            (Self::Vadd, [a, b]) => (a + b).eval(),
            (Self::Fused, [a, b, c, d]) => ((a - b) * c + d).eval(),
            (Self::Sum, [x]) => x.sum(..),
            (Self::Cumsum, [x]) => x.cumsum(0),
            _ => gpu.full(FILLED, N),
        }
    }

    /// What must come out, computed here.
    pub(crate) fn expected(self, values: &[Vec<f32>]) -> Vec<f32> {
        match (self, values) {
            (Self::Vadd, [a, b]) => a.iter().zip(b).map(|(a, b)| a + b).collect(),
            (Self::Fused, [a, b, c, d]) => {
                let row = b.iter().cycle();
                a.iter().zip(row).zip(c).zip(d).map(|(((a, b), c), d)| (a - b) * c + d).collect()
            }
            (Self::Sum, [x]) => vec![x.iter().sum()],
            (Self::Cumsum, [x]) => {
                let mut total = 0.0;
                let running = x.iter().map(|x| {
                    total += x;
                    total
                });
                running.collect()
            }
            _ => vec![FILLED; N],
        }
    }
}

/// `first`, `first + 1` and so on, again after `period`.
fn values(n: usize, period: u16, first: u16) -> Vec<f32> {
    (0..period).cycle().take(n).map(|step| f32::from(first + step)).collect()
}

/// Compares a result with what must come out.
pub(crate) fn check(got: &[f32], expected: &[f32]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("the result has {} values and not {}", got.len(), expected.len()));
    }
    // Whole numbers and halves: the same bits.
    match got.iter().zip(expected).position(|(got, expected)| got.to_bits() != expected.to_bits()) {
        None => Ok(()),
        Some(at) => Err(format!("value {at} is {} and not {}", got[at], expected[at])),
    }
}
