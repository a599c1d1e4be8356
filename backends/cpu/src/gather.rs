//! Finds an operand's elements: a run of a line, or one place of a run of lines, as a block.
//!
//! What enters: a buffer, and the offset and strides of an [`Operand`]. What leaves: the block as an [`Arg`]: borrowed
//! where its elements lie together, one value where they are all the same, gathered into scratch otherwise.
//!
//! Decided: every operand merges its own axes, so that a broadcast row or a transposed matrix costs what its own strides
//! cost, whatever the others look like. Addresses are checked once, for the whole dispatch, in [`View::new`].

use kiln_array::recording::Operand;
use kiln_array::{ErrorKind, Result};
use smallvec::SmallVec;

use crate::operand::Arg;
use crate::scratch::Buf;

/// Lengths and strides, outermost first; none of length 1, and no two that one could stand for.
pub(crate) type Axes = SmallVec<[(usize, isize); 4]>;

/// The operands of one block.
pub(crate) type Args<'a> = SmallVec<[Arg<'a>; 8]>;

/// Axes in their simplest form.
pub(crate) fn merge(lengths: &[usize], strides: &[isize]) -> Axes {
    let mut axes = Axes::new();
    for (&len, &stride) in lengths.iter().zip(strides).filter(|(len, _)| **len != 1) {
        match axes.last_mut() {
            Some((outer, step)) if *step == stride.wrapping_mul(len.cast_signed()) => {
                *outer = outer.saturating_mul(len);
                *step = stride;
            }
            _ => axes.push((len, stride)),
        }
    }
    axes
}

/// Distance of element `index`, numbered row-major over the axes.
#[inline]
fn distance(axes: &[(usize, isize)], mut index: usize) -> isize {
    let mut sum = 0;
    if let Some((&(_, outermost), inner)) = axes.split_first() {
        for &(len, stride) in inner.iter().rev() {
            sum += (index % len).cast_signed() * stride;
            index /= len;
        }
        sum += index.cast_signed() * outermost;
    }
    sum
}

/// The first and the last address of an operand, or an error if they are not in its buffer.
pub(crate) fn check(operand: &Operand, kept: &[usize], walked: &[usize], elements: usize) -> Result<()> {
    let bad = |message: String| Err(ErrorKind::Backend { op: "cpu", message }.into());
    if operand.kept.len() != kept.len() || operand.walked.len() != walked.len() {
        return bad(format!("{operand:?} has other axes than its dispatch"));
    }
    let (mut low, mut high) = (operand.offset as i128, operand.offset as i128);
    let lengths = kept.iter().chain(walked);
    for (&len, &stride) in lengths.clone().zip(operand.kept.iter().chain(&operand.walked)) {
        let reach = (len as i128 - 1) * stride as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    if lengths.clone().all(|&len| len > 0) && (low < 0 || high >= elements as i128) {
        return bad(format!("{operand:?} leaves its buffer of {elements} elements"));
    }
    Ok(())
}

/// An operand with its elements.
#[derive(Debug)]
pub(crate) struct View<'d> {
    data: Arg<'d>,
    offset: isize,
    pub(crate) kept: Axes,
    pub(crate) walked: Axes,
}

impl<'d> View<'d> {
    /// A view of a buffer's elements; an error if the operand leaves the buffer.
    pub(crate) fn new(operand: &Operand, kept: &[usize], walked: &[usize], data: Arg<'d>) -> Result<Self> {
        let elements = match data {
            Arg::Words(words) => words.len(),
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Splat(_) => 0,
        };
        check(operand, kept, walked, elements)?;
        Ok(Self {
            data,
            offset: operand.offset.cast_signed(),
            kept: merge(kept, &operand.kept),
            walked: merge(walked, &operand.walked),
        })
    }

    /// Elements `start..start + n` of one line in place, if they lie together.
    pub(crate) fn stretch(&self, line: usize, start: usize, n: usize) -> Option<Arg<'d>> {
        let lent = lend(self.data, self.offset + distance(&self.kept, line), &self.walked, start, n);
        lent.filter(|arg| !matches!(arg, Arg::Splat(_)))
    }
}

