//! The same bits: sums and running sums on every backend, under every schedule and in every run are those that
//! `kiln::order` defines, for random shapes, axes and views.
//!
//! Each backend's results are digested; the digests of two machines can be compared.

use kiln::prelude::*;
use kiln::{Schedule, order};
use xxhash_rust::xxh3::Xxh3;

use crate::harness::{array, assert_same, backends, bits, keeps_order, report, values, where_order_is_kept};
use crate::inputs::Values;
use crate::naive::size;
use crate::random::Rng;

/// A hash of results.
#[derive(Clone)]
struct Digest(Xxh3);

impl Digest {
    fn new() -> Self {
        Self(Xxh3::new())
    }

    fn add(&mut self, word: u32) {
        self.0.update(&word.to_le_bytes());
    }
}

/// A strided view of a vector: the suite's own arithmetic of views, quick enough for millions of elements.
#[derive(Clone, Debug)]
struct Walk {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
}

impl Walk {
    fn dense(shape: &[usize]) -> Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as isize;
        }
        Self { shape: shape.to_vec(), strides, offset: 0 }
    }

    /// Places of the elements along the given axes, in row-major order.
    fn places(&self, axes: &[usize]) -> Vec<isize> {
        let mut places = vec![0];
        for &axis in axes {
            let steps = (0..self.shape[axis] as isize).map(|i| i * self.strides[axis]);
            let steps: Vec<isize> = steps.collect();
            places = places.iter().flat_map(|&place| steps.iter().map(move |step| place + step)).collect();
        }
        places
    }
}

/// Random views of an array and of its walk, the same ones.
fn view<T: Values>(mut x: Array<T>, mut walk: Walk, rng: &mut Rng) -> (Array<T>, Walk) {
    let rank = walk.shape.len();
    for _ in 0..rng.below(4) {
        let axis = rng.below(rank);
        match rng.below(4) {
            0 => {
                let order = rng.permutation(rank);
                let given: Vec<isize> = order.iter().map(|&axis| axis as isize).collect();
                x = x.permute(given).unwrap();
                walk = Walk {
                    shape: order.iter().map(|&axis| walk.shape[axis]).collect(),
                    strides: order.iter().map(|&axis| walk.strides[axis]).collect(),
                    offset: walk.offset,
                };
            }
            1 => {
                x = x.reverse(axis as isize).unwrap();
                walk.offset += (walk.shape[axis] as isize - 1) * walk.strides[axis];
                walk.strides[axis] *= -1;
            }
            2 => {
                // From `first`, every `step`-th.
                let len = walk.shape[axis];
                let (first, step) = (rng.below(len.min(9)), rng.below(3) + 1);
                let mut items = vec![kiln::SliceItem::from(..); rank];
                items[axis] = kiln::SliceItem::from(first as isize..).step_by(step as isize);
                x = x.slice(items).unwrap();
                walk.offset += first as isize * walk.strides[axis];
                walk.strides[axis] *= step as isize;
                walk.shape[axis] = (len - first).div_ceil(step);
            }
            _ => {
                // An axis of length 1, or a new first one, is stretched.
                let times = rng.below(5) + 1;
                if walk.shape[axis] == 1 {
                    walk.shape[axis] = times;
                    walk.strides[axis] = 0;
                    x = x.broadcast_to(&walk.shape[..]).unwrap();
                }
            }
        }
    }
    (x, walk)
}

/// One random shape with a view and an axis, and what its sums are by definition.
struct Case<T> {
    data: Vec<T>,
    base: Vec<usize>,
    seed: u64,
    axis: usize,
    whole: bool,
    sums: Vec<T>,
    running: Vec<T>,
}

/// What a case adds with.
type Add<T> = fn(&T, &T) -> T;

