//! What is dispatched: one kernel for a fused expression, no array in between, one kernel for a thousand shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln::prelude::*;
use kiln::{DeviceInfo, Pending, WarmUp};
use kiln_array::kernel::{Family, KernelKey, KernelSpec};
use kiln_array::recorder::{Recorder, kernels};
use kiln_array::recording::{BufferId, Dispatch, Recording};
use kiln_array::{Backend, Caps, HostBytes};

use crate::harness::{array, assert_same, on_each_backend, values};
use crate::random::Rng;

fn dispatches(recordings: &[Recording]) -> impl Iterator<Item = &Dispatch> {
    recordings.iter().flat_map(|recording| &recording.dispatches)
}

fn keys(recordings: &[Recording]) -> BTreeSet<KernelKey> {
    kernels(recordings).map(|kernel| kernel.key()).collect()
}

/// Runs a test on a recorder before each backend.
fn on_each_recorder(test: impl Fn(&Arc<Recorder>, &Device)) {
    on_each_backend(|device| {
        let recorder = Recorder::before(device);
        test(&recorder, &recorder.device());
    });
}

#[test]
fn a_fused_expression_is_one_dispatch() {
    on_each_recorder(|recorder, device| {
        let a = array(device, &[1.0f32, 2.0, 3.0], 3);
        let b = array(device, &[10.0f32, 20.0], [2, 1]);
        let c = array(device, &[2.0f32; 24], [4, 2, 3]);
        let _ = recorder.take();
        let expr = (&a - &b) * &c + (&a * 2.0).abs();
        assert!(recorder.take().is_empty(), "an expression runs nothing");
        let got = expr.eval().unwrap();
        let recordings = recorder.take();
        assert_eq!(dispatches(&recordings).count(), 1, "{recordings:?}");
        let dispatch = dispatches(&recordings).next().unwrap();
        assert_eq!(dispatch.kernel.family, Family::Map);
        assert_eq!(
            (dispatch.inputs.len(), dispatch.outputs.len()),
            (3, 1),
            "three arrays, the one used twice read once"
        );
        let want: Vec<f32> = (0..24)
            .map(|i| {
                let (a, b) = ((i % 3 + 1) as f32, [10.0f32, 20.0][i / 3 % 2]);
                (a - b) * 2.0 + a * 2.0
            })
            .collect();
        assert_same(&values(&got), &want, "the expression");
    });
}

/// The sum of an expression reads the expression's arrays and writes totals far smaller than the expression.
#[test]
fn the_sum_of_an_expression_has_no_array_in_between() {
    const N: usize = 1 << 18;
    on_each_recorder(|recorder, device| {
        let x = device.full(1.5f32, [N / 64, 64]).unwrap();
        let y = device.full(0.5f32, 64).unwrap();
        for (what, length, lines) in [("whole", N, 1), ("rows", 64, N / 64), ("columns", N / 64, 64)] {
            let _ = recorder.take();
            let expr = (&x - &y) * (&x - &y);
            let total = match what {
                "whole" => expr.sum(..),
                "rows" => expr.sum(1),
                _ => expr.sum(0),
            }
            .unwrap();
            let recordings = recorder.take();
            let mut written = 0;
            for (at, dispatch) in dispatches(&recordings).enumerate() {
                assert_eq!(dispatch.kernel.family, Family::Reduce, "{what}");
                assert_eq!(
                    dispatch.inputs.len(),
                    if at == 0 { 2 } else { 0 },
                    "{what}: only the first pass reads elements"
                );
                if dispatch.totals_out.is_some() {
                    written += dispatch.tiling.lines * dispatch.tiling.tiles();
                }
            }
            let first = dispatches(&recordings).next().unwrap().tiling;
            assert_eq!((first.length, first.lines), (length, lines), "{what}");
            assert!(written * 16 <= N, "{what}: {written} totals for {N} elements");
            assert_same(&values(&total), &vec![length as f32; lines], what);
        }
    });
}

/// A scan stores totals of tiles and its result, never the expression.
#[test]
fn the_scan_of_an_expression_has_no_array_in_between() {
    const N: usize = 1 << 18;
    on_each_recorder(|recorder, device| {
        let x = device.full(3u32, N).unwrap();
        let _ = recorder.take();
        let got = (&x - 2).cumsum(0).unwrap();
        let recordings = recorder.take();
        let all: Vec<_> = dispatches(&recordings).collect();
        let (last, before) = all.split_last().unwrap();
        assert_eq!(last.kernel.family, Family::Scan);
        assert_eq!(last.outputs.len(), 1);
        for dispatch in before {
            assert!(matches!(dispatch.kernel.family, Family::Reduce | Family::Spine));
            assert!(dispatch.outputs.is_empty());
        }
        assert_same(&values(&got), &(1..=N as u32).collect::<Vec<_>>(), "the running sum");
    });
}

