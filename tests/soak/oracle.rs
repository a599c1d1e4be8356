//! The oracle: arrays as vectors of bits, plain loops. It shares no code with Kiln.

use kiln::SliceItem;

use crate::draw::{Draw, Misuse, Operand, Source, View};
use crate::program::{Bin, End, Node, Statement, Tree, Type};
use crate::random::Rng;
use crate::scalars::{binary, cast, function, unary};

/// Why an operation must fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Bad {
    Shapes,
    Length,
    Axis,
    Repeated,
    Permutation,
    Slice,
    Empty,
    NotOne,
    NoArray,
    Operator,
    Limit,
    TooLarge,
}

/// All of them.
pub(crate) const BAD: [Bad; 12] = [
    Bad::Shapes,
    Bad::Length,
    Bad::Axis,
    Bad::Repeated,
    Bad::Permutation,
    Bad::Slice,
    Bad::Empty,
    Bad::NotOne,
    Bad::NoArray,
    Bad::Operator,
    Bad::Limit,
    Bad::TooLarge,
];

/// An array on the host, row-major, a word per element.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) ty: Type,
    pub(crate) shape: Vec<usize>,
    pub(crate) bits: Vec<u32>,
}

/// What a statement gives.
pub(crate) enum Outcome {
    Exact(Host),
    /// The shape, exact values, and the units in the last place that results may be away from them.
    Near(Vec<usize>, Vec<f64>, f64),
}

/// The elements that an array may have.
const MOST: usize = (1 << 31) - 4;

/// The number of elements of a shape.
pub(crate) fn size(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |size, &len| size.saturating_mul(len)) }
}

/// Whether so many elements may be stored or combined into one.
fn few(shape: &[usize]) -> Result<(), Bad> {
    match size(shape) {
        0..=MOST => Ok(()),
        size if size <= isize::MAX as usize => Err(Bad::Limit),
        _ => Err(Bad::TooLarge),
    }
}

/// The shape that two shapes broadcast to.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let of = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|axis| match (of(a, axis), of(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// An axis counted from the front.
fn axis(axis: isize, rank: usize) -> Result<usize, Bad> {
    let at = if axis < 0 { axis as i128 + rank as i128 } else { axis as i128 };
    if (0..rank as i128).contains(&at) { Ok(at as usize) } else { Err(Bad::Axis) }
}

/// The places that an item takes of an axis, and whether the axis stays.
fn picked(item: &SliceItem, len: usize) -> Result<(Vec<usize>, bool), Bad> {
    let len = len as i128;
    let place = |end: isize| if end < 0 { end as i128 + len } else { end as i128 };
    let (start, stop, step) = match *item {
        SliceItem::Index(index) => {
            let at = place(index);
            return if (0..len).contains(&at) { Ok((vec![at as usize], false)) } else { Err(Bad::Slice) };
        }
        SliceItem::Range { start, stop, step } => (start, stop.map(place), step as i128),
        SliceItem::Inclusive { start, last, step } => (start, Some(place(last) + step.signum() as i128), step as i128),
    };
    if step == 0 {
        return Err(Bad::Slice);
    }
    let cut = |end: i128| if step > 0 { end.max(0).min(len) } else { end.max(-1).min(len - 1) };
    let mut at = start.map_or(if step > 0 { 0 } else { len - 1 }, |start| cut(place(start)));
    let stop = stop.map_or(if step > 0 { len } else { -1 }, cut);
    let mut out = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        out.push(at as usize);
        at += step;
    }
    Ok((out, true))
}

/// Each index of a shape in row-major order.
fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..size(shape) {
        visit(&index);
        for at in (0..shape.len()).rev() {
            index[at] += 1;
            if index[at] < shape[at] {
                break;
            }
            index[at] = 0;
        }
    }
}

/// A line's total in Kiln's order: four neighbours left to right, then a balanced tree of neighbours, aligned at the
/// start.
fn total(line: &[u32], combine: &impl Fn(u32, u32) -> u32) -> Option<u32> {
    if line.len() <= 4 {
        return line.iter().copied().reduce(combine);
    }
    let (left, right) = line.split_at(split(line.len()));
    Some(combine(total(left, combine)?, total(right, combine)?))
}

