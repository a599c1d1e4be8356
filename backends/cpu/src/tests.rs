//! Reductions and scans against the order spelled out naively: recursion over elements, no tiles, no blocks.
//!
//! What enters: lengths around every edge, all tilings, operators that are not commutative and not even associative, so
//! that any other order shows. What leaves: equal bits.

use std::sync::Arc;

use kiln_array::Backend;
use kiln_array::dtype::Dtype;
use kiln_array::kernel::{Access, Family, KernelSpec, Slot};
use kiln_array::op::BinaryOp;
use kiln_array::program::{Instr, Program};
use kiln_array::recording::{BufferId, Dispatch, LEAF, Operand, Recording, Tiling};

use crate::Cpu;

mod elementwise;

type Value = Vec<u32>;

/// An operator as a program and as a function.
struct Operator {
    program: Program,
    dtypes: Vec<Dtype>,
    f: fn(&[u32], &[u32]) -> Value,
}

fn built_in(op: BinaryOp, dtype: Dtype, f: fn(&[u32], &[u32]) -> Value) -> Operator {
    let mut program = Program::default();
    let (a, b) = (program.push(Instr::Input(0), dtype), program.push(Instr::Input(1), dtype));
    let out = program.push(Instr::Binary(op, a, b), dtype);
    program.outputs = vec![out];
    Operator { program, dtypes: vec![dtype], f }
}

/// Composition of `x → a·x + b`, with a truth value that the right one decides.
fn affine() -> Operator {
    let dtypes = vec![Dtype::U32, Dtype::U32, Dtype::Bool];
    let mut program = Program::default();
    let inputs: Vec<u32> = (0..6).map(|at| program.push(Instr::Input(at), dtypes[at as usize % 3])).collect();
    let a = program.push(Instr::Binary(BinaryOp::Mul, inputs[0], inputs[3]), Dtype::U32);
    let scaled = program.push(Instr::Binary(BinaryOp::Mul, inputs[1], inputs[3]), Dtype::U32);
    let b = program.push(Instr::Binary(BinaryOp::Add, scaled, inputs[4]), Dtype::U32);
    let odd = program.push(Instr::Binary(BinaryOp::Lt, inputs[1], inputs[4]), Dtype::Bool);
    let c = program.push(Instr::Select(inputs[5], odd, inputs[2]), Dtype::Bool);
    program.outputs = vec![a, b, c];
    let f = |l: &[u32], r: &[u32]| {
        let flag = if r[2] != 0 { u32::from(l[1] < r[1]) } else { l[2] };
        vec![l[0].wrapping_mul(r[0]), l[1].wrapping_mul(r[0]).wrapping_add(r[1]), flag]
    };
    Operator { program, dtypes, f }
}

fn float(f: impl Fn(f32, f32) -> f32, a: &[u32], b: &[u32]) -> Value {
    vec![f(f32::from_bits(a[0]), f32::from_bits(b[0])).to_bits()]
}

fn operators() -> Vec<Operator> {
    vec![
        built_in(BinaryOp::Add, Dtype::F32, |a, b| float(|a, b| a + b, a, b)),
        built_in(BinaryOp::Sub, Dtype::F32, |a, b| float(|a, b| a - b, a, b)),
        built_in(BinaryOp::Xor, Dtype::Bool, |a, b| vec![a[0] ^ b[0]]),
        affine(),
    ]
}

/// The tree over neighbours: what has no right neighbour passes up.
fn tree(op: &Operator, nodes: &[Value]) -> Value {
    if let [node] = nodes {
        return node.clone();
    }
    let left = nodes.len().next_power_of_two() / 2;
    (op.f)(&tree(op, &nodes[..left]), &tree(op, &nodes[left..]))
}

fn leaf(op: &Operator, elements: &[Value]) -> Value {
    elements[1..].iter().fold(elements[0].clone(), |total, value| (op.f)(&total, value))
}

fn total(op: &Operator, elements: &[Value]) -> Value {
    tree(op, &elements.chunks(LEAF).map(|elements| leaf(op, elements)).collect::<Vec<_>>())
}

fn running(op: &Operator, elements: &[Value]) -> Vec<Value> {
    // Totals of the complete aligned blocks of 2^level leaves.
    let mut blocks: Vec<Vec<Value>> = vec![elements.chunks(LEAF).map(|elements| leaf(op, elements)).collect()];
    while blocks[blocks.len() - 1].len() > 1 {
        let below = &blocks[blocks.len() - 1];
        blocks.push(below.chunks_exact(2).map(|pair| (op.f)(&pair[0], &pair[1])).collect());
    }
    (0..elements.len())
        .map(|i| {
            let q = i / LEAF;
            let levels = (0..blocks.len()).filter(|level| q >> level & 1 == 1);
            levels.fold(leaf(op, &elements[q * LEAF..=i]), |right, level| {
                (op.f)(&blocks[level][(q >> level) - 1], &right)
            })
        })
        .collect()
}

