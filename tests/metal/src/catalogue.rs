//! Every kernel that the library makes of its built-in operators: family × element type × variant.
//!
//! Planners make them, on a device that records only, so that the list has what users reach and nothing else. That every
//! operator is in it for every type that has it is a test (`tests/catalogue.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_array::kernel::{KernelKey, KernelSpec};
use kiln_array::recorder::{Recorder, kernels};
use kiln_array::reduce::Reduce;
use kiln_array::scan::Scan;
use kiln_array::{Array, ArrayOps, Device, Element, Result, keep, s};

/// Lengths whose lines take one tile or several, all full or not.
const LENGTHS: [usize; 4] = [1000, 1 << 13, 1 << 17, 70_001];

/// The kernels, by their keys.
///
/// # Errors
/// A planner refused an operation.
pub fn catalogue() -> Result<BTreeMap<KernelKey, Arc<KernelSpec>>> {
    let recorder = Recorder::new(Recorder::gpu_caps());
    let device = recorder.device();
    of_type::<bool>(&device)?;
    of_type::<i32>(&device)?;
    of_type::<u32>(&device)?;
    of_type::<f32>(&device)?;
    numbers(&device)?;
    bits(&device)?;
    Ok(kernels(&recorder.take()).map(|spec| (spec.key(), Arc::clone(spec))).collect())
}

/// Views of an array of three axes that reach every way to find an element.
fn views<T: Element>(x: &Array<T>) -> Result<Vec<Array<T>>> {
    Ok(vec![
        x.clone(),
        x.slice(s![1.., .., ..])?,
        x.slice(s![.., 1..;2, ..;-1])?,
        x.transpose(),
        x.permute([1, 0, 2])?,
        x.slice(s![0, 0, 0])?,
        x.slice(s![0, 0..1, ..])?.broadcast_to([60, 70, 80])?,
    ])
}

/// What all element types have.
fn of_type<T: Element>(device: &Device) -> Result<()> {
    let x = device.zeros::<T>([60, 70, 80])?;
    for view in views(&x)? {
        view.copy()?;
        view.cast::<f32>().eval()?;
        view.cast::<i32>().eval()?;
        view.cast::<u32>().eval()?;
        view.cast::<bool>().eval()?;
        view.minimum(&view).eval()?;
        view.maximum(&view).eval()?;
        for comparison in
            [view.lt(&view), view.le(&view), view.gt(&view), view.ge(&view), view.eq(&view), view.ne(&view)]
        {
            comparison.eval()?;
            comparison.select(&view, &view).eval()?;
        }
        for axis in 0..view.ndim() {
            reductions(&view, axis)?;
            scans(&view, axis)?;
        }
    }
    for length in LENGTHS {
        // Lines alone, side by side in memory, and across.
        for (shape, axis) in [(vec![length], 0), (vec![32, length], 1), (vec![length, 32], 0), (vec![length, 3], 0)] {
            let lines = device.zeros::<T>(&shape[..])?;
            reductions(&lines, axis)?;
            scans(&lines, axis)?;
            let reversed = lines.reverse(axis as isize)?;
            reductions(&reversed, axis)?;
            scans(&reversed, axis)?;
        }
    }
    Ok(())
}

fn reductions<T: Element>(x: &Array<T>, axis: usize) -> Result<()> {
    x.sum(axis)?;
    x.prod(axis)?;
    x.min(axis)?;
    x.max(keep(axis))?;
    x.mean(axis)?;
    x.ne(x).any(axis)?;
    x.ne(x).all(axis)?;
    Ok(())
}

fn scans<T: Element>(x: &Array<T>, axis: usize) -> Result<()> {
    x.cumsum(axis)?;
    x.cumprod(axis)?;
    x.cummin(axis)?;
    x.cummax(axis)?;
    Ok(())
}

/// Arithmetic and functions, alone and fused.
fn numbers(device: &Device) -> Result<()> {
    macro_rules! arithmetic {
        ($x:expr, $two:expr) => {{
            let (x, y) = ($x, &$x.copy()?);
            for expr in [x + y, x - y, x * y, x / y, x % y, x + $two, x * $two - y / $two] {
                expr.eval()?;
                expr.sum(0)?;
                expr.cumsum(1)?;
            }
        }};
    }
    let f = device.zeros::<f32>([60, 70])?;
    let i = device.zeros::<i32>([60, 70])?;
    let u = device.zeros::<u32>([60, 70])?;
    arithmetic!(&f, 2.0);
    arithmetic!(&i, 2);
    arithmetic!(&u, 2);
    for expr in [-&f, f.abs(), f.sqrt(), f.exp(), f.ln(), f.sin(), f.cos(), f.tanh()] {
        expr.eval()?;
    }
    f.is_nan().eval()?;
    f.is_nan().select(&f, 0.0).eval()?;
    (-&i).eval()?;
    i.abs().eval()?;
    let e = ((&f + 1.0) * &f - &f / 2.0) % 3.0;
    e.abs().sqrt().exp().ln().sin().cos().tanh().eval()?;
    f.reduce_from(2.0, 1, |a, b| a * b + 1.0)?;
    f.reduce(1, |a, b| a.minimum(b))?;
    f.scan(1, |a, b| a * b + 1.0)?;
    Ok(())
}

/// Logic of truth values and of bits.
fn bits(device: &Device) -> Result<()> {
    let b = device.zeros::<bool>([60, 70])?;
    let other = b.copy()?;
    for expr in [&b & &other, &b | &other, &b ^ &other, !&b] {
        expr.eval()?;
    }
    b.any(..)?;
    b.all(1)?;
    let i = device.zeros::<i32>([60, 70])?;
    let other = i.copy()?;
    for expr in [&i & &other, &i | &other, &i ^ &other, !&i] {
        expr.eval()?;
    }
    let u = device.zeros::<u32>([60, 70])?;
    let other = u.copy()?;
    for expr in [&u & &other, &u | &other, &u ^ &other, !&u] {
        expr.eval()?;
    }
    Ok(())
}
