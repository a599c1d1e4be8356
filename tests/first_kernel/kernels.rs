//! Distinct kernels by number, and what each computes.

use kiln::prelude::*;
use kiln::{Array, Expr, Result};

/// Elements of the arrays.
const LENGTH: usize = 1000;

/// Operators in a row: `4^DEPTH` kernels of each kind.
const DEPTH: usize = 6;

/// What is done with the expression, by which one kernel, or a few, come of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One elementwise kernel.
    Map,
    /// A reduction.
    Sum,
    /// A scan.
    Scan,
}

/// A kernel of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Numbered {
    pub(crate) kind: Kind,
    pub(crate) number: usize,
}

/// The kernels of a text: `0..20,s7,c9` are twenty elementwise ones, a sum and a scan.
pub(crate) fn list(text: &str) -> Vec<Numbered> {
    let mut list = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (kind, rest) = match word.split_at(1) {
            ("s", rest) => (Kind::Sum, rest),
            ("c", rest) => (Kind::Scan, rest),
            _ => (Kind::Map, word),
        };
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let numbers = match rest.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => number(rest)..number(rest) + 1,
        };
        list.extend(numbers.map(|number| Numbered { kind, number }));
    }
    list
}

/// Arrays to compute with, and the same values on the host.
pub(crate) struct Inputs {
    x: Array<i32>,
    y: Array<i32>,
    host: [Vec<i32>; 2],
}

impl Inputs {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let length = i32::try_from(LENGTH).expect("it is small");
        let x: Vec<i32> = (0..length).map(|i| i * 37 % 101 - 50).collect();
        let y: Vec<i32> = (0..length).map(|i| i * 53 % 17 - 8).collect();
        Ok(Self { x: device.array(&x, LENGTH)?, y: device.array(&y, LENGTH)?, host: [x, y] })
    }

    /// The expression of a number: its digits in base four are operators.
    fn expression(&self, number: usize) -> Expr<i32> {
        let (x, y) = (&self.x, &self.y);
        let mut value = x.to_expr();
        for digit in digits(number) {
            value = match digit {
                0 => value + y,
                1 => value * y,
                2 => value - y,
                _ => value.maximum(y),
            };
        }
        value
    }

    /// Runs a kernel, without a read.
    pub(crate) fn launch(&self, kernel: Numbered) -> Result<Array<i32>> {
        let expression = self.expression(kernel.number);
        match kernel.kind {
            Kind::Map => expression.eval(),
            Kind::Sum => expression.sum(..),
            Kind::Scan => expression.cumsum(0),
        }
    }

    /// Runs kernels, without a read.
    pub(crate) fn launch_all(&self, kernels: &[Numbered]) -> Result<()> {
        kernels.iter().try_for_each(|&kernel| self.launch(kernel).map(drop))
    }

    /// Runs kernels, and reads and checks their results.
    pub(crate) fn check(&self, kernels: &[Numbered]) -> Result<()> {
        let arrays = kernels.iter().map(|&kernel| self.launch(kernel)).collect::<Result<Vec<_>>>()?;
        for (&kernel, array) in kernels.iter().zip(arrays) {
            assert!(array.to_host()?.as_slice() == self.expected(kernel), "{kernel:?} is wrong");
        }
        Ok(())
    }

    /// The results by plain loops.
    fn expected(&self, kernel: Numbered) -> Vec<i32> {
        let [x, y] = &self.host;
        let of = |(&x, &y): (&i32, &i32)| {
            digits(kernel.number).fold(x, |value, digit| match digit {
                0 => value.wrapping_add(y),
                1 => value.wrapping_mul(y),
                2 => value.wrapping_sub(y),
                _ => value.max(y),
            })
        };
        let values = x.iter().zip(y).map(of);
        let add = |sum: &mut i32, value: i32| {
            *sum = sum.wrapping_add(value);
            Some(*sum)
        };
        match kernel.kind {
            Kind::Map => values.collect(),
            Kind::Sum => vec![values.fold(0, i32::wrapping_add)],
            Kind::Scan => values.scan(0, add).collect(),
        }
    }

    /// A kernel that takes long to compile: a chain of so many operators.
    pub(crate) fn large(&self, operators: usize) -> Expr<i32> {
        (0..operators).fold(self.x.to_expr(), |value, at| if at % 3 == 0 { value * &self.y } else { value + &self.y })
    }
}

fn digits(number: usize) -> impl Iterator<Item = usize> {
    (0..DEPTH).scan(number, |rest, _| {
        let digit = *rest % 4;
        *rest /= 4;
        Some(digit)
    })
}

#[test]
fn lists_are_read() {
    let numbers = list("2..4,s7,c9").into_iter().map(|kernel| (kernel.kind, kernel.number));
    let expected = [(Kind::Map, 2), (Kind::Map, 3), (Kind::Sum, 7), (Kind::Scan, 9)];
    assert!(numbers.eq(expected));
}