/// A backend before another, which notes how many bytes are asked for.
struct Counting {
    inner: Arc<dyn Backend>,
    largest: AtomicU64,
}

impl Counting {
    fn note(&self, bytes: u64) {
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }
}

impl Backend for Counting {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }
    fn allocate(&self, bytes: u64) -> kiln::Result<BufferId> {
        self.note(bytes);
        self.inner.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> kiln::Result<BufferId> {
        self.note(data.len() as u64);
        self.inner.upload(data)
    }
    fn release(&self, buffer: BufferId) {
        self.inner.release(buffer);
    }
    fn run(&self, recording: &Recording) -> kiln::Result<()> {
        self.inner.run(recording)
    }
    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        self.inner.read(buffer, bytes)
    }
    fn synchronize(&self) -> Pending<()> {
        self.inner.synchronize()
    }
    fn warm_up(&self) -> WarmUp {
        self.inner.warm_up()
    }
    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        self.inner.warm(kernels)
    }
}

/// No memory of an expression's size is asked for when it is reduced, whatever it broadcasts to.
#[test]
fn reductions_of_expressions_allocate_little() {
    const N: usize = 2048;
    on_each_backend(|device| {
        let counting = Arc::new(Counting { inner: Arc::clone(device.backend()), largest: AtomicU64::new(0) });
        let device = Device::new(Arc::<Counting>::clone(&counting));
        let x = array(&device, &[1.0f32; N], [N, 1]);
        let y = array(&device, &[2.0f32; N], N);
        let table = || (&x + &y) * 0.5;
        let whole = (N * N * 4) as u64;
        for (what, total) in [
            ("whole", table().sum(..)),
            ("rows", table().sum(1)),
            ("columns", table().sum(0)),
            ("maximum", table().max(..)),
            ("mean", table().mean(..)),
        ] {
            assert!(total.is_ok(), "{what}: {total:?}");
            let largest = counting.largest.load(Ordering::Relaxed);
            assert!(largest * 16 <= whole, "{what}: {largest} bytes for an expression of {whole}");
        }
        assert_eq!(table().sum(..).unwrap().item().unwrap(), (N * N) as f32 * 1.5);
    });
}

/// Shapes and scalars are parameters: a thousand of each compile a handful of kernels.
#[test]
fn a_thousand_shapes_and_scalars_need_few_kernels() {
    on_each_backend(|device| {
        // Nothing is computed, so that a thousand shapes of any size are quick.
        let recorder = Recorder::new(device.caps().clone());
        let device = recorder.device();
        let mut rng = Rng(11);
        for _ in 0..1000 {
            let x = device.zeros::<f32>(rng.below(1 << 20) + 1).unwrap();
            let _ = (&x + &x).eval().unwrap();
        }
        let one = keys(&recorder.take());
        assert!(one.len() <= 2, "lengths: {one:?}");

        let x = device.zeros::<f32>(1000).unwrap();
        let _ = recorder.take();
        for _ in 0..1000 {
            let _ = (&x * f32::from_bits(rng.next() as u32)).eval().unwrap();
        }
        assert_eq!(keys(&recorder.take()).len(), 1, "scalars");

        // Per axis: whatever the lengths, a kernel per access class and pass.
        let mut sums: BTreeMap<isize, BTreeSet<KernelKey>> = BTreeMap::new();
        for _ in 0..1000 {
            let shape = [rng.below(900) + 2, rng.below(900) + 2];
            let x = device.zeros::<f32>(shape).unwrap();
            for axis in [0, 1] {
                let _ = recorder.take();
                let _ = x.sum(axis).unwrap();
                sums.entry(axis).or_default().extend(keys(&recorder.take()));
            }
        }
        for (axis, keys) in sums {
            assert!(keys.len() <= 6, "sums over axis {axis}: {}", keys.len());
        }
    });
}

/// Equal statements have equal kernels, whatever came before; the recording reads as text.
#[test]
fn recordings_are_stable_and_readable() {
    let run = || {
        let recorder = Recorder::new(Recorder::gpu_caps());
        let device = recorder.device();
        let x = device.zeros::<f32>([300, 2000]).unwrap();
        let _ = (&x * 2.0).sum(1).unwrap();
        let _ = x.cumsum(0).unwrap();
        recorder.take()
    };
    let (first, second) = (run(), run());
    let text = |recordings: &[Recording]| -> String { recordings.iter().map(ToString::to_string).collect() };
    assert_eq!(text(&first), text(&second));
    assert!(text(&first).contains("reduce.sum.f32"), "{}", text(&first));
    let keys =
        |recordings: &[Recording]| -> Vec<KernelKey> { kernels(recordings).map(|kernel| kernel.key()).collect() };
    assert_eq!(keys(&first), keys(&second));
}
