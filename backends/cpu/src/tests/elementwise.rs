//! Maps: every operator on awkward values, and operands in every layout, against plain Rust.

use std::sync::Arc;

use kiln_array::dtype::{Dtype, Element, Scalar};
use kiln_array::kernel::{Access, Family, KernelSpec, Slot};
use kiln_array::op::{BinaryOp, UnaryOp};
use kiln_array::program::{Instr, Program};
use kiln_array::recording::{Dispatch, Operand, Recording, Strides, Tiling};
use kiln_array::{Backend, Result};

use crate::Cpu;

const F: [f32; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN_POSITIVE / 4.0,
    3e9,
    -3e9,
    2.5,
];
const I: [i32; 8] = [0, 1, -1, i32::MIN, i32::MAX, 7, -7, 3];

/// Runs a map over inputs given with their strides; returns its only output.
fn map<A: Element, R: Element>(
    program: Program,
    lengths: &[usize],
    inputs: &[(&[A], usize, &[isize])],
    scalars: &[Scalar],
) -> Result<Vec<R>> {
    let cpu = Cpu::new();
    let slot = |dtype| Slot { dtype, access: Access::Strided };
    let n = lengths.iter().product();
    let operands: Vec<Operand> = inputs
        .iter()
        .map(|&(values, offset, strides)| Operand {
            buffer: cpu.upload(&A::to_bytes(values)).unwrap(),
            offset,
            kept: Strides::new(),
            walked: strides.into(),
        })
        .collect();
    let output = Operand {
        buffer: cpu.allocate((n * R::DTYPE.bytes()) as u64)?,
        offset: 0,
        kept: Strides::new(),
        walked: Strides::from_elem(0, lengths.len()),
    };
    let kernel = KernelSpec {
        family: Family::Map,
        name: "test",
        kept: 0,
        walked: u8::try_from(lengths.len()).unwrap(),
        inputs: vec![slot(A::DTYPE); inputs.len()],
        outputs: vec![slot(R::DTYPE)],
        map: program,
        combine: Program::default(),
        finish: Program::default(),
        reads_totals: false,
        writes_totals: false,
        even_tiles: false,
    };
    let dispatch = Dispatch {
        kernel: Arc::new(kernel),
        inputs: operands,
        outputs: vec![output.clone()],
        totals_in: None,
        totals_out: None,
        kept: [].into_iter().collect(),
        walked: lengths.into(),
        tiling: Tiling { length: n, lines: 1, ..Tiling::default() },
        log_step: 0,
        groups: 1,
        scalars: scalars.iter().map(|scalar| scalar.bits).collect(),
    };
    cpu.run(&Recording { dispatches: vec![dispatch] })?;
    R::from_bytes(cpu.read(output.buffer, (n * R::DTYPE.bytes()) as u64).wait()?)
}

fn one(instr: Instr, inputs: u32, from: Dtype, to: Dtype) -> Program {
    let mut program = Program::default();
    for index in 0..inputs {
        program.push(Instr::Input(index), from);
    }
    let out = program.push(instr, to);
    program.outputs = vec![out];
    program
}

/// One operator of two operands, over all pairs of values; also with a constant on either side.
fn check_binary<A: Element, R: Element>(op: BinaryOp, values: &[A], expected: impl Fn(A, A) -> R) {
    let n = values.len();
    let program = one(Instr::Binary(op, 0, 1), 2, A::DTYPE, R::DTYPE);
    let got: Vec<R> = map(program, &[n, n], &[(values, 0, &[1, 0]), (values, 0, &[0, 1])], &[]).unwrap();
    for (i, &a) in values.iter().enumerate() {
        let mut right = Program::default();
        right.push(Instr::Input(0), A::DTYPE);
        right.push_scalar(A::DTYPE);
        let mut left = right.clone();
        right.outputs = vec![right.push(Instr::Binary(op, 0, 1), R::DTYPE)];
        left.outputs = vec![left.push(Instr::Binary(op, 1, 0), R::DTYPE)];
        let right: Vec<R> = map(right, &[n], &[(values, 0, &[1])], &[a.scalar()]).unwrap();
        let left: Vec<R> = map(left, &[n], &[(values, 0, &[1])], &[a.scalar()]).unwrap();
        for (j, &b) in values.iter().enumerate() {
            let same = |got: R, a: A, b: A| {
                let expected = expected(a, b);
                let both_nan = format!("{got:?}{expected:?}") == "NaNNaN";
                assert!(got.scalar() == expected.scalar() || both_nan, "{a:?} {op:?} {b:?}: {got:?}, not {expected:?}");
            };
            same(got[i * n + j], a, b);
            same(right[j], b, a);
            same(left[j], a, b);
        }
    }
}

fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a.total_cmp(&b).is_lt() {
        a
    } else {
        b
    }
}

fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a.total_cmp(&b).is_gt() {
        a
    } else {
        b
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "the operators themselves")]
fn operators_of_two_floats() {
    check_binary(BinaryOp::Add, &F, |a, b| a + b);
    check_binary(BinaryOp::Sub, &F, |a, b| a - b);
    check_binary(BinaryOp::Mul, &F, |a, b| a * b);
    check_binary(BinaryOp::Div, &F, |a, b| a / b);
    check_binary(BinaryOp::Rem, &F, |a, b| a % b);
    check_binary(BinaryOp::Min, &F, min);
    check_binary(BinaryOp::Max, &F, max);
    check_binary(BinaryOp::Lt, &F, |a, b| a < b);
    check_binary(BinaryOp::Le, &F, |a, b| a <= b);
    check_binary(BinaryOp::Gt, &F, |a, b| a > b);
    check_binary(BinaryOp::Ge, &F, |a, b| a >= b);
    check_binary(BinaryOp::Eq, &F, |a, b| a == b);
    check_binary(BinaryOp::Ne, &F, |a, b| a != b);
}

#[test]
fn operators_of_two_integers() {
    check_binary(BinaryOp::Add, &I, i32::wrapping_add);
    check_binary(BinaryOp::Sub, &I, i32::wrapping_sub);
    check_binary(BinaryOp::Mul, &I, i32::wrapping_mul);
    check_binary(BinaryOp::Div, &I, |a, b| if b == 0 { a } else { a.wrapping_div(b) });
    check_binary(BinaryOp::Rem, &I, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) });
    check_binary(BinaryOp::Min, &I, i32::min);
    check_binary(BinaryOp::Max, &I, i32::max);
    check_binary(BinaryOp::Lt, &I, |a, b| a < b);
    check_binary(BinaryOp::Ge, &I, |a, b| a >= b);
    let u = I.map(i32::cast_unsigned);
    check_binary(BinaryOp::Div, &u, |a, b| a.checked_div(b).unwrap_or(a));
    check_binary(BinaryOp::Rem, &u, |a, b| a.checked_rem(b).unwrap_or(0));
    check_binary(BinaryOp::Max, &u, u32::max);
    check_binary(BinaryOp::Gt, &u, |a, b| a > b);
    check_binary(BinaryOp::Xor, &[false, true], |a, b| a ^ b);
    check_binary(BinaryOp::Le, &[false, true], |a, b| a <= b);
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "the conversion that is tested")]
fn conversions_and_operators_of_one() {
    fn unary<A: Element, R: Element>(instr: Instr, values: &[A]) -> Vec<R> {
        map(one(instr, 1, A::DTYPE, R::DTYPE), &[values.len()], &[(values, 0, &[1])], &[]).unwrap()
    }
    assert_eq!(unary::<f32, i32>(Instr::Cast(0), &F), F.map(|x| x as i32));
    assert_eq!(unary::<f32, u32>(Instr::Cast(0), &F), F.map(|x| x as u32));
    assert_eq!(unary::<f32, bool>(Instr::Cast(0), &F), F.map(|x| x.is_nan() || x.abs() > 0.0));
    assert_eq!(unary::<i32, bool>(Instr::Cast(0), &I), I.map(|x| x != 0));
    assert_eq!(unary::<bool, f32>(Instr::Cast(0), &[true, false]), [1.0, 0.0]);
    assert_eq!(unary::<i32, i32>(Instr::Unary(UnaryOp::Abs, 0), &I), I.map(i32::wrapping_abs));
    assert_eq!(unary::<f32, bool>(Instr::Unary(UnaryOp::IsNan, 0), &F), F.map(f32::is_nan));
    assert_eq!(unary::<bool, bool>(Instr::Unary(UnaryOp::Not, 0), &[true, false]), [false, true]);
}