/// The largest aligned block that is less than the whole line.
fn split(len: usize) -> usize {
    let mut block = 4;
    while block * 2 < len {
        block *= 2;
    }
    block
}

/// The totals of all beginnings of a line.
fn running(line: &[u32], combine: &impl Fn(u32, u32) -> u32) -> Vec<u32> {
    if line.len() <= 4 {
        return (1..=line.len()).filter_map(|end| line[..end].iter().copied().reduce(combine)).collect();
    }
    let (left, right) = line.split_at(split(line.len()));
    let mut out = running(left, combine);
    let before = out[out.len() - 1];
    out.extend(running(right, combine).into_iter().map(|x| combine(before, x)));
    out
}

impl Host {
    /// Only a shape.
    pub(crate) fn empty(ty: Type, shape: &[usize]) -> Self {
        Self { ty, shape: shape.to_vec(), bits: Vec::new() }
    }

    pub(crate) fn at(&self, index: &[usize]) -> u32 {
        self.bits[self.shape.iter().zip(index).fold(0, |at, (&len, &i)| at * len + i)]
    }

    /// The shape of a view.
    pub(crate) fn view_shape(&self, view: &View) -> Result<Vec<usize>, Bad> {
        let (shape, rank) = (&self.shape, self.shape.len());
        Ok(match view {
            View::Slice(items) if items.len() > rank => return Err(Bad::Slice),
            View::Slice(items) => {
                let mut out = Vec::new();
                for (at, &len) in shape.iter().enumerate() {
                    match items.get(at).map(|item| picked(item, len)).transpose()? {
                        None => out.push(len),
                        Some((places, true)) => out.push(places.len()),
                        Some(_) => {}
                    }
                }
                out
            }
            View::Permute(axes) if axes.len() != rank => return Err(Bad::Permutation),
            View::Permute(axes) => {
                let mut seen = Vec::new();
                for &given in axes {
                    let at = axis(given, rank)?;
                    if seen.contains(&at) {
                        return Err(Bad::Permutation);
                    }
                    seen.push(at);
                }
                seen.into_iter().map(|at| shape[at]).collect()
            }
            View::Transpose => shape.iter().rev().copied().collect(),
            View::Reverse(at) => axis(*at, rank).map(|_| shape.clone())?,
            View::Broadcast(to) if broadcast(shape, to).as_ref() != Some(to) => return Err(Bad::Shapes),
            View::Broadcast(to) if few(to) == Err(Bad::TooLarge) => return Err(Bad::TooLarge),
            View::Broadcast(to) => to.clone(),
            View::Reshape(to) if size(to) != size(shape) => return Err(Bad::Length),
            View::Reshape(to) => to.clone(),
        })
    }

    /// The array whose element at an index is this one's at `from(index)`.
    fn moved(&self, shape: Vec<usize>, from: impl Fn(&[usize], &mut Vec<usize>)) -> Self {
        let (mut bits, mut place) = (Vec::with_capacity(size(&shape)), Vec::new());
        each_index(&shape, |index| {
            place.clear();
            from(index, &mut place);
            bits.push(self.at(&place));
        });
        Self { ty: self.ty, shape, bits }
    }

    fn broadcast_to(&self, shape: &[usize]) -> Self {
        if self.shape == shape {
            return self.clone();
        }
        let gap = shape.len() - self.shape.len();
        self.moved(shape.to_vec(), |index, place| {
            place.extend(self.shape.iter().zip(&index[gap..]).map(|(&len, &i)| if len == 1 { 0 } else { i }));
        })
    }