/// Lines of elements with their device buffers, laid out `outer × length × inner`.
struct Case {
    cpu: Cpu,
    op: Operator,
    outer: usize,
    length: usize,
    inner: usize,
    inputs: Vec<Operand>,
    values: Vec<Value>,
}

fn bytes(dtype: Dtype, words: &[u32]) -> Vec<u8> {
    match dtype {
        Dtype::Bool => words.iter().map(|&word| u8::from(word != 0)).collect(),
        _ => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
    }
}

impl Case {
    /// With `reversed`, the inputs lie backwards in memory.
    fn new(op: Operator, outer: usize, length: usize, inner: usize, reversed: bool) -> Self {
        let mut seed = u32::try_from(outer * 7919 + length * 31 + inner).unwrap();
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            seed.wrapping_mul(0x9e37_79b9)
        };
        let mut value = |dtype| match dtype {
            Dtype::Bool => random() >> 31,
            Dtype::F32 => ((random() >> 8) as f32 / 1e4 - 800.0).to_bits(),
            _ => random(),
        };
        let all = outer * length * inner;
        let values: Vec<Value> = (0..all).map(|_| op.dtypes.iter().map(|&dtype| value(dtype)).collect()).collect();
        let cpu = Cpu::new();
        let sign = if reversed { -1 } else { 1 };
        let operand = |(component, &dtype): (usize, &Dtype)| {
            let mut words: Vec<u32> = values.iter().map(|value| value[component]).collect();
            if reversed {
                words.reverse();
            }
            Operand {
                buffer: cpu.upload(&bytes(dtype, &words)).unwrap(),
                offset: if reversed { all - 1 } else { 0 },
                kept: [(length * inner) as isize * sign, sign].into_iter().collect(),
                walked: [inner as isize * sign].into_iter().collect(),
            }
        };
        let inputs = op.dtypes.iter().enumerate().map(operand).collect();
        Self { cpu, op, outer, length, inner, inputs, values }
    }

    fn line(&self, line: usize) -> Vec<Value> {
        let (outer, inner) = (line / self.inner, line % self.inner);
        (0..self.length).map(|i| self.values[(outer * self.length + i) * self.inner + inner].clone()).collect()
    }

    fn lines(&self) -> usize {
        self.outer * self.inner
    }

    fn dispatch(&self, family: Family, length: usize, log_leaves: u32) -> Dispatch {
        let slots = || self.op.dtypes.iter().map(|&dtype| Slot { dtype, access: Access::Strided }).collect();
        let kernel = KernelSpec {
            family,
            name: "test",
            kept: 2,
            walked: 1,
            inputs: slots(),
            outputs: slots(),
            map: Program::identity(&self.op.dtypes),
            combine: self.op.program.clone(),
            finish: Program::identity(&self.op.dtypes),
            reads_totals: false,
            writes_totals: false,
            even_tiles: false,
        };
        Dispatch {
            kernel: Arc::new(kernel),
            inputs: self.inputs.clone(),
            outputs: vec![],
            totals_in: None,
            totals_out: None,
            kept: [self.outer, self.inner].into_iter().collect(),
            walked: [length].into_iter().collect(),
            tiling: Tiling { length, lines: self.lines(), log_leaves, ..Tiling::default() },
            log_step: 0,
            groups: 1,
            scalars: [].into_iter().collect(),
        }
    }

    fn totals(&self, tiles: usize) -> BufferId {
        self.cpu.allocate((tiles * self.lines() * self.op.dtypes.len() * 4) as u64).unwrap()
    }

    fn outputs(&self, elements: usize, scan: bool) -> Vec<Operand> {
        let operand = |&dtype: &Dtype| Operand {
            buffer: self.cpu.allocate((elements * dtype.bytes()) as u64).unwrap(),
            offset: 0,
            kept: if scan { self.contiguous() } else { [self.inner as isize, 1].into_iter().collect() },
            walked: [if scan { self.inner as isize } else { 0 }].into_iter().collect(),
        };
        self.op.dtypes.iter().map(operand).collect()
    }

    fn contiguous(&self) -> kiln_array::recording::Strides {
        [(self.length * self.inner) as isize, 1].into_iter().collect()
    }

    fn run(&self, dispatches: Vec<Dispatch>) {
        self.cpu.run(&Recording { dispatches }).unwrap();
    }

    fn read(&self, outputs: &[Operand], elements: usize) -> Vec<Value> {
        let columns: Vec<Vec<u32>> = outputs
            .iter()
            .zip(&self.op.dtypes)
            .map(|(output, dtype)| {
                let bytes = self.cpu.read(output.buffer, (elements * dtype.bytes()) as u64).wait().unwrap();
                let bytes = bytes.as_bytes();
                match dtype {
                    Dtype::Bool => bytes.iter().map(|&byte| u32::from(byte)).collect(),
                    _ => bytes.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect(),
                }
            })
            .collect();
        (0..elements).map(|i| columns.iter().map(|column| column[i]).collect()).collect()
    }

    /// First pass: the totals of all tiles.
    fn tile_totals(&self, log_leaves: u32) -> Dispatch {
        let mut first = self.dispatch(Family::Reduce, self.length, log_leaves);
        Arc::get_mut(&mut first.kernel).unwrap().writes_totals = true;
        Arc::get_mut(&mut first.kernel).unwrap().outputs.clear();
        first.totals_out = Some(self.totals(first.tiling.tiles()));
        first
    }

    fn reduce(&self, log_leaves: u32) -> Vec<Value> {
        let mut passes = vec![];
        let mut length = self.length;
        let mut totals = None;
        loop {
            let mut pass = self.dispatch(Family::Reduce, length, log_leaves);
            let tiles = pass.tiling.tiles();
            let kernel = Arc::get_mut(&mut pass.kernel).unwrap();
            kernel.reads_totals = totals.is_some();
            kernel.writes_totals = tiles > 1;
            if totals.is_some() {
                kernel.inputs.clear();
                pass.inputs.clear();
            }
            pass.totals_in = totals;
            if tiles > 1 {
                kernel.outputs.clear();
                totals = Some(self.totals(tiles));
                pass.totals_out = totals;
                passes.push(pass);
                length = tiles;
                continue;
            }
            pass.outputs = self.outputs(self.lines(), false);
            let outputs = pass.outputs.clone();
            passes.push(pass);
            self.run(passes);
            return self.read(&outputs, self.lines());
        }
    }

    fn scan(&self, log_leaves: u32) -> Vec<Value> {
        let mut passes = vec![];
        let mut last = self.dispatch(Family::Scan, self.length, log_leaves);
        let tiles = last.tiling.tiles();
        if tiles > 1 {
            let first = self.tile_totals(log_leaves);
            let totals = first.totals_out;
            passes.push(first);
            let mut log_step = 0;
            while tiles >> log_step > 1 {
                let mut spine = self.dispatch(Family::Spine, tiles >> log_step, log_leaves);
                let kernel = Arc::get_mut(&mut spine.kernel).unwrap();
                kernel.inputs.clear();
                kernel.outputs.clear();
                spine.inputs.clear();
                spine.walked = [tiles].into_iter().collect();
                spine.totals_out = totals;
                spine.log_step = log_step;
                passes.push(spine);
                log_step += log_leaves + 2;
            }
            last.totals_in = totals;
            Arc::get_mut(&mut last.kernel).unwrap().reads_totals = true;
        }
        last.outputs = self.outputs(self.values.len(), true);
        let outputs = last.outputs.clone();
        passes.push(last);
        self.run(passes);
        self.read(&outputs, self.values.len())
    }

    fn check(&self, log_leaves: u32) {
        let what = format!(
            "{}×{}×{} {:?} tiles of {}",
            self.outer,
            self.length,
            self.inner,
            self.op.program,
            LEAF << log_leaves
        );
        let totals: Vec<Value> = (0..self.lines()).map(|line| total(&self.op, &self.line(line))).collect();
        assert!(self.reduce(log_leaves) == totals, "reduce {what}");
        let scanned = self.scan(log_leaves);
        for line in 0..self.lines() {
            for (i, expected) in running(&self.op, &self.line(line)).iter().enumerate() {
                let at = (line / self.inner * self.length + i) * self.inner + line % self.inner;
                assert!(scanned[at] == *expected, "scan {what} line {line} at {i}: {:?} {expected:?}", scanned[at]);
            }
        }
    }
}