#[test]
fn every_operator_of_the_tables_has_a_loop() {
    fn typed<A: Element>(program: Program, to: Dtype, values: &[A]) {
        let inputs = [(values, 0, &[1][..]); 2];
        match to {
            Dtype::Bool => map::<A, bool>(program, &[2], &inputs, &[]).map(drop),
            Dtype::U32 => map::<A, u32>(program, &[2], &inputs, &[]).map(drop),
            Dtype::I32 => map::<A, i32>(program, &[2], &inputs, &[]).map(drop),
            _ => map::<A, f32>(program, &[2], &inputs, &[]).map(drop),
        }
        .unwrap();
    }
    let run = |program: Program, from: Dtype, to: Dtype| match from {
        Dtype::Bool => typed(program, to, &[true, false]),
        Dtype::I32 => typed(program, to, &[1i32, 2]),
        Dtype::U32 => typed(program, to, &[1u32, 2]),
        _ => typed(program, to, &[1f32, 2.0]),
    };
    let dtypes = [Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F32];
    for dtype in dtypes {
        for &op in UnaryOp::ALL {
            if let Some(to) = op.result(dtype) {
                run(one(Instr::Unary(op, 0), 2, dtype, to), dtype, to);
            }
        }
        for &op in BinaryOp::ALL {
            if let Some(to) = op.result(dtype) {
                run(one(Instr::Binary(op, 0, 1), 2, dtype, to), dtype, to);
            }
        }
    }
}

#[test]
fn operands_in_every_layout_on_every_thread() {
    for (rows, columns) in [(1, 1), (3, 5), (7, 300), (300, 7), (130, 1000), (1000, 130)] {
        let n = rows * columns;
        let x: Vec<i32> = (0..).take(n).collect();
        let mut program = Program::default();
        let inputs: Vec<u32> = (0..5).map(|index| program.push(Instr::Input(index), Dtype::I32)).collect();
        let sum = inputs.iter().skip(1).fold(0, |sum, &input| {
            let tripled = program.push(Instr::Binary(BinaryOp::Add, sum, sum), Dtype::I32);
            program.push(Instr::Binary(BinaryOp::Sub, tripled, input), Dtype::I32)
        });
        program.outputs = vec![sum];
        let (r, c) = (rows as isize, columns as isize);
        let operands: [(&[i32], usize, &[isize]); 5] =
            [(&x, 0, &[c, 1]), (&x, 0, &[1, r]), (&x, n - 1, &[-c, -1]), (&x, 0, &[0, 1]), (&x, 0, &[1, 0])];
        let got: Vec<i32> = map(program, &[rows, columns], &operands, &[]).unwrap();
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / columns, at % columns);
            let values = [at, j * rows + i, n - 1 - at, j, i].map(|index| x[index]);
            let expected = values[1..].iter().fold(values[0], |sum, &value| (2 * sum).wrapping_sub(value));
            assert_eq!(got, expected, "{rows}×{columns} at {i}, {j}");
        }
    }
}

#[test]
fn recordings_that_do_not_fit_are_errors() {
    let id = || Program::identity(&[Dtype::I32]);
    assert!(map::<i32, i32>(id(), &[5], &[(&[1, 2, 3, 4], 0, &[1])], &[]).is_err());
    assert!(map::<i32, i32>(id(), &[2], &[(&[1, 2, 3, 4], 0, &[-1])], &[]).is_err());
    assert!(map::<f32, i32>(id(), &[2], &[(&[1.0, 2.0], 0, &[1])], &[]).is_err());
    let forward = one(Instr::Unary(UnaryOp::Neg, 7), 1, Dtype::I32, Dtype::I32);
    assert!(map::<i32, i32>(forward, &[2], &[(&[1, 2], 0, &[1])], &[]).is_err());
    assert_eq!(map::<i32, i32>(id(), &[0], &[(&[], 0, &[1])], &[]).unwrap(), [0; 0]);
}