impl<T: Values> Case<T> {
    fn new(base: &[usize], seed: u64, add: Add<T>) -> Self {
        let data = T::host(base, seed).values;
        let mut rng = Rng(seed ^ 0xb175);
        // The views of any device: metadata only.
        let cpu = backends().iter().find_map(|tested| tested.device.as_ref().ok()).expect("a backend");
        let (_, walk) = view(cpu.zeros::<T>(base).unwrap(), Walk::dense(base), &mut rng.clone());
        let axis = rng.below(walk.shape.len());
        let whole = rng.below(4) == 0;
        let at = |place: isize| data[(walk.offset + place) as usize];
        let all: Vec<usize> = (0..walk.shape.len()).collect();
        let across: Vec<usize> = all.iter().copied().filter(|&other| other != axis).collect();
        let along = walk.places(&[axis]);
        let lines = walk.places(&across);
        let line = |start: isize| along.iter().map(|step| at(start + step)).collect::<Vec<T>>();
        let mut add = add;
        let sums = if whole {
            let everything: Vec<T> = walk.places(&all).into_iter().map(at).collect();
            order::total(&everything, &mut add).into_iter().collect()
        } else {
            let total = |&start: &isize| order::total(&line(start), &mut { add }).expect("values");
            lines.iter().map(total).collect()
        };
        // Scattered to row-major order of the view.
        let row_major = Walk::dense(&walk.shape);
        let (out_along, out_lines) = (row_major.places(&[axis]), row_major.places(&across));
        let mut running = data.clone();
        running.resize(size(&walk.shape), data[0]);
        for (start, out_start) in lines.iter().zip(out_lines) {
            let values = order::running(&line(*start), &mut add);
            for (value, step) in values.into_iter().zip(&out_along) {
                running[(out_start + step) as usize] = value;
            }
        }
        Self { data, base: base.to_vec(), seed, axis, whole, sums, running }
    }

    /// Runs the case on a device; digests what it gives.
    fn check(&self, device: &Device, digest: &mut Digest)
    where
        Array<T>: Reduce<Elem = T> + Scan<Elem = T>,
        T: kiln::Element<Sum = T>,
    {
        let mut rng = Rng(self.seed ^ 0xb175);
        let x = array(device, &self.data, &self.base[..]);
        let (x, _) = view(x, Walk::dense(&self.base), &mut rng);
        let axis = self.axis as isize;
        let what =
            format!("{} {} with strides {:?}, axis {axis}, seed {:#x}", T::DTYPE, x.shape(), x.strides(), self.seed);
        let sums = if self.whole { x.sum(..) } else { x.sum(axis) };
        let sums = values(&sums.unwrap());
        assert_same(&sums, &self.sums, &format!("sum of {what}"));
        let running = values(&x.cumsum(axis).unwrap());
        assert_same(&running, &self.running, &format!("cumsum of {what}"));
        for value in sums.into_iter().chain(running) {
            digest.add(bits(value));
        }
    }
}

/// A random shape of rank 1 to 4 with about `2^log` elements.
fn shape(rng: &mut Rng, log: u32) -> Vec<usize> {
    let rank = rng.below(4) + 1;
    let mut parts = vec![0; rank];
    for _ in 0..log {
        parts[rng.below(rank)] += 1;
    }
    let mut shape: Vec<usize> = parts
        .iter()
        .map(|&part| {
            // Up to an eighth below or above a power of two.
            let len = 1usize << part;
            (len + rng.below(len / 4 + 2) - len / 8).max(1)
        })
        .collect();
    while size(&shape) > 1 << 22 {
        if let Some(longest) = shape.iter_mut().max() {
            *longest -= *longest / 8 + 1;
        }
    }
    shape
}