fn check_lengths(lengths: impl Iterator<Item = usize>, log_leaves: &[u32]) {
    for length in lengths {
        for (index, &log_leaves) in log_leaves.iter().enumerate() {
            for op in operators() {
                Case::new(op, 1, length, 1, index % 2 == 1).check(log_leaves);
            }
        }
    }
}

#[test]
fn short_lines_in_every_tiling() {
    check_lengths(1..=70, &[0, 1, 2, 3, 4, 12]);
}

#[test]
fn long_lines_in_every_tiling() {
    check_lengths(1023..=1030, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    check_lengths([4095, 4096, 4097, 16383, 16384, 16385, 16390].into_iter(), &[0, 3, 8, 9, 10, 11, 12]);
}

#[test]
fn many_lines_in_every_layout() {
    for (outer, length, inner) in [
        (1, 37, 17),
        (3, 5, 16),
        (300, 3, 1),
        (200, 130, 1),
        (2, 37, 5),
        (7, 1, 9),
        (5, 70, 1100),
        (2, 700, 40),
        (1, 4097, 33),
    ] {
        for log_leaves in [0, 2, 12] {
            for (index, op) in operators().into_iter().enumerate() {
                Case::new(op, outer, length, inner, index % 2 == 1).check(log_leaves);
            }
        }
    }
}

#[test]
fn large_work_on_threads_has_the_same_bits() {
    for (outer, length, inner) in [(1, 200_003, 1), (3, 70_001, 1), (1, 300, 700), (4, 300, 100), (40_000, 3, 1)] {
        for op in operators() {
            Case::new(op, outer, length, inner, false).check(10);
        }
    }
}
