//! The order in which values combine, as [`kiln_array::plan::order`] states it: leaves of four left to right, then a
//! balanced tree of neighbours, in which what has no right neighbour passes up.
//!
//! What enters: blocks of accumulators, one operand per component. What leaves: a block's total ([`Joiner::fold`]), its
//! running combination ([`Joiner::running`]), and totals of neighbouring blocks joined as a serial walker meets them
//! ([`Counter`]).
//!
//! Decided: built-in operators on one component have loops of their own in [`crate::fast`]; any other operator is a
//! program run over left and right halves picked apart, level by level, so it too costs loops and not a call per element.

use kiln_array::Result;
use kiln_array::dtype::Dtype;
use kiln_array::op::BinaryOp;
use kiln_array::program::Program;
use smallvec::SmallVec;

use crate::block::{Code, Machine};
use crate::fast::{Fold, Known, Pair, Running};
use crate::gather::Args;
use crate::lanes;
use crate::operand::{Arg, Dst};
use crate::rows::{LeafRunning, LeafTotals};
use crate::scratch::Buf;

/// One accumulator: the bits of its components.
pub(crate) type Acc = SmallVec<[u32; 4]>;

/// A block of accumulators, by component.
pub(crate) type Vector = SmallVec<[Buf; 2]>;

/// The operator of a reduction or scan.
#[derive(Debug)]
pub(crate) struct Combiner {
    code: Code,
    /// The built-in operator, where it is one and works on one component.
    pub(crate) fast: Option<BinaryOp>,
}

impl Combiner {
    pub(crate) fn new(program: &Program, scalars: &[u32]) -> Result<Self> {
        let made = program.outputs.iter().filter_map(|&value| program.instrs.get(value as usize));
        let dtypes: Vec<Dtype> = made.map(|&(_, dtype)| dtype).collect();
        let code = Code::new(program, &[&dtypes[..], &dtypes].concat(), scalars)?;
        let fast = program.as_binary().filter(|&op| lanes::monoid(op, dtypes[0], Known).is_some());
        Ok(Self { code, fast })
    }

    /// The types of the components.
    pub(crate) fn dtypes(&self) -> &[Dtype] {
        &self.code.dtypes
    }
}

/// The operator with one thread's slots.
#[derive(Debug)]
pub(crate) struct Joiner<'c> {
    combiner: &'c Combiner,
    machine: Machine<'c>,
}

impl<'c> Joiner<'c> {
    pub(crate) fn new(combiner: &'c Combiner) -> Self {
        Self { combiner, machine: Machine::new(&combiner.code) }
    }