    pub(crate) fn view(&self, view: &View) -> Result<Self, Bad> {
        let (shape, rank) = (self.view_shape(view)?, self.shape.len());
        Ok(match view {
            View::Slice(items) => {
                let whole = SliceItem::Range { start: None, stop: None, step: 1 };
                let taken = self.shape.iter().enumerate();
                let taken: Vec<_> = taken.map(|(at, &len)| picked(items.get(at).unwrap_or(&whole), len)).collect();
                let taken = taken.into_iter().collect::<Result<Vec<_>, Bad>>()?;
                self.moved(shape, |index, place| {
                    let mut index = index.iter();
                    place.extend(taken.iter().map(|(places, stays)| {
                        if *stays { index.next().map_or(0, |&i| places[i]) } else { places[0] }
                    }));
                })
            }
            View::Permute(axes) => self.permuted(shape, axes),
            View::Transpose => self.permuted(shape, &(0..rank as isize).rev().collect::<Vec<_>>()),
            View::Reverse(at) => {
                let (at, len) = (axis(*at, rank)?, &self.shape);
                self.moved(shape, |index, place| {
                    place.extend_from_slice(index);
                    place[at] = len[at] - 1 - index[at];
                })
            }
            View::Broadcast(to) => self.broadcast_to(to),
            View::Reshape(to) => Self { ty: self.ty, shape: to.clone(), bits: self.bits.clone() },
        })
    }

    fn permuted(&self, shape: Vec<usize>, axes: &[isize]) -> Self {
        self.moved(shape, |index, place| {
            place.resize(index.len(), 0);
            for (&i, &to) in index.iter().zip(axes) {
                place[axis(to, index.len()).unwrap_or(0)] = i;
            }
        })
    }

    fn map(&self, ty: Type, f: impl Fn(u32) -> u32) -> Self {
        Self { ty, shape: self.shape.clone(), bits: self.bits.iter().map(|&a| f(a)).collect() }
    }
}

/// The values that an operand is made of.
pub(crate) fn values(operand: &Source, ty: Type) -> Vec<u32> {
    let Source::New { shape, values, seed, given } = operand else { return Vec::new() };
    let mut random = Rng::of(*seed, 2);
    (0..given.unwrap_or(size(shape))).map(|_| crate::draw::value(&mut random, ty, *values)).collect()
}

/// An operand as its views show it.
fn operand(operand: &Operand, ty: Type, results: &[Option<Host>]) -> Result<Host, Bad> {
    let mut host = match &operand.source {
        Source::Earlier(at) => results[*at].clone().expect("a result that is there"),
        Source::New { shape, .. } => {
            let bits = values(&operand.source, ty);
            if bits.len() != size(shape) {
                return Err(Bad::Length);
            }
            Host { ty, shape: shape.clone(), bits }
        }
    };
    for view in &operand.views {
        host = host.view(view)?;
    }
    Ok(host)
}

/// The shape of an expression, and whether it has an array.
fn shape_of(tree: &Tree, operands: &[Host]) -> Result<(Vec<usize>, bool), Bad> {
    let join = |parts: &[&Tree]| -> Result<(Vec<usize>, bool), Bad> {
        let mut out = (Vec::new(), false);
        for part in parts {
            let (shape, array) = shape_of(part, operands)?;
            out = (broadcast(&out.0, &shape).ok_or(Bad::Shapes)?, out.1 || array);
        }
        Ok(out)
    };
    match &tree.node {
        Node::Leaf(at) => Ok((operands[*at].shape.clone(), true)),
        Node::Scalar(_) => Ok((Vec::new(), false)),
        Node::Un(_, a) | Node::Cast(a) => shape_of(a, operands),
        Node::Bin(_, a, b) => join(&[a, b]),
        Node::Select(parts) => join(&[&parts[0], &parts[1], &parts[2]]),
    }
}

fn zip(ty: Type, a: &Host, b: &Host, f: impl Fn(u32, u32) -> u32) -> Host {
    let shape = broadcast(&a.shape, &b.shape).expect("shapes that were checked");
    let (a, b) = (a.broadcast_to(&shape), b.broadcast_to(&shape));
    Host { ty, shape, bits: a.bits.iter().zip(&b.bits).map(|(&a, &b)| f(a, b)).collect() }
}

