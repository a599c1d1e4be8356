//! What is drawn for a statement: shapes, views, values, axes, and now and then something that must be an error.
//!
//! Two streams of numbers decide: `form` what makes another kernel (ranks, kinds of views, axes), `fill` the rest.

use kiln::SliceItem;

use crate::oracle::{Host, broadcast, size};
use crate::program::{Statement, Type};
use crate::random::Rng;

/// One view.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Slice(Vec<SliceItem>),
    Permute(Vec<isize>),
    Transpose,
    Reverse(isize),
    Broadcast(Vec<usize>),
    Reshape(Vec<usize>),
}

/// Kinds of values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Whole numbers from −4 to 4.
    Small,
    /// Numbers of many sizes.
    Wide,
    /// The ends of the type, zeros, NaN, subnormals among others.
    Edges,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The result of an earlier statement.
    Earlier(usize),
    New {
        shape: Vec<usize>,
        values: Values,
        seed: u64,
        /// So many values are given, and not as many as the shape has elements.
        given: Option<usize>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) source: Source,
    pub(crate) views: Vec<View>,
}

/// Operators that are errors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Misuse {
    Array,
    Argument,
}

#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) operands: Vec<Operand>,
    pub(crate) scalars: Vec<u32>,
    /// `None` for all.
    pub(crate) axes: Option<Vec<isize>>,
    pub(crate) keep: bool,
    pub(crate) initial: u32,
    pub(crate) misuse: Option<Misuse>,
}

/// What is made wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Axis,
    Repeated,
    Shape,
    View,
    Length,
    Operator,
    Large,
}

const FAULTS: [Fault; 7] =
    [Fault::Axis, Fault::Repeated, Fault::Shape, Fault::View, Fault::Length, Fault::Operator, Fault::Large];

/// A value of a type; floats that are not small may be anything where the device keeps all rules.
pub(crate) fn value(random: &mut Rng, ty: Type, values: Values) -> u32 {
    let small = random.between(-4, 4) as i32;
    let edge = random.one_in(3);
    match (ty, values) {
        (Type::Bool, _) => u32::from(random.one_in(2)),
        (Type::F32, Values::Small) => (small as f32).to_bits(),
        (Type::F32, Values::Edges) if edge => {
            let edges = [
                f32::NAN,
                f32::INFINITY,
                f32::NEG_INFINITY,
                -0.0,
                0.0,
                f32::MAX,
                f32::MIN_POSITIVE,
                f32::from_bits(1),
                f32::from_bits(0x807f_ffff),
                2_147_483_648.0,
                -2_147_483_904.0,
                4_294_967_296.0,
            ];
            random.pick(&edges).to_bits()
        }
        // Magnitudes from 2^-12 to 2^12: sums round, and depend on the order.
        (Type::F32, _) => (random.word() & 0x807f_ffff) | ((127 - 12 + random.below(24) as u32) << 23),
        (Type::U32, Values::Small) => small.unsigned_abs(),
        (_, Values::Small) => small.cast_unsigned(),
        (_, Values::Edges) if edge => random.pick(&[0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, u32::MAX - 1, 1 << 16]),
        _ => (random.word().cast_signed() >> random.below(32)).cast_unsigned(),
    }
}

const EDGES: [usize; 20] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511];
const LONG: [usize; 8] = [1023, 1025, 4095, 4097, 8193, 16_384, 16_385, 32_769];

fn length(random: &mut Rng) -> usize {
    match random.below(40) {
        0 => 0,
        1..=4 => 1,
        5..=9 => random.pick(&EDGES),
        10..=12 => random.pick(&LONG),
        13..=16 => 1 + random.below(600),
        _ => 2 + random.below(5),
    }
}

/// The number of elements of a shape but for its zeros.
fn room(shape: &[usize]) -> usize {
    shape.iter().filter(|&&len| len > 0).product()
}

fn shape(form: &mut Rng, fill: &mut Rng, most: usize) -> Vec<usize> {
    let rank = form.pick(&[0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]);
    let mut shape: Vec<usize> = (0..rank).map(|_| length(fill)).collect();
    while room(&shape) > most {
        if let Some(longest) = shape.iter_mut().max() {
            *longest = *longest / 2 + *longest % 3;
        }
    }
    shape
}

