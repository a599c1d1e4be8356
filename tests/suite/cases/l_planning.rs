//! Group (l): expressions of many operands, of more elements than could be stored, and what limits say.

use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln_array::recorder::Recorder;

use crate::harness::{array, line, long_case, on_each_backend, values};

/// The least of three times.
fn least(work: impl Fn()) -> Duration {
    let time = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(|_| time()).min().unwrap_or_default()
}

/// The sum of `count` slices of `len` elements, each shifted by one.
fn shifted(x: &Array<i32>, count: usize, len: usize) -> Expr<i32> {
    let slice = |at: usize| x.slice(s![at..at + len]).unwrap().to_expr();
    (1..count).fold(slice(0), |sum, at| sum + slice(at))
}

#[test]
fn l02_a_sum_of_many_slices() {
    on_each_backend(|device| {
        let x = device.full(1i32, 20_000).unwrap();
        let start = Instant::now();
        let got = values(&shifted(&x, 1500, 18_000).eval().unwrap());
        println!("1,500 slices on {}: {:?}", device.info(), start.elapsed());
        assert!(got.iter().all(|&v| v == 1500), "{:?}", &got[..5]);
    });
}

#[test]
fn l02_a_sum_of_many_arrays() {
    on_each_backend(|device| {
        let arrays: Vec<_> = (0..1600).map(|k| line(device, &[k, 1, -k])).collect();
        let start = Instant::now();
        let sum = arrays[1..].iter().fold(arrays[0].to_expr(), |sum, x| sum + x);
        let got = values(&sum.eval().unwrap());
        println!("1,600 arrays on {}: {:?}", device.info(), start.elapsed());
        assert_eq!(got, [1600 * 1599 / 2, 1600, -1600 * 1599 / 2]);
        assert_eq!(sum.sum(..).unwrap().item().unwrap(), 1600);
    });
}

#[test]
fn l02_many_slices_many_times() {
    on_each_backend(|device| {
        let x = line(device, &(0..2000).collect::<Vec<i32>>());
        let sum = shifted(&x, 512, 1000);
        let want: Vec<i32> = (0..1000).map(|k| 512 * k + 512 * 511 / 2).collect();
        let start = Instant::now();
        for round in 0..100 {
            let got = sum.eval().unwrap();
            if round % 20 == 0 {
                assert_eq!(values(&got), want);
            }
        }
        println!("100 rounds of 512 slices on {}: {:?}", device.info(), start.elapsed());
    });
}

/// Twice the operands take about twice the time to plan, whatever they are and however many a kernel binds.
#[test]
fn l02_planning_is_linear() {
    for max_operands in [8, 64, 4096] {
        let recorder = Recorder::new(kiln_array::Caps { max_operands, ..Recorder::gpu_caps() });
        let device = recorder.device();
        let x = device.zeros::<i32>(20_000).unwrap();
        let arrays: Vec<_> = (0..1500).map(|_| device.zeros::<i32>(100).unwrap()).collect();
        for slices in [true, false] {
            let plan = |count: usize| {
                let sum = match slices {
                    true => shifted(&x, count, 10_000),
                    false => arrays[1..count].iter().fold(arrays[0].to_expr(), |sum, x| sum + x),
                };
                let time = least(|| drop(sum.eval().unwrap()));
                drop(recorder.take());
                time
            };
            let (few, many) = (plan(512), plan(1500));
            println!("{max_operands} operands of a kernel, slices: {slices}; 512 take {few:?}, 1500 {many:?}");
            // An optimised build may take 2 and 10 ms; tests are not optimised, and share the machine.
            assert!(few < Duration::from_millis(200), "512 operands plan in {few:?}");
            assert!(many < Duration::from_millis(600), "1,500 operands plan in {many:?}");
        }
    }
}

/// Arrays and constants are no operations, and a kernel that is cut is no limit.
#[test]
fn l02_the_limit_counts_operations() {
    let device = kiln::Options::new().backend(kiln::Backend::Cpu).open().unwrap();
    let x = line(&device, &[1u32, 2, 3]);
    let chain = |count: u32| (0..count).fold(x.to_expr(), |e, k| e + k);
    let want = |k: u32| k + 2600 * 2599 / 2;
    assert_eq!(values(&chain(2600).eval().unwrap()), [want(1), want(2), want(3)]);
    let error = chain(5000).eval().unwrap_err().to_string();
    assert!(error.contains("needs 5000 operations") && error.contains("4096"), "{error}");
    let y = device.full(1i32, 6000).unwrap();
    let got = values(&shifted(&y, 5000, 1000).eval().unwrap());
    assert!(got.iter().all(|&v| v == 5000), "{:?}", &got[..5]);
}

