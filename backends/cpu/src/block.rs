//! Evaluates a program over a block of elements: one loop per instruction, as numexpr does.
//!
//! What enters: a [`Program`], the types of its inputs, the values of its constants; then, block by block, operands.
//! What leaves: the results, written to their destinations or kept in the machine until they are asked for.
//!
//! Decided: programs are checked once, here, so that the loops never meet a wrong type or index; constants are never
//! materialised; slots are reused as soon as their value is dead, to stay in the cache; a result is computed in its
//! destination, not copied there.

use std::ops::Range;

use kiln_array::dtype::Dtype;
use kiln_array::op::{BinaryOp, UnaryOp};
use kiln_array::program::{Instr, Program, Value};
use kiln_array::{ErrorKind, Result};
use smallvec::SmallVec;

use crate::lanes;
use crate::operand::{Arg, Dst};
use crate::scratch::Buf;

/// Where a value is found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Const(u32),
    Input(usize),
    Slot(usize),
    Out(usize),
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Unary(UnaryOp, Place),
    Binary(BinaryOp, Place, Place),
    Select(Place, Place, Place),
    Cast(Place, Dtype),
}

/// One loop: the operands' type, the result's type and place.
#[derive(Debug)]
struct Step {
    action: Action,
    operands: Dtype,
    result: Dtype,
    dst: Place,
}

/// A program made ready: checked, constants filled in, every value given a place.
#[derive(Debug)]
pub(crate) struct Code {
    steps: Vec<Step>,
    results: Vec<Place>,
    /// The types of the results.
    pub(crate) dtypes: Vec<Dtype>,
    places: Vec<Place>,
    slots: usize,
}

fn wrong(program: &Program, what: &str) -> ErrorKind {
    ErrorKind::Backend { op: "cpu", message: format!("{what} in {program}") }
}

impl Code {
    /// Checks a program and gives its values places.
    pub(crate) fn new(program: &Program, inputs: &[Dtype], scalars: &[u32]) -> Result<Self> {
        check(program, inputs, scalars)?;
        let count = program.instrs.len();
        let mut last_use = vec![None; count];
        for (at, (instr, _)) in program.instrs.iter().enumerate() {
            for value in operands(instr) {
                last_use[value as usize] = Some(at);
            }
        }
        for &value in &program.outputs {
            last_use[value as usize] = Some(usize::MAX);
        }

        let mut code = Self { steps: vec![], results: vec![], dtypes: vec![], places: vec![], slots: 0 };
        let mut free = vec![];
        for (at, &(instr, dtype)) in program.instrs.iter().enumerate() {
            let place = match instr {
                Instr::Input(index) => Place::Input(index as usize),
                Instr::Scalar(slot) => Place::Const(scalars[slot as usize]),
                _ if last_use[at].is_none() => Place::Const(0),
                _ => {
                    let out = program.outputs.iter().position(|&value| value as usize == at);
                    let dst = match out {
                        Some(out) => Place::Out(out),
                        None => Place::Slot(free.pop().unwrap_or_else(|| {
                            code.slots += 1;
                            code.slots - 1
                        })),
                    };
                    code.push_step(program, instr, dtype, dst)?;
                    for value in operands(&instr) {
                        // An operand that occurs twice is given back once.
                        if let Place::Slot(slot) = code.places[value as usize]
                            && last_use[value as usize].take_if(|last| *last == at).is_some()
                        {
                            free.push(slot);
                        }
                    }
                    dst
                }
            };
            code.places.push(place);
        }
        code.results = program.outputs.iter().map(|&value| code.places[value as usize]).collect();
        code.dtypes = program.output_dtypes().collect();
        Ok(code)
    }

    fn push_step(&mut self, program: &Program, instr: Instr, result: Dtype, dst: Place) -> Result<()> {
        let place = |value: Value| self.places[value as usize];
        let (action, first) = match instr {
            Instr::Unary(op, a) => (Action::Unary(op, place(a)), a),
            Instr::Binary(op, a, b) => (Action::Binary(op, place(a), place(b)), a),
            Instr::Select(c, a, b) => (Action::Select(place(c), place(a), place(b)), a),
            Instr::Cast(a) => (Action::Cast(place(a), result), a),
            _ => return Err(wrong(program, "unknown instruction").into()),
        };
        self.steps.push(Step { action, operands: program.dtype(first), result, dst });
        Ok(())
    }

    /// Whether the results are the inputs, in order.
    pub(crate) fn is_identity(&self) -> bool {
        self.results.iter().enumerate().all(|(index, &place)| place == Place::Input(index))
    }
}

fn operands(instr: &Instr) -> impl Iterator<Item = Value> {
    let (a, b, c) = match *instr {
        Instr::Unary(_, a) | Instr::Cast(a) => (Some(a), None, None),
        Instr::Binary(_, a, b) => (Some(a), Some(b), None),
        Instr::Select(a, b, c) => (Some(a), Some(b), Some(c)),
        _ => (None, None, None),
    };
    [a, b, c].into_iter().flatten()
}

