//! Programs: an elementwise expression as straight-line code, the form that kernels are made of.
//!
//! What enters: values pushed one by one. What leaves: a list of instructions, each naming earlier ones, with equal
//! instructions merged. A program's text depends on its structure alone: constants are numbered slots, so their values
//! never make a new kernel.

use std::fmt;

use crate::dtype::Dtype;
use crate::op::{BinaryOp, UnaryOp};

/// The number of an instruction, and of the value it makes.
pub type Value = u32;

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Instr {
    /// Element of input number `0`.
    Input(u32),
    /// Constant number `0`, a parameter of the dispatch.
    Scalar(u32),
    /// An operator of one operand.
    Unary(UnaryOp, Value),
    /// An operator of two operands of one type.
    Binary(BinaryOp, Value, Value),
    /// `if condition { a } else { b }`; fields are condition, a, b.
    Select(Value, Value, Value),
    /// Conversion to the instruction's type.
    Cast(Value),
}

/// Straight-line code from inputs and constants to outputs.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// Instructions with the type of each value.
    pub instrs: Vec<(Instr, Dtype)>,
    /// The values that are the results.
    pub outputs: Vec<Value>,
    /// How many constants it reads.
    pub scalars: u32,
}

impl Program {
    /// The program that returns its inputs, whose types are given.
    #[must_use]
    pub fn identity(dtypes: &[Dtype]) -> Self {
        let mut program = Self::default();
        for (index, &dtype) in (0..).zip(dtypes) {
            let value = program.push(Instr::Input(index), dtype);
            program.outputs.push(value);
        }
        program
    }

    /// Appends an instruction unless an equal one exists; returns its value.
    pub fn push(&mut self, instr: Instr, dtype: Dtype) -> Value {
        // Programs are short; a scan beats a map.
        let known = self.instrs.iter().rev().take(64).position(|known| *known == (instr, dtype));
        let at = match known {
            Some(back) => self.instrs.len() - 1 - back,
            None => {
                self.instrs.push((instr, dtype));
                self.instrs.len() - 1
            }
        };
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Appends a new constant slot; returns its value.
    pub fn push_scalar(&mut self, dtype: Dtype) -> Value {
        self.scalars += 1;
        self.push(Instr::Scalar(self.scalars - 1), dtype)
    }

    /// The type of a value.
    #[must_use]
    pub fn dtype(&self, value: Value) -> Dtype {
        self.instrs[value as usize].1
    }

    /// The types of the results.
    pub fn output_dtypes(&self) -> impl ExactSizeIterator<Item = Dtype> {
        self.outputs.iter().map(|&value| self.dtype(value))
    }

    /// The types of the constants, by slot.
    #[must_use]
    pub fn scalar_dtypes(&self) -> Vec<Dtype> {
        let mut dtypes = vec![Dtype::U32; self.scalars as usize];
        for &(instr, dtype) in &self.instrs {
            if let Instr::Scalar(slot) = instr {
                dtypes[slot as usize] = dtype;
            }
        }
        dtypes
    }

    /// Whether the program only passes its inputs through, in order.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        (0u32..).zip(&self.outputs).all(|(index, &value)| self.instrs[value as usize].0 == Instr::Input(index))
    }

    /// The operator of a program that applies one binary operator to its two inputs in order.
    #[must_use]
    pub fn as_binary(&self) -> Option<BinaryOp> {
        let [out] = self.outputs[..] else { return None };
        match self.instrs[out as usize].0 {
            Instr::Binary(op, a, b)
                if self.instrs[a as usize].0 == Instr::Input(0) && self.instrs[b as usize].0 == Instr::Input(1) =>
            {
                Some(op)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, (instr, dtype)) in self.instrs.iter().enumerate() {
            write!(f, "v{value}:{dtype}=")?;
            match instr {
                Instr::Input(index) => write!(f, "in{index}")?,
                Instr::Scalar(slot) => write!(f, "const{slot}")?,
                Instr::Unary(op, a) => write!(f, "{}(v{a})", op.name())?,
                Instr::Binary(op, a, b) => write!(f, "{}(v{a},v{b})", op.name())?,
                Instr::Select(c, a, b) => write!(f, "select(v{c},v{a},v{b})")?,
                Instr::Cast(a) => write!(f, "cast(v{a})")?,
            }
            f.write_str("; ")?;
        }
        f.write_str("->")?;
        for value in &self.outputs {
            write!(f, " v{value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