/// Sums of `width` neighbours of `count` arrays, and a ladder over them: nodes with many parents, each of which reads
/// what others read.
fn ladder(device: &Device, count: usize, width: usize) {
    let arrays: Vec<_> = (0..count as u32).map(|k| line(device, &[k, 3 * k + 1])).collect();
    let sum = |some: &[Array<u32>]| some[1..].iter().fold(some[0].to_expr(), |sum, x| sum + x);
    let sums: Vec<Expr<u32>> = arrays.windows(width).map(sum).collect();
    let ladder = sums[1..].iter().fold(sums[0].clone(), |all, sum| (&all ^ sum) + &all * 3 + &sums[0]);
    let want = |factor: usize, plus: usize| -> u32 {
        let sum = |k: usize| (k..k + width).map(|k| (factor * k + plus) as u32).sum::<u32>();
        let sums: Vec<u32> = (0..=count - width).map(sum).collect();
        let step = |all: u32, &sum: &u32| (all ^ sum).wrapping_add(all.wrapping_mul(3)).wrapping_add(sums[0]);
        sums[1..].iter().fold(sums[0], step)
    };
    assert_eq!(values(&ladder.eval().unwrap()), [want(1, 0), want(3, 1)], "{count} arrays, windows of {width}");
    assert_eq!(ladder.min(..).unwrap().item().unwrap(), want(1, 0).min(want(3, 1)));
}

#[test]
fn l02_shared_parts_are_cut_rightly() {
    let cpu = kiln::Options::new().backend(kiln::Backend::Cpu).open().unwrap();
    for width in [5, 7, 50, 62, 63, 64, 70] {
        ladder(&cpu, 160, width);
    }
    on_each_backend(|device| ladder(device, 70, 6));
}

/// How many of many values are below each of 256 edges, and the ranks of values by all pairs.
fn counts(x: &Array<i32>, edges: &Array<i32>) -> kiln::Result<[Array<u32>; 2]> {
    let below = x.reshape([x.size(), 1])?.lt(&edges.reshape([1, edges.size()])?);
    Ok([below.sum(0)?, below.sum(1)?])
}

#[test]
fn l13_only_what_is_stored_is_limited() {
    for serial_groups in [false, true] {
        let recorder = Recorder::new(kiln_array::Caps { serial_groups, ..Recorder::gpu_caps() });
        let device = recorder.device();
        let x = device.zeros::<i32>(12_000_000).unwrap();
        let [by_edge, by_value] = counts(&x, &device.zeros::<i32>(256).unwrap()).unwrap();
        assert_eq!((by_edge.size(), by_value.size()), (256, 12_000_000));
        let some = x.slice(s![..50_000]).unwrap();
        let [ranks, _] = counts(&some, &some).unwrap();
        assert_eq!(ranks.size(), 50_000);
        // Views are as good as expressions.
        let view = some.broadcast_to([50_000, 50_000]).unwrap();
        assert_eq!(view.max(1).unwrap().size(), 50_000);
        let tilings: Vec<_> = recorder.take().iter().flat_map(|r| r.dispatches.clone()).map(|d| d.tiling).collect();
        let most = tilings.iter().map(|tiling| tiling.length * tiling.lines).max();
        assert!(most >= Some(3_072_000_000), "{most:?}");
        assert!(tilings.iter().all(|tiling| tiling.groups() < 1 << 31 && tiling.length < 1 << 31));
        // What would have to be stored is refused, and so is a line that kernels cannot count.
        let wide = || some.reshape([50_000, 1]).unwrap().lt(&some);
        for error in [wide().eval().unwrap_err(), wide().cummax(0).unwrap_err()] {
            assert!(error.to_string().contains("2500000000 elements of one array"), "{error}");
        }
        let error = wide().sum(..).unwrap_err().to_string();
        assert!(error.contains("2500000000 elements combined into one"), "{error}");
    }
}

#[test]
fn l13_more_pairs_than_kernels_count() {
    long_case("L13", "compares 11,000 million pairs", |device| {
        let numbers: Vec<i32> = (0..50_000).map(|k| k * 7919 % 50_000).collect();
        let x = line(device, &numbers);
        let [over, ranks] = counts(&x, &x).unwrap();
        assert!(values(&over) == numbers.iter().map(|&v| v as u32).collect::<Vec<_>>());
        assert!(values(&ranks) == numbers.iter().map(|&v| 49_999 - v as u32).collect::<Vec<_>>());
        let many: Vec<i32> = (0..12_000_000).map(|k| k % 1000).collect();
        let edges: Vec<i32> = (0..256).map(|k| 4 * k).collect();
        let [by_edge, by_value] = counts(&line(device, &many), &line(device, &edges)).unwrap();
        let below: Vec<u32> = edges.iter().map(|&edge| edge.min(1000) as u32 * 12_000).collect();
        assert_eq!(values(&by_edge), below);
        // Edges above v: those from 4 * (v / 4 + 1) on.
        assert!(values(&by_value) == many.iter().map(|&v| 255 - v as u32 / 4).collect::<Vec<_>>());
    });
}