/// Every index in range, every operand earlier, every type as the operator's table says.
fn check(program: &Program, inputs: &[Dtype], scalars: &[u32]) -> Result<()> {
    for (at, (instr, dtype)) in program.instrs.iter().enumerate() {
        if operands(instr).any(|value| value as usize >= at) {
            return Err(wrong(program, "a value used before it is made").into());
        }
        let of = |value: Value| program.dtype(value);
        let fits = match *instr {
            Instr::Input(index) => inputs.get(index as usize) == Some(dtype),
            Instr::Scalar(slot) => (slot as usize) < scalars.len(),
            Instr::Unary(op, a) => op.result(of(a)) == Some(*dtype),
            Instr::Binary(op, a, b) => of(a) == of(b) && op.result(of(a)) == Some(*dtype),
            Instr::Select(c, a, b) => of(c) == Dtype::Bool && of(a) == *dtype && of(b) == *dtype,
            Instr::Cast(_) => true,
            _ => false,
        };
        if !fits {
            return Err(wrong(program, &format!("v{at} does not fit")).into());
        }
    }
    if program.outputs.iter().any(|&value| value as usize >= program.instrs.len()) {
        return Err(wrong(program, "an output that is not made").into());
    }
    Ok(())
}

/// Elements computed at a time within a block. Short enough that all operands of an expression come from memory side by
/// side, so that the processor prefetches all of them: with 4096 an expression of four arrays took 1.8 times as long.
const STRETCH: usize = 512;

/// A code with the slots of one thread.
#[derive(Debug)]
pub(crate) struct Machine<'c> {
    code: &'c Code,
    slots: Vec<Buf>,
    kept: Vec<Buf>,
}

impl<'c> Machine<'c> {
    pub(crate) fn new(code: &'c Code) -> Self {
        Self { code, slots: Buf::several(code.slots), kept: vec![] }
    }

    /// Computes `n` elements; `outs` has a place of that length for each result.
    pub(crate) fn run(&mut self, inputs: &[Arg<'_>], outs: &mut [Dst<'_>], n: usize) -> Result<()> {
        self.steps(inputs, outs, n)?;
        for (index, out) in outs.iter_mut().enumerate() {
            let from = match self.code.results[index] {
                Place::Const(bits) => Arg::Splat(bits),
                Place::Input(input) => inputs[input],
                Place::Out(_) | Place::Slot(_) => continue,
            };
            lanes::copy(out.reborrow(), from);
        }
        // A value that is two results was made in the first one's place.
        for index in 0..outs.len() {
            if let Place::Out(made) = self.code.results[index]
                && made < index
            {
                let (before, after) = outs.split_at_mut(index);
                lanes::copy(after[0].reborrow(), before[made].arg());
            }
        }
        Ok(())
    }

    /// Computes `n` elements, to be found by [`result`](Self::result).
    pub(crate) fn keep(&mut self, inputs: &[Arg<'_>], n: usize) -> Result<()> {
        if self.code.steps.is_empty() {
            return Ok(());
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.resize_with(self.code.results.len(), Buf::new);
        let mut outs: SmallVec<[Dst<'_>; 4]> =
            kept.iter_mut().zip(&self.code.dtypes).map(|(buf, &dtype)| buf.dst(dtype, n)).collect();
        self.steps(inputs, &mut outs, n)?;
        drop(outs);
        self.kept = kept;
        Ok(())
    }

    /// The number of results.
    pub(crate) fn results(&self) -> usize {
        self.code.results.len()
    }

    /// Result `index` of the last [`keep`](Self::keep).
    pub(crate) fn result<'a>(&'a self, index: usize, inputs: &[Arg<'a>], n: usize) -> Arg<'a> {
        match self.code.results[index] {
            Place::Out(made) => self.kept[made].arg(self.code.dtypes[made], n),
            Place::Input(input) => inputs[input],
            Place::Const(bits) => Arg::Splat(bits),
            Place::Slot(_) => Arg::Splat(0),
        }
    }

    fn steps(&mut self, inputs: &[Arg<'_>], outs: &mut [Dst<'_>], n: usize) -> Result<()> {
        for start in (0..n).step_by(STRETCH) {
            let range = start..(start + STRETCH).min(n);
            for step in &self.code.steps {
                // The destination is taken out while the operands are borrowed; no operand lies in it.
                match step.dst {
                    Place::Slot(slot) => {
                        let mut buf = std::mem::take(&mut self.slots[slot]);
                        self.step(step, buf.dst(step.result, range.len()), inputs, outs, range.clone())?;
                        self.slots[slot] = buf;
                    }
                    Place::Out(out) => {
                        let mut dst = std::mem::take(&mut outs[out]);
                        self.step(step, dst.range(range.clone()), inputs, outs, range.clone())?;
                        outs[out] = dst;
                    }
                    Place::Const(_) | Place::Input(_) => {}
                }
            }
        }
        Ok(())
    }

    fn step(&self, step: &Step, dst: Dst<'_>, inputs: &[Arg<'_>], outs: &[Dst<'_>], range: Range<usize>) -> Result<()> {
        let of = |place, dtype| match place {
            Place::Const(bits) => Arg::Splat(bits),
            Place::Input(index) => inputs[index].range(range.clone()),
            Place::Slot(slot) => self.slots[slot].arg(dtype, range.len()),
            Place::Out(out) => outs[out].arg().range(range.clone()),
        };
        let dtype = step.operands;
        let done = match step.action {
            Action::Unary(op, a) => lanes::unary(op, dtype, dst, of(a, dtype)),
            Action::Binary(op, a, b) => lanes::binary(op, dtype, dst, of(a, dtype), of(b, dtype)),
            Action::Cast(a, to) => lanes::cast(dtype, to, dst, of(a, dtype)),
            Action::Select(c, a, b) => {
                lanes::select(dst, of(c, Dtype::Bool), of(a, step.result), of(b, step.result));
                Some(())
            }
        };
        done.ok_or_else(|| {
            let message = format!("{:?} of {dtype} is not known", step.action);
            ErrorKind::Backend { op: "cpu", message }.into()
        })
    }
}
