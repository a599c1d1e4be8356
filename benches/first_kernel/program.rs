//! A program of more than thirty kernels: expressions, reductions and scans of several types, each of another structure.
//!
//! The arrays are small, so that what is measured is the kernels and not the work.

use kiln::prelude::*;
use kiln::{Backend, Element, Options};

/// Kernels at least.
pub(crate) const KERNELS: usize = 30;

const ROWS: usize = 60;
const COLUMNS: usize = 100;

/// What the statements read.
pub(crate) struct Inputs {
    x: Array<f32>,
    y: Array<f32>,
    k: Array<i32>,
    u: Array<u32>,
}

impl Inputs {
    /// Makes them on a device.
    pub(crate) fn upload(gpu: &Device) -> kiln::Result<Self> {
        fn values<T: From<u8>>(period: u8, first: u8) -> Vec<T> {
            (0..period).cycle().take(ROWS * COLUMNS).map(|step| T::from(first + step)).collect()
        }
        let shape = [ROWS, COLUMNS];
        Ok(Self {
            x: gpu.array(&values::<f32>(3, 1), shape)?,
            y: gpu.array(&values::<f32>(5, 2), shape)?,
            k: gpu.array(&values::<i32>(7, 3), shape)?,
            u: gpu.array(&values::<u32>(4, 5), shape)?,
        })
    }
}

/// An array of any type.
pub(crate) enum Output {
    F32(Array<f32>),
    I32(Array<i32>),
    U32(Array<u32>),
    Bool(Array<bool>),
}

impl From<Array<f32>> for Output {
    fn from(array: Array<f32>) -> Self {
        Self::F32(array)
    }
}

impl From<Array<i32>> for Output {
    fn from(array: Array<i32>) -> Self {
        Self::I32(array)
    }
}

impl From<Array<u32>> for Output {
    fn from(array: Array<u32>) -> Self {
        Self::U32(array)
    }
}

impl From<Array<bool>> for Output {
    fn from(array: Array<bool>) -> Self {
        Self::Bool(array)
    }
}

impl Output {
    /// Waits for the first value.
    pub(crate) fn first(&self) -> kiln::Result<f64> {
        match self {
            Self::F32(array) => first(array).map(f64::from),
            Self::I32(array) => first(array).map(f64::from),
            Self::U32(array) => first(array).map(f64::from),
            Self::Bool(array) => first(array).map(f64::from),
        }
    }

    /// Waits for all values.
    fn all(&self) -> kiln::Result<Vec<f64>> {
        Ok(match self {
            Self::F32(array) => array.to_host()?.as_slice().iter().copied().map(f64::from).collect(),
            Self::I32(array) => array.to_host()?.as_slice().iter().copied().map(f64::from).collect(),
            Self::U32(array) => array.to_host()?.as_slice().iter().copied().map(f64::from).collect(),
            Self::Bool(array) => array.to_host()?.as_slice().iter().copied().map(f64::from).collect(),
        })
    }
}

/// The first element, which lies where the array begins, so that no kernel is needed to read it.
pub(crate) fn first<T: Element>(array: &Array<T>) -> kiln::Result<T> {
    array.reshape(array.size())?.slice(s![0])?.item()
}

/// Makes the list of statements.
macro_rules! statements {
    ($(|$inputs:pat_param| $made:expr;)*) => {
        /// One statement each, a kernel or more.
        pub(crate) const STATEMENTS: &[fn(&Inputs) -> kiln::Result<Output>] = &[$(|$inputs| Ok($made?.into())),*];
    };
}
statements! {
    |Inputs { x, y, .. }| (x * 2.0 + y).eval();
    |Inputs { x, y, .. }| ((x - y) * (x + y)).eval();
    |Inputs { x, y, .. }| (x.sqrt() + y).eval();
    |Inputs { x, .. }| (-x).exp().eval();
    |Inputs { y, .. }| y.ln().eval();
    |Inputs { x, y, .. }| (x.sin() * y.cos()).eval();
    |Inputs { x, y, .. }| (x.tanh() - y).eval();
    |Inputs { x, y, .. }| (x - 2.0).abs().maximum(y).eval();
    |Inputs { x, y, .. }| (x.minimum(y) / 2.0).eval();
    |Inputs { x, y, .. }| x.gt(y).select(x, y).eval();
    |Inputs { x, y, .. }| x.lt(y).eval();
    |Inputs { x, y, .. }| (x.eq(1.0) & y.ge(2.0)).eval();
    |Inputs { x, .. }| (x.transpose() * 3.0).eval();
    |Inputs { k, .. }| (k * 3 + 1).eval();
    |Inputs { k, .. }| ((k & 6) ^ 1).eval();
    |Inputs { k, .. }| (k - 5).abs().eval();
    |Inputs { u, .. }| (u | 8).eval();
    |Inputs { u, .. }| (u % 3).eval();
    |Inputs { k, x, .. }| (k.cast::<f32>() * x).eval();
    |Inputs { k, x, .. }| (x.cast::<i32>() + k).eval();
    |Inputs { u, .. }| u.cast::<f32>().sqrt().eval();
    |Inputs { x, y, .. }| (x * y).sum(..);
    |Inputs { x, y, .. }| (x + y * y).sqrt().sum(0);
    |Inputs { x, y, .. }| (x * y).sum(1);
    |Inputs { y, .. }| y.mean(0);
    |Inputs { x, .. }| x.exp().mean(..);
    |Inputs { x, .. }| x.max(1);
    |Inputs { x, y, .. }| (x / y).max(..);
    |Inputs { k, .. }| k.min(..);
    |Inputs { k, .. }| k.sum(1);
    |Inputs { u, .. }| u.max(0);
    |Inputs { x, .. }| x.gt(1.5).sum(..);
    |Inputs { x, .. }| x.gt(0.5).all(..);
    |Inputs { k, .. }| k.reduce(.., |a, b| a ^ b);
    |Inputs { y, .. }| y.cumsum(0);
    |Inputs { x, y, .. }| (x * y).cumsum(1);
    |Inputs { k, .. }| k.cummax(1);
    |Inputs { u, .. }| u.cumsum(1);
    |Inputs { x, .. }| x.scan(-1, |a, b| a.minimum(b));
}

/// All statements, for their kernels alone.
pub(crate) fn rehearse(gpu: &Device) -> kiln::Result<()> {
    let inputs = Inputs::upload(gpu)?;
    STATEMENTS.iter().try_for_each(|statement| statement(&inputs).map(drop))
}

/// Compares the results with those of the CPU backend.
pub(crate) fn check(outputs: &[Output]) -> Result<(), String> {
    let said = |error: kiln::Error| error.to_string();
    let cpu = Options::new().backend(Backend::Cpu).open().map_err(said)?;
    let inputs = Inputs::upload(&cpu).map_err(said)?;
    for (at, (output, statement)) in outputs.iter().zip(STATEMENTS).enumerate() {
        let got = output.all().map_err(said)?;
        let expected = statement(&inputs).and_then(|output| output.all()).map_err(said)?;
        let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        if got.len() != expected.len() || !got.iter().zip(&expected).all(close) {
            return Err(format!("statement {at} of the program gives other values than the CPU backend"));
        }
    }
    Ok(())
}