    /// The first `n` accumulators of a block as operands.
    pub(crate) fn args<'a>(&self, vector: &'a Vector, n: usize) -> Args<'a> {
        vector.iter().zip(self.combiner.dtypes()).map(|(buf, &dtype)| buf.arg(dtype, n)).collect()
    }

    /// One accumulator as operands of any length.
    pub(crate) fn splats(acc: &Acc) -> Args<'static> {
        acc.iter().map(|&bits| Arg::Splat(bits)).collect()
    }

    /// `left ⊕ right` for `n` pairs.
    pub(crate) fn join(&mut self, left: &[Arg<'_>], right: &[Arg<'_>], n: usize) -> Result<Vector> {
        let mut joined = self.vector();
        self.join_into(left, right, &mut joined, n)?;
        Ok(joined)
    }

    fn join_into(&mut self, left: &[Arg<'_>], right: &[Arg<'_>], out: &mut Vector, n: usize) -> Result<()> {
        let inputs: Args<'_> = left.iter().chain(right).copied().collect();
        let dtypes = self.combiner.dtypes();
        let mut dsts: SmallVec<[Dst<'_>; 2]> =
            out.iter_mut().zip(dtypes).map(|(buf, &dtype)| buf.dst(dtype, n)).collect();
        self.machine.run(&inputs, &mut dsts, n)
    }

    /// `left ⊕ right` for the first `n` accumulators of two blocks.
    pub(crate) fn join_vectors(&mut self, left: &Vector, right: &Vector, n: usize) -> Result<Vector> {
        let mut joined = self.vector();
        let dtypes = self.combiner.dtypes().iter();
        let inputs: Args<'_> =
            left.iter().chain(right).zip(dtypes.clone().chain(dtypes)).map(|(buf, &dtype)| buf.arg(dtype, n)).collect();
        self.join_into(&inputs, &[], &mut joined, n)?;
        Ok(joined)
    }

    /// `left ⊕ right` for one pair.
    pub(crate) fn join_one(&mut self, left: &Acc, right: &Acc) -> Result<Acc> {
        if let (Some(op), &[left], &[right]) = (self.combiner.fast, &left[..], &right[..]) {
            let joined = lanes::monoid(op, self.combiner.dtypes()[0], Pair(left, right));
            return Ok(joined.into_iter().collect());
        }
        let joined = self.join(&Self::splats(left), &Self::splats(right), 1)?;
        Ok(self.get(&joined, 0))
    }

    /// A block of accumulators, not yet written.
    pub(crate) fn vector(&self) -> Vector {
        self.combiner.dtypes().iter().map(|_| Buf::new()).collect()
    }

    /// A block copied from operands.
    pub(crate) fn copy(&self, values: &[Arg<'_>], n: usize) -> Vector {
        self.pick(values, 0, 1, n)
    }

    /// Accumulator `index` of a block.
    pub(crate) fn get(&self, vector: &Vector, index: usize) -> Acc {
        self.args(vector, index + 1).iter().map(|&arg| bits_at(arg, index)).collect()
    }

    /// Every `step`-th accumulator from `from` on.
    fn pick(&self, values: &[Arg<'_>], from: usize, step: usize, n: usize) -> Vector {
        let mut picked = self.vector();
        for ((buf, &dtype), &arg) in picked.iter_mut().zip(self.combiner.dtypes()).zip(values) {
            match (buf.dst(dtype, n), arg) {
                (Dst::Words(dst), Arg::Words(src)) => pick_lanes(src, from, step, dst),
                (Dst::Bytes(dst), Arg::Bytes(src)) => pick_lanes(src, from, step, dst),
                (dst, arg) => lanes::copy(dst, arg),
            }
        }
        picked
    }

    /// Copies `from` over every `step`-th accumulator of `to` from `at` on.
    fn place(&self, to: &mut Vector, len: usize, at: usize, step: usize, from: &Vector, n: usize) {
        for ((to, from), &dtype) in to.iter_mut().zip(from).zip(self.combiner.dtypes()) {
            match (to.dst(dtype, len), from.arg(dtype, n)) {
                (Dst::Words(to), Arg::Words(from)) => place_lanes(to, at, step, from),
                (Dst::Bytes(to), Arg::Bytes(from)) => place_lanes(to, at, step, from),
                _ => {}
            }
        }
    }

    /// The total of up to a block of elements, or any number that lie together; `leaves` says whether they are elements or
    /// totals already.
    pub(crate) fn fold(&mut self, values: &[Arg<'_>], n: usize, leaves: bool) -> Result<Acc> {
        if let (Some(op), &[values]) = (self.combiner.fast, values) {
            let dtype = self.combiner.dtypes()[0];
            return Ok(Fold { values, dtype, n, leaves }.total(op).into_iter().collect());
        }
        let (mut totals, mut m) = if leaves { self.leaves(values, n)? } else { (self.copy(values, n), n) };
        while m > 1 {
            let half = m / 2;
            let [left, right, odd] =
                [(0, half), (1, half), (m - 1, 1)].map(|(from, n)| self.pick(&self.args(&totals, m), from, 2, n));
            totals = self.join_vectors(&left, &right, half)?;
            if m % 2 == 1 {
                self.place(&mut totals, half + 1, half, 1, &odd, 1);
            }
            m = m.div_ceil(2);
        }
        Ok(self.get(&totals, 0))
    }

    /// The totals of leaves of four, left to right, and their number.
    fn leaves(&mut self, values: &[Arg<'_>], n: usize) -> Result<(Vector, usize)> {
        let m = n.div_ceil(4);
        let mut totals = self.pick(values, 0, 4, m);
        for element in 1..4.min(n) {
            let full = (n - element).div_ceil(4);
            let right = self.pick(values, element, 4, full);
            let joined = self.join_vectors(&totals, &right, full)?;
            self.place(&mut totals, m, 0, 1, &joined, full);
        }
        Ok((totals, m))
    }

    /// The running combination of up to a block of elements, after the totals `lefts`, nearest first. Also the block's own
    /// total, which is right if the block is full.
    pub(crate) fn running(&mut self, values: &[Arg<'_>], n: usize, lefts: &[Acc]) -> Result<(Vector, Acc)> {
        let mut all = self.vector();
        if let (Some(op), &[values]) = (self.combiner.fast, values) {
            let dtype = self.combiner.dtypes()[0];
            let dst = all[0].dst(dtype, n);
            let total = self.running_fast(op, values, dst, lefts);
            return Ok((all, total));
        }
        // Leaves: element by element of all leaves at once.
        let mut prefix = self.pick(values, 0, 4, n.div_ceil(4));
        self.place(&mut all, n, 0, 4, &prefix, n.div_ceil(4));
        for element in 1..4.min(n) {
            let full = (n - element).div_ceil(4);
            let right = self.pick(values, element, 4, full);
            prefix = self.join_vectors(&prefix, &right, full)?;
            self.place(&mut all, n, element, 4, &prefix, full);
        }
        // Levels: all right halves at once, each after the last value of its left half.
        let mut half = 4;
        while half < n {
            let right = |at: &usize| at / half % 2 == 1;
            let (mut left_of, mut right_of) = (self.vector(), self.vector());
            let mut count = 0;
            for (component, &dtype) in self.combiner.dtypes().iter().enumerate() {
                let from = all[component].arg(dtype, n);
                count = 0;
                for at in (0..n).filter(right) {
                    put(&mut left_of[component], dtype, count, bits_at(from, at / half * half - 1));
                    put(&mut right_of[component], dtype, count, bits_at(from, at));
                    count += 1;
                }
            }
            let joined = self.join_vectors(&left_of, &right_of, count)?;
            for (component, &dtype) in self.combiner.dtypes().iter().enumerate() {
                let from = joined[component].arg(dtype, count);
                for (index, at) in (0..n).filter(right).enumerate() {
                    put(&mut all[component], dtype, at, bits_at(from, index));
                }
            }
            half *= 2;
        }
        let total = self.get(&all, n - 1);
        for left in lefts {
            let joined = self.join(&Self::splats(left), &self.args(&all, n), n)?;
            all = joined;
        }
        Ok((all, total))
    }

    /// The totals of a leaf of `n` lines, side by side, for a built-in operator.
    pub(crate) fn leaf_totals(&self, op: BinaryOp, rows: [Arg<'_>; 4], n: usize) -> Vector {
        let mut totals = self.vector();
        let dtype = self.combiner.dtypes()[0];
        let dst = totals[0].dst(dtype, n);
        // The operator is known: `fast` says so.
        let _ = lanes::monoid(op, dtype, LeafTotals { dtype, n, rows, dst });
        totals
    }

    /// The running combination of a leaf of `n` lines, side by side, for a built-in operator, and the leaf's totals.
    pub(crate) fn leaf_running<'v>(
        &self,
        op: BinaryOp,
        rows: [Arg<'_>; 4],
        n: usize,
        lefts: impl Iterator<Item = &'v Vector>,
        dsts: [Dst<'_>; 4],
    ) -> Vector {
        let mut all = self.vector();
        let dtype = self.combiner.dtypes()[0];
        let totals = all[0].dst(dtype, n);
        let lefts = lefts.map(|left| left[0].arg(dtype, n)).collect();
        let _ = lanes::monoid(op, dtype, LeafRunning { dtype, n, rows, lefts, dsts, totals });
        all
    }

    /// [`running`](Self::running) for a built-in operator, straight to its destination.
    pub(crate) fn running_fast(&self, op: BinaryOp, values: Arg<'_>, dst: Dst<'_>, lefts: &[Acc]) -> Acc {
        let lefts: SmallVec<[u32; 32]> = lefts.iter().map(|acc| acc[0]).collect();
        let dtype = self.combiner.dtypes()[0];
        let total = lanes::monoid(op, dtype, Running { dtype, values, dst, lefts: &lefts });
        total.into_iter().collect()
    }
}

fn pick_lanes<T: Copy>(src: &[T], from: usize, step: usize, dst: &mut [T]) {
    dst.iter_mut().zip(src[from..].iter().step_by(step)).for_each(|(to, &value)| *to = value);
}

fn place_lanes<T: Copy>(dst: &mut [T], at: usize, step: usize, src: &[T]) {
    dst[at..].iter_mut().step_by(step).zip(src).for_each(|(to, &value)| *to = value);
}

/// The bits of one value of an operand.
pub(crate) fn bits_at(arg: Arg<'_>, index: usize) -> u32 {
    match arg {
        Arg::Words(words) => words[index],
        Arg::Bytes(bytes) => u32::from(bytes[index]),
        Arg::Splat(bits) => bits,
    }
}

/// Writes the bits of one value into a block.
pub(crate) fn put(buf: &mut Buf, dtype: Dtype, index: usize, bits: u32) {
    match buf.dst(dtype, index + 1) {
        Dst::Words(words) => words[index] = bits,
        Dst::Bytes(bytes) => bytes[index] = u8::from(bits != 0),
    }
}

/// Totals of blocks to the left of a walker, as the digits of a binary counter: one total for each set bit of the number
/// of blocks passed, covering twice as many blocks as the one before.
#[derive(Debug)]
pub(crate) struct Counter<V> {
    levels: Vec<Option<V>>,
}

impl<V> Counter<V> {
    pub(crate) fn new() -> Self {
        Self { levels: vec![] }
    }

    /// The totals to the left, nearest first.
    pub(crate) fn held(&self) -> impl Iterator<Item = &V> {
        self.levels.iter().flatten()
    }

    /// Passes a block.
    pub(crate) fn push(&mut self, mut total: V, mut join: impl FnMut(&V, &V) -> Result<V>) -> Result<()> {
        let mut level = 0;
        while let Some(left) = self.levels.get_mut(level).and_then(Option::take) {
            total = join(&left, &total)?;
            level += 1;
        }
        if level == self.levels.len() {
            self.levels.push(None);
        }
        self.levels[level] = Some(total);
        Ok(())
    }

    /// The total of all blocks passed and a last one.
    pub(crate) fn finish(&self, last: V, mut join: impl FnMut(&V, &V) -> Result<V>) -> Result<V> {
        self.held().try_fold(last, |total, left| join(left, &total))
    }
}
