//! ndarray on the same arrays, in the spellings that its users have: its own method, and what rayon makes of it.

use std::hint::black_box;

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, ArrayView1, Axis, Zip};

/// One spelling: its name, and a closure that does it once.
pub(crate) type Spelling<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Arrays of the peer, equal to ours.
pub(crate) struct Peers {
    lines: [Array1<f32>; 4],
    square: Array2<f32>,
    scratch: std::cell::RefCell<Array1<f32>>,
}

/// Elements that one thread takes at a time.
const CHUNK: usize = 1 << 18;

impl Peers {
    pub(crate) fn new(values: &[f32], side: usize) -> Result<Self, String> {
        let line = Array1::from(values.to_vec());
        let square = values.get(..side * side).unwrap_or_default().to_vec();
        let square = Array2::from_shape_vec((side, side), square).map_err(|error| error.to_string())?;
        let lines = [line.clone(), &line * 0.5, &line + 1.0, -&line];
        Ok(Self { lines, square, scratch: line.into() })
    }

    /// What memory gives on all cores: a copy into memory that is there already.
    pub(crate) fn copy(&self) {
        let mut scratch = self.scratch.borrow_mut();
        let pairs = scratch.axis_chunks_iter_mut(Axis(0), CHUNK).into_par_iter().zip(self.chunks());
        pairs.for_each(|(mut to, from)| match (to.as_slice_mut(), from.as_slice()) {
            (Some(to), Some(from)) => to.copy_from_slice(from),
            _ => to.assign(&from),
        });
        black_box(&*scratch);
    }

    /// The same for reading alone: a fold that costs next to nothing.
    pub(crate) fn read(&self) {
        let fold = |chunk: ArrayView1<'_, f32>| {
            let words = chunk.as_slice().unwrap_or_default();
            words.iter().fold(0, |fold, word| fold ^ word.to_bits())
        };
        black_box(self.chunks().map(fold).reduce(|| 0, |a, b| a ^ b));
    }

    fn chunks(&self) -> impl IndexedParallelIterator<Item = ArrayView1<'_, f32>> {
        self.lines[0].axis_chunks_iter(Axis(0), CHUNK).into_par_iter()
    }

    /// The spellings of an operation; none where there is no peer.
    pub(crate) fn spellings(&self, name: &str) -> Vec<Spelling<'_>> {
        let ([a, b, c, d], square) = (&self.lines, &self.square);
        match name {
            "fused" => vec![
                ("plain", Box::new(move || keep((a - b) * c + d))),
                (
                    "Zip, parallel",
                    Box::new(move || {
                        let zip = Zip::from(a).and(b).and(c).and(d);
                        keep(zip.par_map_collect(|a, b, c, d| (a - b) * c + d));
                    }),
                ),
            ],
            "map" => vec![
                ("plain", Box::new(move || keep(a * 2.0 + 1.0))),
                ("parallel", Box::new(move || keep(Zip::from(a).par_map_collect(|x| x * 2.0 + 1.0)))),
            ],
            "max" => vec![
                ("plain", Box::new(move || keep(a.fold(f32::NEG_INFINITY, |max, &x| max.max(x))))),
                (
                    "parallel",
                    Box::new(move || {
                        let largest = |chunk: ArrayView1<'_, f32>| chunk.fold(f32::NEG_INFINITY, |max, &x| max.max(x));
                        keep(self.chunks().map(largest).reduce(|| f32::NEG_INFINITY, f32::max));
                    }),
                ),
            ],
            "sum" => vec![
                ("plain", Box::new(move || keep(a.sum()))),
                ("parallel", Box::new(move || keep(self.chunks().map(|chunk| chunk.sum()).sum::<f32>()))),
            ],
            "sum axis 0" => vec![("plain", Box::new(move || keep(square.sum_axis(Axis(0)))))],
            "sum axis 1" => vec![
                ("plain", Box::new(move || keep(square.sum_axis(Axis(1))))),
                ("Zip, parallel", Box::new(move || keep(Zip::from(square.rows()).par_map_collect(|row| row.sum())))),
            ],
            "cumsum" => vec![(
                "plain",
                Box::new(move || {
                    let mut total = a.clone();
                    total.accumulate_axis_inplace(Axis(0), add);
                    keep(total);
                }),
            )],
            "cumsum axis 0" => vec![("plain", Box::new(move || keep(totals(square, Axis(0)))))],
            "cumsum axis 1" => vec![
                ("plain", Box::new(move || keep(totals(square, Axis(1))))),
                (
                    "rows, parallel",
                    Box::new(move || {
                        let mut total = square.clone();
                        let rows = total.axis_iter_mut(Axis(0)).into_par_iter();
                        rows.for_each(|mut row| row.accumulate_axis_inplace(Axis(0), add));
                        keep(total);
                    }),
                ),
            ],
            _ => Vec::new(),
        }
    }
}

fn totals(square: &Array2<f32>, axis: Axis) -> Array2<f32> {
    let mut total = square.clone();
    total.accumulate_axis_inplace(axis, add);
    total
}

fn add(before: &f32, now: &mut f32) {
    *now += before;
}

/// Makes the result count, and drops it.
fn keep<T>(result: T) {
    black_box(result);
}