/// Another shape of the same size: neighbours merged, an axis split, ones put in and taken out.
fn regrouped(form: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let mut out = shape.to_vec();
    if out.len() > 1 && !form.one_in(3) {
        let at = form.below(out.len() - 1);
        out[at] *= out[at + 1];
        out.remove(at + 1);
    }
    if !out.is_empty() && out.len() < 5 {
        let at = form.below(out.len());
        if let Some(part) = (2..8).rev().find(|part| out[at] > 0 && out[at].is_multiple_of(*part)) {
            out[at] /= part;
            out.insert(at + form.below(2), part);
        }
    }
    if form.one_in(3) {
        if let Some(at) = out.iter().position(|&len| len == 1) {
            out.remove(at);
        } else if out.len() < 5 {
            out.insert(form.below(out.len() + 1), 1);
        }
    }
    out
}

/// A range of `n` elements, `step` apart, of an axis whose length is returned with it.
fn range(fill: &mut Rng, n: usize, step: isize) -> (usize, SliceItem) {
    let gap = step.unsigned_abs();
    let (low, high) = (fill.below(4), fill.below(4));
    if n == 0 {
        let len = fill.below(5);
        let at = fill.between(-6, 6);
        return (len, SliceItem::Range { start: Some(at), stop: Some(at), step });
    }
    let span = (n - 1) * gap + 1;
    let len = low + span + high;
    let from_end = |fill: &mut Rng, at: usize| {
        if at < len && fill.one_in(2) { at as isize - len as isize } else { at as isize }
    };
    let inclusive = fill.one_in(4);
    let first = if step > 0 { low } else { low + span - 1 };
    let open = if step > 0 { low == 0 } else { high == 0 };
    let start = if open && fill.one_in(2) { None } else { Some(from_end(fill, first)) };
    let skip = fill.below(gap);
    let item = if inclusive {
        let last = if step > 0 { low + span - 1 + skip } else { low.saturating_sub(skip) };
        SliceItem::Inclusive { start, last: from_end(fill, last), step }
    } else if step > 0 {
        let stop = low + span + skip;
        let open = stop >= len && fill.one_in(2);
        SliceItem::Range { start, stop: if open { None } else { Some(from_end(fill, stop)) }, step }
    } else {
        // Before the first element there is no index that does not count from the end.
        let stop = if skip + 1 > low { None } else { Some(from_end(fill, low - skip - 1)) };
        SliceItem::Range { start, stop, step }
    };
    (len, item)
}

const STEPS: [isize; 7] = [1, 1, -1, 2, -2, 3, -5];

/// A view that gives this shape, and the shape that it is taken of.
fn before(form: &mut Rng, fill: &mut Rng, shape: &[usize], most: usize) -> (Vec<usize>, View) {
    let rank = shape.len();
    match form.below(8) {
        0 => (shape.iter().rev().copied().collect(), View::Transpose),
        1 => {
            let axes = form.permutation(rank);
            let mut prior = vec![0; rank];
            for (to, &from) in axes.iter().enumerate() {
                prior[from] = shape[to];
            }
            (prior, View::Permute(axes.iter().map(|&axis| fill.axis(axis, rank)).collect()))
        }
        2 if rank > 0 => {
            let axis = form.below(rank);
            (shape.to_vec(), View::Reverse(fill.axis(axis, rank)))
        }
        3 => {
            let mut prior = shape[form.below(rank / 2 + 1)..].to_vec();
            for len in &mut prior {
                if form.one_in(3) {
                    *len = 1;
                }
            }
            (prior, View::Broadcast(shape.to_vec()))
        }
        4 => (regrouped(form, shape), View::Reshape(shape.to_vec())),
        _ => {
            let (mut prior, mut items) = (Vec::new(), Vec::new());
            for &n in shape {
                if prior.len() < 5 && form.one_in(8) {
                    let len = 1 + fill.below(3);
                    let at = fill.below(len);
                    prior.push(len);
                    items.push(SliceItem::Index(fill.axis(at, len)));
                }
                let (len, item) = range(fill, n, form.pick(&STEPS));
                prior.push(len);
                items.push(item);
            }
            if room(&prior) > 4 * most {
                return (shape.to_vec(), View::Slice(Vec::new()));
            }
            (prior, View::Slice(items))
        }
    }
}