fn eval(tree: &Tree, operands: &[Host], scalars: &[u32]) -> Host {
    let of = |x: &Tree| eval(x, operands, scalars);
    match &tree.node {
        Node::Leaf(at) => operands[*at].clone(),
        Node::Scalar(at) => Host { ty: tree.ty, shape: Vec::new(), bits: vec![scalars[*at]] },
        Node::Un(op, a) => of(a).map(tree.ty, |x| unary(*op, a.ty, x)),
        Node::Bin(op, a, b) => zip(tree.ty, &of(a), &of(b), |x, y| binary(*op, a.ty, x, y)),
        Node::Cast(a) => of(a).map(tree.ty, |x| cast(a.ty, tree.ty, x)),
        Node::Select(parts) => {
            let [c, a, b] = [0, 1, 2].map(|at| of(&parts[at]));
            let shape = broadcast(&a.shape, &b.shape).and_then(|both| broadcast(&both, &c.shape));
            let shape = shape.expect("shapes that were checked");
            let [c, a, b] = [c, a, b].map(|x| x.broadcast_to(&shape).bits);
            let bits = c.iter().zip(a.iter().zip(&b)).map(|(&c, (&a, &b))| if c != 0 { a } else { b }).collect();
            Host { ty: tree.ty, shape, bits }
        }
    }
}

/// An operator's value for two arguments.
fn apply(tree: &Tree, a: u32, b: u32, scalars: &[u32]) -> u32 {
    let of = |x: &Tree| apply(x, a, b, scalars);
    match &tree.node {
        Node::Leaf(at) => [a, b][*at],
        Node::Scalar(at) => scalars[*at],
        Node::Un(op, x) => unary(*op, x.ty, of(x)),
        Node::Bin(op, x, y) => binary(*op, x.ty, of(x), of(y)),
        Node::Cast(x) => cast(x.ty, tree.ty, of(x)),
        Node::Select(parts) => of(if of(&parts[0]) != 0 { &parts[1] } else { &parts[2] }),
    }
}

/// Axes counted from the front.
fn axes(given: Option<&Vec<isize>>, rank: usize) -> Result<Vec<usize>, Bad> {
    let Some(given) = given else { return Ok((0..rank).collect()) };
    let mut out = Vec::new();
    for &at in given {
        let at = axis(at, rank)?;
        if out.contains(&at) {
            return Err(Bad::Repeated);
        }
        out.push(at);
    }
    Ok(out)
}

/// What a statement must give, or why it must fail.
pub(crate) fn statement(statement: &Statement, draw: &Draw, results: &[Option<Host>]) -> Result<Outcome, Bad> {
    let operands = draw.operands.iter().zip(&statement.operands);
    let operands = operands.map(|(x, &ty)| operand(x, ty, results)).collect::<Result<Vec<Host>, Bad>>()?;
    if matches!(draw.misuse, Some(Misuse::Array | Misuse::Argument)) {
        return Err(Bad::Operator);
    }
    let end = &statement.end;
    let (shape, array) = shape_of(&statement.tree, &operands)?;
    if !array {
        // A mean looks at its axes first, to count.
        if matches!(end, End::Mean) {
            axes(draw.axes.as_ref(), shape.len())?;
        }
        return Err(Bad::NoArray);
    }
    let whole = || {
        let host = eval(&statement.tree, &operands, &draw.scalars);
        host.map(end.result(host.ty), |x| cast(host.ty, end.result(host.ty), x))
    };
    let combine = |a, b| combined(end, end.result(statement.tree.ty), a, b, &draw.scalars);
    if end.is_scan() {
        let at = axis(draw.axis(), shape.len())?;
        few(&shape)?;
        return Ok(Outcome::Exact(scanned(&whole(), at, &combine)));
    }
    if end.is_reduction() {
        return reduced(statement, draw, &shape, &|| eval(&statement.tree, &operands, &draw.scalars), &combine);
    }
    few(&shape)?;
    if !matches!(end, End::Function) {
        return Ok(Outcome::Exact(whole()));
    }
    let float = |bits: &u32| f32::from_bits(*bits);
    let (values, ulps): (Vec<f64>, f64) = match &statement.tree.node {
        Node::Un(op, a) => {
            let a = eval(a, &operands, &draw.scalars);
            let (_, ulps) = function(*op, 0.0);
            (a.bits.iter().map(|x| function(*op, float(x)).0).collect(), ulps)
        }
        Node::Bin(Bin::Div, a, b) => {
            let [a, b] = [a, b].map(|x| eval(x, &operands, &draw.scalars).broadcast_to(&shape).bits);
            (a.iter().zip(&b).map(|(a, b)| f64::from(float(a)) / f64::from(float(b))).collect(), 3.0)
        }
        _ => unreachable!("no approximate operator"),
    };
    Ok(Outcome::Near(shape, values, ulps))
}

