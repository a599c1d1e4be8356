//! Every kernel of the catalogue is valid, has the same text each time, lowers to SPIR-V, and compiles as MSL: the text
//! that wgpu hands to Metal, and the one for passthrough.

use std::collections::BTreeSet;

use kiln_array::Dtype;
use kiln_array::kernel::{Family, KernelSpec};
use kiln_array::op::{BinaryOp, UnaryOp};
use kiln_array::program::{Instr, Program};
use kiln_metal_host::{Build, Host, catalogue, translate};
use kiln_shaders::{Msl, Target, lower, metal, metal_passthrough, render};

/// Kernels in one translation unit.
const BATCH: usize = 48;

fn programs(spec: &KernelSpec) -> [&Program; 3] {
    [&spec.map, &spec.combine, &spec.finish]
}

#[test]
fn the_catalogue_has_every_family_and_operator() {
    let specs = catalogue().unwrap();
    let families: BTreeSet<Family> = specs.values().map(|spec| spec.family).collect();
    assert_eq!(families, [Family::Map, Family::Reduce, Family::Scan, Family::Spine].into());
    let (mut unary, mut binary) = (BTreeSet::new(), BTreeSet::new());
    for program in specs.values().flat_map(|spec| programs(spec)) {
        for &(instr, _) in &program.instrs {
            match instr {
                Instr::Unary(op, a) => drop(unary.insert((op, program.dtype(a)))),
                Instr::Binary(op, a, _) => drop(binary.insert((op, program.dtype(a)))),
                _ => {}
            }
        }
    }
    for dtype in kiln_array::dtype::ROWS.map(|row| row.dtype) {
        // The method `abs` needs a sign.
        let asked = |op: UnaryOp| op.result(dtype).is_some() && (op, dtype) != (UnaryOp::Abs, Dtype::U32);
        for op in UnaryOp::ALL.iter().copied().filter(|&op| asked(op)) {
            assert!(unary.contains(&(op, dtype)), "{} of {dtype}", op.name());
        }
        for &op in BinaryOp::ALL.iter().filter(|op| op.result(dtype).is_some()) {
            assert!(binary.contains(&(op, dtype)), "{} of {dtype}", op.name());
        }
    }
    // Both kinds of tiles, one pass and several.
    for family in [Family::Reduce, Family::Scan] {
        for (even, reads) in [(false, false), (true, false), (false, true)] {
            let has = |spec: &&std::sync::Arc<KernelSpec>| {
                spec.family == family && spec.even_tiles == even && spec.reads_totals == reads
            };
            // A reduction asks about its tile once and has no kernel apart for full ones.
            let exists = !even || family == Family::Scan;
            assert_eq!(specs.values().any(|spec| has(&spec)), exists, "{family:?} even={even} reads totals={reads}");
        }
    }
}

#[test]
fn the_catalogue_lowers() {
    for (key, spec) in &catalogue().unwrap() {
        let text = render(spec, Target::default()).unwrap();
        assert_eq!(text, render(&KernelSpec::clone(spec), Target::default()).unwrap(), "{key} {spec}");
        let lowered = lower(spec, &text, Target::default()).unwrap_or_else(|error| panic!("{spec}\n{error}\n{text}"));
        assert!(lowered.msl.contains("kernel void") && lowered.spirv[0] == 0x0723_0203, "{spec}");
    }
}

#[test]
fn the_catalogue_compiles_as_msl() {
    let host = Host::load().unwrap();
    let specs: Vec<_> = catalogue().unwrap().into_iter().collect();
    type Lower = fn(&KernelSpec, &str) -> Result<Msl, kiln_shaders::Error>;
    let texts: [(&str, Lower); 2] = [("", metal), ("p", metal_passthrough)];
    let translated: Vec<_> = specs
        .iter()
        .flat_map(|(key, spec)| {
            let wgsl = render(spec, Target::default()).unwrap();
            texts.map(|(prefix, lower)| {
                let name = format!("{prefix}kernel_{key}");
                let msl = lower(spec, &wgsl).unwrap_or_else(|error| panic!("{spec}\n{error}\n{wgsl}"));
                let kernel =
                    translate(&msl.text, &name).unwrap_or_else(|error| panic!("{spec}\n{error}\n{}", msl.text));
                (name, kernel)
            })
        })
        .collect();
    let batches: Vec<_> = translated.chunks(BATCH).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(batches.len()) {
            scope.spawn(|| {
                while let Some(batch) = batches.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let kernels = host.compile(batch, Build::Strict).unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(kernels.len(), batch.len());
                }
            });
        }
    });
    // `cargo xtask test --backend metal` looks for this line.
    println!("catalogue: {} kernels compiled, {} texts in {} units", specs.len(), translated.len(), batches.len());
}