/// The views of one thread's job, with scratch for what must be gathered.
#[derive(Debug)]
pub(crate) struct Loader<'d> {
    views: &'d [View<'d>],
    bufs: Vec<Buf>,
}

impl<'d> Loader<'d> {
    pub(crate) fn new(views: &'d [View<'d>]) -> Self {
        Self { views, bufs: Buf::several(views.len()) }
    }

    /// Elements `start..start + n` of one line, of every operand.
    pub(crate) fn along(&mut self, line: usize, start: usize, n: usize) -> Args<'_> {
        let pairs = self.views.iter().zip(&mut self.bufs);
        pairs
            .map(|(view, buf)| fetch(view.data, view.offset + distance(&view.kept, line), &view.walked, start, n, buf))
            .collect()
    }

    /// Element `place` of lines `first..first + n`, of every operand.
    pub(crate) fn across(&mut self, first: usize, n: usize, place: usize) -> Args<'_> {
        let pairs = self.views.iter().zip(&mut self.bufs);
        pairs
            .map(|(view, buf)| fetch(view.data, view.offset + distance(&view.walked, place), &view.kept, first, n, buf))
            .collect()
    }
}

/// Elements `start..start + n`, numbered row-major over the axes, without a copy, if that can be.
fn lend<'d>(data: Arg<'d>, base: isize, axes: &Axes, start: usize, n: usize) -> Option<Arg<'d>> {
    let Some((&(len, stride), _)) = axes.split_last() else {
        return Some(splat(data, base.cast_unsigned()));
    };
    if start % len + n > len {
        return None;
    }
    let at = (base + distance(axes, start)).cast_unsigned();
    match stride {
        0 => Some(splat(data, at)),
        1 => Some(data.range(at..at + n)),
        _ => None,
    }
}

/// Elements `start..start + n`, numbered row-major over the axes.
fn fetch<'b>(data: Arg<'b>, base: isize, axes: &Axes, start: usize, n: usize, buf: &'b mut Buf) -> Arg<'b> {
    if let Some(lent) = lend(data, base, axes, start, n) {
        return lent;
    }
    let Some((&inner, outer)) = axes.split_last() else {
        return data;
    };
    match data {
        Arg::Words(words) => {
            let dst = buf.words_mut(n);
            gather(words, base, inner, outer, start, dst);
            Arg::Words(dst)
        }
        Arg::Bytes(bytes) => {
            let dst = &mut bytemuck::cast_slice_mut(buf.words_mut(n.div_ceil(4)))[..n];
            gather(bytes, base, inner, outer, start, dst);
            Arg::Bytes(dst)
        }
        Arg::Splat(_) => data,
    }
}

fn splat(data: Arg<'_>, at: usize) -> Arg<'_> {
    match data {
        Arg::Words(words) => Arg::Splat(words[at]),
        Arg::Bytes(bytes) => Arg::Splat(u32::from(bytes[at])),
        Arg::Splat(_) => data,
    }
}

/// Copies runs of the innermost axis, one after another.
fn gather<T: Copy>(
    src: &[T],
    base: isize,
    inner: (usize, isize),
    outer: &[(usize, isize)],
    start: usize,
    mut dst: &mut [T],
) {
    let (len, stride) = inner;
    let (mut row, mut column) = (start / len, start % len);
    while !dst.is_empty() {
        let (run, rest) = dst.split_at_mut((len - column).min(dst.len()));
        let at = base + distance(outer, row) + column.cast_signed() * stride;
        copy_run(src, at.cast_unsigned(), stride, run);
        (dst, row, column) = (rest, row + 1, 0);
    }
}

fn copy_run<T: Copy>(src: &[T], at: usize, stride: isize, run: &mut [T]) {
    match stride {
        0 => run.fill(src[at]),
        1 => run.copy_from_slice(&src[at..at + run.len()]),
        2.. => {
            let picked = src[at..].iter().step_by(stride.cast_unsigned());
            run.iter_mut().zip(picked).for_each(|(to, &from)| *to = from);
        }
        _ => {
            let picked = src[..=at].iter().rev().step_by(stride.unsigned_abs());
            run.iter_mut().zip(picked).for_each(|(to, &from)| *to = from);
        }
    }
}
