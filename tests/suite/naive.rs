//! The oracle: arrays as vectors, plain loops over indices, sums in `i128` and `f64`. It shares no code with Kiln.

use kiln::SliceItem;

/// An array on the host, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host<T> {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<T>,
}

/// The number of elements of a shape.
pub(crate) fn size(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The number of elements of a shape but for its zeros: what is left when they are reduced away.
pub(crate) fn room(shape: &[usize]) -> usize {
    shape.iter().filter(|&&len| len > 0).product()
}

/// Every index of a shape, in row-major order.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let mut next = (size(shape) > 0).then(|| vec![0; shape.len()]);
    std::iter::from_fn(move || {
        let index = next.clone()?;
        let mut following = index.clone();
        next = None;
        for axis in (0..shape.len()).rev() {
            following[axis] += 1;
            if following[axis] < shape[axis] {
                next = Some(following);
                break;
            }
            following[axis] = 0;
        }
        Some(index)
    })
}

/// The place of an index in row-major order.
fn place(shape: &[usize], index: &[usize]) -> usize {
    assert_eq!(shape.len(), index.len());
    let mut at = 0;
    for (&len, &i) in shape.iter().zip(index) {
        assert!(i < len);
        at = at * len + i;
    }
    at
}

/// The shape that two shapes broadcast to.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let mut out = vec![0; rank];
    for back in 1..=rank {
        let of = |shape: &[usize]| {
            if back <= shape.len() { shape[shape.len() - back] } else { 1 }
        };
        out[rank - back] = match (of(a), of(b)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Some(out)
}

/// The places that a range of a slice takes, as Python's `slice.indices` has them.
pub(crate) fn picked(item: &SliceItem, len: usize) -> Vec<usize> {
    let len = len as i128;
    let (start, stop, step) = match *item {
        SliceItem::Index(index) => {
            let at = if index < 0 { index as i128 + len } else { index as i128 };
            return vec![at as usize];
        }
        SliceItem::Range { start, stop, step } => (start, stop, step as i128),
        // Python has no inclusive ends: such a range is the open one, up to its last place.
        SliceItem::Inclusive { start, last, step } => {
            let last = if last < 0 { last as i128 + len } else { last as i128 };
            let open = picked(&SliceItem::Range { start, stop: None, step }, len as usize);
            let within = |at: &usize| if step > 0 { *at as i128 <= last } else { *at as i128 >= last };
            return open.into_iter().filter(within).collect();
        }
    };
    let end = |given: Option<isize>, default: i128| {
        given.map_or(default, |end| {
            let end = if end < 0 { end as i128 + len } else { end as i128 };
            if step > 0 { end.max(0).min(len) } else { end.max(-1).min(len - 1) }
        })
    };
    let mut at = end(start, if step > 0 { 0 } else { len - 1 });
    let stop = end(stop, if step > 0 { len } else { -1 });
    let mut out = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        out.push(at as usize);
        at += step;
    }
    out
}

impl<T: Copy> Host<T> {
    pub(crate) fn new(shape: &[usize], values: Vec<T>) -> Self {
        assert_eq!(size(shape), values.len());
        Self { shape: shape.to_vec(), values }
    }

    pub(crate) fn at(&self, index: &[usize]) -> T {
        self.values[place(&self.shape, index)]
    }

    /// The array whose value at an index is this one's at `from(index)`.
    fn moved(&self, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let values = indices(&shape).map(|index| self.at(&from(&index))).collect();
        Self { shape, values }
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Self {
        let gap = shape.len() - self.shape.len();
        self.moved(shape.to_vec(), |index| {
            let own = self.shape.iter().enumerate();
            own.map(|(axis, &len)| if len == 1 { 0 } else { index[gap + axis] }).collect()
        })
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        self.moved(shape, |index| {
            let mut from = vec![0; index.len()];
            for (at, &axis) in axes.iter().enumerate() {
                from[axis] = index[at];
            }
            from
        })
    }

    pub(crate) fn slice(&self, items: &[SliceItem]) -> Self {
        let all = SliceItem::Range { start: None, stop: None, step: 1 };
        let item = |axis: usize| items.get(axis).copied().unwrap_or(all);
        let taken: Vec<Vec<usize>> = (0..self.shape.len()).map(|axis| picked(&item(axis), self.shape[axis])).collect();
        let stays = |axis: &usize| !matches!(item(*axis), SliceItem::Index(_));
        let kept: Vec<usize> = (0..self.shape.len()).filter(stays).collect();
        let shape = kept.iter().map(|&axis| taken[axis].len()).collect();
        self.moved(shape, |index| {
            let mut from: Vec<usize> = taken.iter().map(|taken| taken.first().copied().unwrap_or(0)).collect();
            for (at, &axis) in kept.iter().enumerate() {
                from[axis] = taken[axis][index[at]];
            }
            from
        })
    }

    pub(crate) fn reshape(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.values.clone())
    }