/// Runs one case of each seed on every backend, of the element type that `choose` gives.
fn compare(name: &str, seeds: &[u64], log: impl Fn(&mut Rng, usize) -> u32, schedules: usize) {
    let devices: Vec<(&str, &Device)> =
        backends().iter().filter_map(|tested| Some((tested.name, tested.device.as_ref().ok()?))).collect();
    assert!(!devices.is_empty(), "no backend could be opened");
    let (devices, others): (Vec<_>, Vec<_>) = devices.into_iter().partition(|(_, device)| keeps_order(device));
    for (backend, _) in others {
        report(&format!("not run: case {name} shapes on {backend} (its compiler regroups additions)"));
    }
    if devices.is_empty() {
        return;
    }
    let mut digests = vec![Digest::new(); devices.len()];
    let mut comparisons = 0;
    for (at, &seed) in seeds.iter().enumerate() {
        let mut rng = Rng(seed);
        let log = log(&mut rng, at);
        let base = shape(&mut rng, log);
        macro_rules! run {
            ($ty:ty, $add:expr) => {{
                let case = Case::<$ty>::new(&base, seed, $add);
                for ((name, device), digest) in devices.iter().zip(&mut digests) {
                    eprintln_on_panic(name, || case.check(device, digest));
                    for _ in 0..schedules {
                        let schedule = Schedule {
                            log_slots: Some(5 + rng.below(8) as u32),
                            line_fastest: rng.pick(&[None, Some(false), Some(true)]),
                        };
                        let forced = device.with_schedule(schedule);
                        let what = format!("{name}, {schedule:?}");
                        eprintln_on_panic(&what, || case.check(&forced, &mut Digest::new()));
                    }
                    comparisons += 2 * (1 + schedules);
                }
            }};
        }
        match at % 4 {
            0 | 1 => run!(f32, |a, b| a + b),
            2 => run!(i32, |a, b| a.wrapping_add(*b)),
            _ => run!(u32, |a, b| a.wrapping_add(*b)),
        }
    }
    for ((backend, _), digest) in devices.iter().zip(&digests) {
        report(&format!(
            "bits: {backend}: {} {name} shapes, {comparisons} comparisons in all, digest {:#018x}",
            seeds.len(),
            digest.0.digest()
        ));
        assert_eq!(digest.0.digest(), digests[0].0.digest(), "the digests of the backends");
    }
}

fn eprintln_on_panic(what: &str, run: impl FnOnce()) {
    struct Says<'a>(&'a str);
    impl Drop for Says<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("... on {}", self.0);
            }
        }
    }
    let _says = Says(what);
    run();
}

fn seeds(from: u64, count: usize) -> Vec<u64> {
    let mut rng = Rng(from);
    (0..count).map(|_| rng.next()).collect()
}

#[test]
fn two_hundred_small_shapes() {
    compare("small", &seeds(1, 200), |rng, _| rng.below(14) as u32, 2);
}

#[test]
fn twenty_large_shapes() {
    // Two of 2^22 elements, the others from 2^15 on.
    let log = |rng: &mut Rng, at: usize| if at < 2 { 22 } else { 15 + rng.below(6) as u32 };
    compare("large", &seeds(2, 20), log, 0);
}

/// Every schedule that can be forced, on shapes that take several passes.
#[test]
fn every_schedule() {
    where_order_is_kept("every schedule", |device| {
        for (seed, base) in [(1, vec![70_001]), (2, vec![37, 613]), (3, vec![5, 1030, 6]), (4, vec![2050, 3])] {
            let case = Case::<f32>::new(&base, seed, |a, b| a + b);
            for log_slots in 5..=12 {
                for line_fastest in [false, true] {
                    let schedule = Schedule { log_slots: Some(log_slots), line_fastest: Some(line_fastest) };
                    let forced = device.with_schedule(schedule);
                    eprintln_on_panic(&format!("{schedule:?}"), || {
                        case.check(&forced, &mut Digest::new());
                    });
                }
            }
        }
    });
}

#[test]
fn twenty_runs() {
    where_order_is_kept("twenty runs", |device| {
        let case = Case::<f32>::new(&[300, 700], 9, |a, b| a + b);
        for _ in 0..20 {
            case.check(device, &mut Digest::new());
        }
    });
}

/// The definition itself is a sum: it is near the sum in double precision, and depends on the order.
#[test]
fn the_definition_rounds_as_a_tree_does() {
    let line = f32::host(&[10_000], 4).values;
    let tree = order::total(&line, &mut |a, b| a + b).unwrap();
    let serial: f32 = line.iter().sum();
    let exact: f64 = line.iter().map(|&v| f64::from(v)).sum();
    let room: f64 = line.iter().map(|&v| f64::from(v.abs())).sum();
    assert!((f64::from(tree) - exact).abs() <= room * 16.0 * f64::from(f32::EPSILON) / 2.0);
    assert_ne!(tree, serial, "data on which the order does not matter test nothing");
}