/// A view of this shape, of any kind.
fn after(form: &mut Rng, fill: &mut Rng, shape: &[usize], most: usize) -> View {
    let rank = shape.len();
    match form.below(8) {
        0 => View::Transpose,
        1 => View::Permute(form.permutation(rank).into_iter().map(|axis| fill.axis(axis, rank)).collect()),
        2 if rank > 0 => {
            let axis = form.below(rank);
            View::Reverse(fill.axis(axis, rank))
        }
        3 => {
            let mut target = shape.to_vec();
            for len in target.iter_mut().filter(|len| **len == 1) {
                *len = fill.pick(&[0, 1, 2, 3, 5, 33]);
            }
            if rank < 5 {
                target.insert(0, fill.pick(&[1, 2, 3, 7]));
            }
            View::Broadcast(if room(&target) > most { shape.to_vec() } else { target })
        }
        4 => View::Reshape(regrouped(form, shape)),
        _ => {
            let mut items = Vec::new();
            for &len in shape.iter().take(form.below(rank + 1)) {
                let n = len as isize;
                let mut end = || (!fill.one_in(3)).then(|| fill.between(-n - 2, n + 2));
                let (start, stop) = (end(), end());
                items.push(if len > 0 && form.one_in(6) {
                    SliceItem::Index(fill.between(-n, n - 1))
                } else if let Some(last) = stop.filter(|_| fill.one_in(4)) {
                    SliceItem::Inclusive { start, last, step: form.pick(&STEPS) }
                } else if form.one_in(2) {
                    SliceItem::Range { start, stop: None, step: form.pick(&STEPS) }
                } else {
                    SliceItem::Range { start, stop, step: form.pick(&STEPS) }
                });
            }
            View::Slice(items)
        }
    }
}

/// A view that does not fit this shape, most of the time.
fn wrong(fill: &mut Rng, shape: &[usize]) -> View {
    let rank = shape.len();
    let n = shape.first().map_or(0, |&len| len as isize);
    let whole = SliceItem::Range { start: None, stop: None, step: 1 };
    match fill.below(8) {
        0 => View::Slice(vec![whole; rank + 1]),
        1 => View::Slice(vec![SliceItem::Index(fill.pick(&[n, -n - 1, isize::MIN, isize::MAX]))]),
        2 => View::Slice(vec![SliceItem::Range { start: None, stop: Some(1), step: 0 }]),
        3 => View::Permute(vec![0; rank + fill.below(2)]),
        4 => View::Permute((1..=rank as isize).collect()),
        5 => View::Reverse(fill.pick(&[rank as isize, -1 - rank as isize, isize::MIN])),
        6 => View::Reshape(shape.iter().copied().chain([2]).collect()),
        _ if fill.one_in(3) && !shape.contains(&0) => View::Broadcast([&[1 << 40, 1 << 40][..], shape].concat()),
        _ => View::Broadcast(shape.iter().map(|&len| len + 1).collect()),
    }
}

impl Draw {
    /// The axis of a scan.
    pub(crate) fn axis(&self) -> isize {
        self.axes.as_ref().and_then(|axes| axes.first().copied()).unwrap_or(0)
    }