    pub(crate) fn map<U: Copy>(&self, f: impl Fn(T) -> U) -> Host<U> {
        Host::new(&self.shape, self.values.iter().map(|&x| f(x)).collect())
    }

    /// Both arrays broadcast, and their values combined.
    pub(crate) fn zip<U: Copy, V: Copy>(&self, other: &Host<U>, f: impl Fn(T, U) -> V) -> Host<V> {
        let shape = broadcast(&self.shape, &other.shape).expect("shapes that broadcast");
        let (a, b) = (self.broadcast_to(&shape), other.broadcast_to(&shape));
        let values = a.values.iter().zip(&b.values).map(|(&x, &y)| f(x, y));
        Host { values: values.collect(), shape }
    }

    /// The elements that each element of a reduction combines, row-major, with the reduction's shape.
    pub(crate) fn lines(&self, axes: &[usize], keep: bool) -> (Vec<usize>, Vec<Vec<T>>) {
        let all: Vec<usize> = (0..self.shape.len()).collect();
        let kept: Vec<usize> = all.iter().copied().filter(|axis| !axes.contains(axis)).collect();
        let walked: Vec<usize> = all.iter().copied().filter(|axis| axes.contains(axis)).collect();
        let lens = |of: &[usize]| -> Vec<usize> { of.iter().map(|&a| self.shape[a]).collect() };
        let (along, across) = (lens(&walked), lens(&kept));
        let lines = indices(&across).map(|outer| {
            indices(&along)
                .map(|inner| {
                    let mut index = vec![0; self.shape.len()];
                    for (&axis, &i) in kept.iter().zip(&outer).chain(walked.iter().zip(&inner)) {
                        index[axis] = i;
                    }
                    self.at(&index)
                })
                .collect()
        });
        let lines = lines.collect();
        let shape = all
            .iter()
            .filter(|axis| keep || kept.contains(axis))
            .map(|axis| if axes.contains(axis) { 1 } else { self.shape[*axis] });
        (shape.collect(), lines)
    }

    /// Each line of the given axes taken to one value.
    pub(crate) fn reduce<U: Copy>(&self, axes: &[usize], keep: bool, f: impl Fn(&[T]) -> U) -> Host<U> {
        let (shape, lines) = self.lines(axes, keep);
        Host::new(&shape, lines.iter().map(|line| f(line)).collect())
    }

    /// Each line along an axis taken to a line of as many values.
    pub(crate) fn scan<U: Copy>(&self, axis: usize, f: impl Fn(&[T]) -> Vec<U>) -> Host<U> {
        let (outer, lines) = self.lines(&[axis], true);
        let lines: Vec<Vec<U>> = lines.iter().map(|line| f(line)).collect();
        let values = indices(&self.shape).map(|mut index| {
            let i = std::mem::replace(&mut index[axis], 0);
            lines[place(&outer, &index)][i]
        });
        Host { values: values.collect(), shape: self.shape.clone() }
    }
}

/// The smaller of two numbers: NaN if either is, −0 before +0.
pub(crate) fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// The larger of two numbers: NaN if either is, +0 after −0.
pub(crate) fn maximum(a: f32, b: f32) -> f32 {
    -minimum(-a, -b)
}

/// The running combination by a step from the left.
pub(crate) fn running<T: Copy, U: Copy>(line: &[T], first: impl Fn(T) -> U, step: impl Fn(U, T) -> U) -> Vec<U> {
    let mut total: Option<U> = None;
    line.iter()
        .map(|&x| {
            let next = match total {
                None => first(x),
                Some(total) => step(total, x),
            };
            total = Some(next);
            next
        })
        .collect()
}