#[test]
#[cfg(feature = "wgpu")]
fn l07_running_bools_need_no_wider_memory() {
    const N: usize = 67_108_864;
    let Some((device, queue)) = crate::own_device::open(|_| kiln::wgpu::Limits::default()) else { return };
    let device = kiln::wgpu::from_device(device, queue).unwrap();
    let x = device.full(true, N).unwrap();
    assert!(x.cummax(0).unwrap().all(..).unwrap().item().unwrap());
    let mut some = vec![false; N - 1];
    some[40_000_001] = true;
    let x = line(&device, &some);
    assert_eq!(x.cummax(0).unwrap().sum(..).unwrap().item().unwrap(), (N - 1 - 40_000_001) as u32);
    assert_eq!(x.cummin(0).unwrap().sum(..).unwrap().item().unwrap(), 0);
    // Results that lie apart are made as words first: too many of them are refused by what they are.
    let rows = x.slice(s![..67_108_860]).unwrap().reshape([6_710_886, 10]).unwrap();
    let error = rows.cummax(0).unwrap_err().to_string();
    for word in ["cummax", "268435440 bytes for results of a word each", "134217728"] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// Truth values along every kind of line, packed and not, against a loop.
#[test]
fn l07_running_bools_of_many_shapes() {
    on_each_backend(|device| {
        for (rows, columns) in [(1, 1), (1, 7), (3, 4), (5, 8), (4, 6), (2, 20_000), (1, 70_001), (20_004, 4), (3, 1)] {
            let numbers: Vec<bool> = (0..rows * columns).map(|k| ((k * 40_503) >> 7) % 5 == 0).collect();
            let x = array(device, &numbers, [rows, columns]);
            for axis in [0, 1] {
                let step = if axis == 0 { columns } else { 1 };
                let mut want = numbers.clone();
                for k in 0..want.len() {
                    let first = if axis == 0 { k < columns } else { k % columns == 0 };
                    want[k] ^= !first && want[k - step.min(k)];
                }
                let got = x.scan(axis, |a, b| a ^ b).unwrap();
                assert!(values(&got) == want, "({rows}, {columns}) along {axis}");
            }
        }
    });
}

#[test]
fn l19_too_large_a_shape_is_named() {
    on_each_backend(|device| {
        let large = [1usize << 40, 1 << 40];
        let one = device.full(1u32, ()).unwrap();
        let column = one.broadcast_to([1usize << 40, 1]).unwrap();
        let sum = || &column + one.broadcast_to(1usize << 40).unwrap();
        let errors = [
            ("full", device.full(1.0f32, large).unwrap_err()),
            ("full", device.zeros::<bool>(large).unwrap_err()),
            ("array", device.array(&[1, 2, 3], large).unwrap_err()),
            ("reshape", one.reshape(large).unwrap_err()),
            ("broadcast_to", one.broadcast_to(large).unwrap_err()),
            ("eval", sum().eval().unwrap_err()),
            ("sum", sum().sum(..).unwrap_err()),
            ("mean", sum().mean(..).unwrap_err()),
            ("cumsum", sum().cumsum(0).unwrap_err()),
        ];
        for (op, error) in errors {
            let text = error.to_string();
            assert!(text.starts_with(op) && text.contains("(1099511627776, 1099511627776) is too large"), "{text}");
            assert!(!text.contains("18446744073709551615"), "{text}");
        }
    });
}

/// An error and the line that it has to name.
macro_rules! fails {
    ($call:expr) => {
        (line!(), $call.map(drop).unwrap_err())
    };
}

#[test]
fn l02_errors_name_the_line_of_the_call() {
    on_each_backend(|device| {
        let x = array(device, &[1.0f32; 6], [2, 3]);
        let bad = &x + &x.reshape([3, 2]).unwrap();
        let bad_line = line!() - 1;
        let scalar = || kiln::IntoExpr::<f32>::into_expr(2.0f32);
        let pending = x.read_item();
        let pending_line = line!() - 1;
        let recorder = Recorder::new(Recorder::gpu_caps());
        let unread = recorder.device().zeros::<f32>(3).unwrap();
        let late = unread.read();
        let late_line = line!() - 1;
        let late = late.wait().map(drop).unwrap_err();
        let errors = [
            (bad_line, bad.eval().unwrap_err()),
            (bad_line, bad.sum(..).unwrap_err()),
            (pending_line, pending.wait().unwrap_err()),
            (late_line, late),
            fails!(unread.to_host()),
            fails!(x.sum(2)),
            fails!(x.mean([0, 0])),
            fails!(x.max(-3)),
            fails!(x.reduce(2, |a, b| a + b)),
            fails!(x.reduce(0, |a, _| a + &x.to_expr())),
            fails!(x.reduce_from(0.0, 2, |a, b| a + b)),
            fails!(x.cumsum(2)),
            fails!(x.scan(2, |a, b| a + b)),
            fails!(scalar().eval()),
            fails!(scalar().sum(..)),
            fails!(x.slice(s![7])),
            fails!(x.permute([0, 0])),
            fails!(x.reverse(2)),
            fails!(x.broadcast_to([5, 3])),
            fails!(x.reshape(7)),
            fails!(x.item()),
            fails!(device.array(&[1, 2], 3)),
            fails!(device.full(1, 1usize << 40)),
            fails!(device.zeros::<i32>(1usize << 40)),
        ];
        for (line, error) in errors {
            let at = error.location().unwrap_or_else(|| panic!("no place: {error}"));
            assert_eq!((at.file(), at.line()), (file!(), line), "{error}");
        }
    });
}