    /// What a statement gets after those before it gave `results`. `exact` where floats may be any.
    pub(crate) fn random(
        form: &mut Rng,
        fill: &mut Rng,
        statement: &Statement,
        results: &[Option<Host>],
        exact: bool,
    ) -> Self {
        let most = if fill.one_in(8) { 40_000 } else { 1500 };
        let fault = fill.one_in(8).then(|| fill.pick(&FAULTS));
        let mut operands = Vec::new();
        let mut whole: Vec<usize> = Vec::new();
        for (at, &ty) in statement.operands.iter().enumerate() {
            let kind = if exact { fill.pick(&[Values::Small, Values::Wide, Values::Edges]) } else { Values::Small };
            let seed = fill.next() >> 32;
            let new = |shape| Source::New { shape, values: kind, seed, given: None };
            let (source, views) = if at == 0 {
                let earlier = results.iter().rposition(|result| result.as_ref().is_some_and(|host| host.ty == ty));
                let (source, base) = match earlier.filter(|_| statement.chained) {
                    Some(at) => (Source::Earlier(at), results[at].as_ref().map_or(Vec::new(), |x| x.shape.clone())),
                    None => {
                        let base = shape(form, fill, most);
                        (new(base.clone()), base)
                    }
                };
                let mut views: Vec<View> = Vec::new();
                whole = base;
                for _ in 0..form.below(4) {
                    let view = after(form, fill, &whole, most);
                    // The oracle knows the shape of a view.
                    if let Ok(shape) = Host::empty(ty, &whole).view_shape(&view) {
                        whole = shape;
                        views.push(view);
                    }
                }
                (source, views)
            } else {
                let mut target = whole.clone();
                let dropped = if form.one_in(4) { form.below(target.len() + 1) } else { 0 };
                target.drain(..dropped);
                for len in &mut target {
                    let (ones, other) = (form.one_in(5), length(fill).min(9));
                    if ones {
                        *len = 1;
                    } else if *len == 1 && form.one_in(3) && room(&whole) * 9 < most {
                        *len = other;
                    }
                }
                if fault == Some(Fault::Shape) && !target.is_empty() {
                    let at = fill.below(target.len());
                    target[at] += 1 + fill.below(2);
                }
                if fault == Some(Fault::Shape) || broadcast(&whole, &target).is_none_or(|all| room(&all) <= 4 * most) {
                    whole = broadcast(&whole, &target).unwrap_or(whole);
                } else {
                    target.clone_from(&whole);
                }
                let mut views = Vec::new();
                for _ in 0..form.below(4) {
                    let (prior, view) = before(form, fill, &target, most);
                    target = prior;
                    views.push(view);
                }
                views.reverse();
                (new(target), views)
            };
            operands.push(Operand { source, views });
        }
        let scalars = statement.scalars.iter().map(|&(ty, fixed)| {
            let kind = if exact { fill.pick(&[Values::Small, Values::Edges]) } else { Values::Small };
            fixed.unwrap_or_else(|| value(fill, ty, kind))
        });
        let scalars = scalars.collect();
        let rank = whole.len();
        let count = if statement.end.is_scan() { 1 } else { form.below(rank + 1) };
        let axes: Vec<isize> = form.permutation(rank).into_iter().take(count).map(|at| fill.axis(at, rank)).collect();
        let all = form.one_in(4) && !statement.end.is_scan();
        let initial = value(fill, statement.tree.ty, if exact { Values::Wide } else { Values::Small });
        let mut draw =
            Self { operands, scalars, axes: (!all).then_some(axes), keep: form.one_in(3), initial, misuse: None };
        if let Some(fault) = fault {
            draw.spoil(fault, fill, statement, rank);
        }
        draw
    }

    fn spoil(&mut self, fault: Fault, fill: &mut Rng, statement: &Statement, rank: usize) {
        let beyond = [rank as isize, -1 - rank as isize, isize::MIN, isize::MAX];
        match fault {
            Fault::Axis => self.axes = Some(vec![fill.pick(&beyond)]),
            Fault::Repeated if rank > 0 && !statement.end.is_scan() => {
                self.axes = Some(vec![0, -1, -(rank as isize), fill.pick(&beyond)]);
            }
            Fault::View => {
                let at = fill.below(self.operands.len());
                if let Some(Operand { source: Source::New { shape, .. }, views }) = self.operands.get_mut(at) {
                    views.insert(0, wrong(fill, shape));
                }
            }
            Fault::Length => {
                for operand in &mut self.operands {
                    if let Source::New { shape, given, .. } = &mut operand.source {
                        *given = Some((size(shape) + 1) / (1 + fill.below(3)));
                    }
                }
            }
            Fault::Operator if statement.end.operator().is_some() && !self.operands.is_empty() => {
                self.misuse = Some(if fill.one_in(2) { Misuse::Array } else { Misuse::Argument });
            }
            // The operands against each other have more elements than an array may, or than combine into one.
            Fault::Large => {
                self.axes = self.axes.take().filter(|_| statement.end.is_scan());
                let shapes: [&[usize]; 2] = [&[50_000, 1], &[1, 50_000]];
                for (at, operand) in self.operands.iter_mut().enumerate() {
                    let (shape, values) = (shapes[at % 2].to_vec(), Values::Small);
                    *operand =
                        Operand { source: Source::New { shape, values, seed: 1, given: None }, views: Vec::new() };
                }
            }
            _ => {}
        }
    }
}