/// What the operator of a reduction or scan makes of two values.
fn combined(end: &End, ty: Type, a: u32, b: u32, scalars: &[u32]) -> u32 {
    match end {
        End::Sum | End::Cumsum | End::Mean => binary(Bin::Add, ty, a, b),
        End::Prod | End::Cumprod => binary(Bin::Mul, ty, a, b),
        End::Min | End::Cummin => binary(Bin::Min, ty, a, b),
        End::Max | End::Cummax => binary(Bin::Max, ty, a, b),
        End::Any => a | b,
        End::All => a & b,
        End::Reduce(tree) | End::ReduceFrom(tree) | End::Scan(tree) => apply(tree, a, b, scalars),
        End::Read | End::Eval | End::Function => unreachable!("nothing is combined"),
    }
}

fn scanned(host: &Host, axis: usize, combine: &impl Fn(u32, u32) -> u32) -> Host {
    let (len, inner) = (host.shape[axis], size(&host.shape[axis + 1..]));
    let mut out = host.clone();
    for first in (0..host.bits.len()).filter(|at| (at / inner) % len == 0) {
        let line: Vec<u32> = (0..len).map(|i| host.bits[first + i * inner]).collect();
        for (i, value) in running(&line, combine).into_iter().enumerate() {
            out.bits[first + i * inner] = value;
        }
    }
    out
}

fn reduced(
    statement: &Statement,
    draw: &Draw,
    shape: &[usize],
    whole: &dyn Fn() -> Host,
    combine: &impl Fn(u32, u32) -> u32,
) -> Result<Outcome, Bad> {
    let end = &statement.end;
    let walked = axes(draw.axes.as_ref(), shape.len())?;
    let is_walked = |at: &usize| walked.contains(at);
    let out: Vec<usize> = (0..shape.len()).filter(|at| draw.keep || !is_walked(at)).collect();
    let out: Vec<usize> = out.into_iter().map(|at| if is_walked(&at) { 1 } else { shape[at] }).collect();
    few(&walked.iter().map(|&at| shape[at]).collect::<Vec<_>>())?;
    few(&out)?;
    let given = whole();
    let ty = end.result(given.ty);
    let mut lines: Vec<Vec<u32>> = vec![Vec::new(); size(&out)];
    let mut elements = given.bits.iter();
    each_index(shape, |index| {
        let kept = index.iter().enumerate().filter(|(at, _)| !is_walked(at));
        let line = kept.fold(0, |line, (at, &i)| line * shape[at] + i);
        lines[line].extend(elements.next());
    });
    if matches!(end, End::Mean) {
        // Wide enough that rounding twice is rounding once, for lines of less than 2^27.
        let mean = |line: &Vec<u32>| {
            let sum = match given.ty {
                Type::F32 => f64::from(total(line, combine).map_or(f32::NAN, f32::from_bits)),
                Type::I32 => line.iter().map(|&x| i64::from(x.cast_signed())).sum::<i64>() as f64,
                _ => line.iter().map(|&x| u64::from(x)).sum::<u64>() as f64,
            };
            ((sum / line.len() as f64) as f32).to_bits()
        };
        return Ok(Outcome::Exact(Host { ty, shape: out, bits: lines.iter().map(mean).collect() }));
    }
    let one = if ty == Type::F32 { 1f32.to_bits() } else { 1 };
    let bits = lines.iter().map(|line| {
        let line: Vec<u32> = line.iter().map(|&x| cast(given.ty, ty, x)).collect();
        let total = total(&line, combine);
        match end {
            End::Sum | End::Any => Ok(total.unwrap_or(0)),
            End::Prod | End::All => Ok(total.unwrap_or(one)),
            End::ReduceFrom(_) => Ok(total.map_or(draw.initial, |total| combine(draw.initial, total))),
            _ => total.ok_or(Bad::Empty),
        }
    });
    let bits = bits.collect::<Result<Vec<u32>, Bad>>()?;
    Ok(Outcome::Exact(Host { ty, shape: out, bits }))
}
