//! The same programs through Kiln's public API.

use kiln::prelude::*;
use kiln::{Axes, Element, Error, ErrorKind};

use crate::draw::{Draw, Misuse, Operand, Source, View};
use crate::oracle::{Bad, values};
use crate::program::{Bin, End, Node, Statement, Tree, Type, Un};

/// An array of any type.
#[derive(Clone)]
pub(crate) enum Any {
    Bool(Array<bool>),
    I32(Array<i32>),
    U32(Array<u32>),
    F32(Array<f32>),
}

/// An expression of any type.
#[derive(Clone)]
enum Lazy {
    Bool(Expr<bool>),
    I32(Expr<i32>),
    U32(Expr<u32>),
    F32(Expr<f32>),
}

trait Kind: Element + kiln::IntoExpr<Self> {
    fn any(array: Array<Self>) -> Any;
    fn lazy(expr: Expr<Self>) -> Lazy;
    fn expr(lazy: Lazy) -> Expr<Self>;
    fn of(bits: u32) -> Self;
}

macro_rules! kind {
    ($($variant:ident $ty:ty, $of:expr;)*) => {
        $(impl Kind for $ty {
            fn any(array: Array<Self>) -> Any {
                Any::$variant(array)
            }
            fn lazy(expr: Expr<Self>) -> Lazy {
                Lazy::$variant(expr)
            }
            fn expr(lazy: Lazy) -> Expr<Self> {
                match lazy {
                    Lazy::$variant(expr) => expr,
                    _ => unreachable!("an expression of another type"),
                }
            }
            fn of(bits: u32) -> Self {
                $of(bits)
            }
        })*
    };
}
kind! {
    Bool bool, |bits| bits != 0;
    I32 i32, u32::cast_signed;
    U32 u32, std::convert::identity;
    F32 f32, f32::from_bits;
}

/// The code for a value of any type.
macro_rules! each {
    ($of:ident, $value:expr, $x:ident => $body:expr) => {
        match $value {
            $of::Bool($x) => $body,
            $of::I32($x) => $body,
            $of::U32($x) => $body,
            $of::F32($x) => $body,
        }
    };
}

/// The code for a type that is known at run time.
macro_rules! typed {
    ($ty:expr, $name:ident => $body:expr) => {
        match $ty {
            Type::Bool => {
                type $name = bool;
                $body
            }
            Type::I32 => {
                type $name = i32;
                $body
            }
            Type::U32 => {
                type $name = u32;
                $body
            }
            Type::F32 => {
                type $name = f32;
                $body
            }
        }
    };
}

impl Any {
    pub(crate) fn shape(&self) -> Vec<usize> {
        each!(Any, self, x => x.shape().to_vec())
    }

    /// The type and bits of all elements.
    pub(crate) fn read(&self) -> kiln::Result<(Type, Vec<u32>)> {
        fn bits<T: Element>(x: &Array<T>) -> kiln::Result<Vec<u32>> {
            Ok(x.to_host()?.as_slice().iter().map(|x| x.scalar().bits).collect())
        }
        let bits = each!(Any, self, x => bits(x))?;
        Ok((self.ty(), bits))
    }

    /// The bits of the one element.
    pub(crate) fn item(&self) -> kiln::Result<u32> {
        each!(Any, self, x => Ok(x.item()?.scalar().bits))
    }

    fn ty(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::I32(_) => Type::I32,
            Self::U32(_) => Type::U32,
            Self::F32(_) => Type::F32,
        }
    }

    fn view(&self, view: &View) -> kiln::Result<Self> {
        fn seen<T: Kind>(x: &Array<T>, view: &View) -> kiln::Result<Any> {
            Ok(T::any(match view {
                View::Slice(items) => x.slice(items)?,
                View::Permute(axes) => x.permute(axes)?,
                View::Transpose => x.transpose(),
                View::Reverse(axis) => x.reverse(*axis)?,
                View::Broadcast(shape) => x.broadcast_to(&shape[..])?,
                View::Reshape(shape) => x.reshape(&shape[..])?,
            }))
        }
        each!(Any, self, x => seen(x, view))
    }
}

fn operand(device: &Device, operand: &Operand, ty: Type, results: &[Option<Any>]) -> kiln::Result<Any> {
    let mut any = match &operand.source {
        Source::Earlier(at) => results[*at].clone().expect("a result that is there"),
        Source::New { shape, .. } => {
            let bits = values(&operand.source, ty);
            typed!(ty, T => {
                let values: Vec<T> = bits.into_iter().map(T::of).collect();
                T::any(device.array(&values, &shape[..])?)
            })
        }
    };
    for view in &operand.views {
        any = any.view(view)?;
    }
    Ok(any)
}

fn comparison<T: Element>(op: Bin, a: &Expr<T>, b: Expr<T>) -> Lazy {
    Lazy::Bool(match op {
        Bin::Lt => a.lt(b),
        Bin::Le => a.le(b),
        Bin::Gt => a.gt(b),
        Bin::Ge => a.ge(b),
        Bin::Eq => a.eq(b),
        Bin::Ne => a.ne(b),
        _ => unreachable!("{op:?} is not defined for the type"),
    })
}

fn arithmetic<T: Kind + kiln::Number>(op: Bin, a: Expr<T>, b: Expr<T>) -> Lazy {
    T::lazy(match op {
        Bin::Add => a + b,
        Bin::Sub => a - b,
        Bin::Mul => a * b,
        Bin::Div => a / b,
        Bin::Rem => a % b,
        Bin::Min => a.minimum(b),
        Bin::Max => a.maximum(b),
        _ => return comparison(op, &a, b),
    })
}

fn logic<T: Kind + kiln::Bits>(op: Bin, a: Expr<T>, b: Expr<T>) -> Lazy {
    T::lazy(match op {
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        Bin::Min => a.minimum(b),
        Bin::Max => a.maximum(b),
        _ => return comparison(op, &a, b),
    })
}

fn binary(op: Bin, a: Lazy, b: Lazy) -> Lazy {
    match (op, a, b) {
        (_, Lazy::Bool(a), Lazy::Bool(b)) => logic(op, a, b),
        (Bin::And | Bin::Or | Bin::Xor, Lazy::I32(a), Lazy::I32(b)) => logic(op, a, b),
        (Bin::And | Bin::Or | Bin::Xor, Lazy::U32(a), Lazy::U32(b)) => logic(op, a, b),
        (_, Lazy::I32(a), Lazy::I32(b)) => arithmetic(op, a, b),
        (_, Lazy::U32(a), Lazy::U32(b)) => arithmetic(op, a, b),
        (_, Lazy::F32(a), Lazy::F32(b)) => arithmetic(op, a, b),
        _ => unreachable!("operands of two types"),
    }
}

fn unary(op: Un, a: Lazy) -> Lazy {
    match (op, a) {
        (Un::Not, Lazy::Bool(a)) => Lazy::Bool(!a),
        (Un::Not, Lazy::U32(a)) => Lazy::U32(!a),
        (Un::Not, Lazy::I32(a)) => Lazy::I32(a.not()),
        (Un::Neg, Lazy::I32(a)) => Lazy::I32(-a),
        (Un::Abs, Lazy::I32(a)) => Lazy::I32(a.abs()),
        (Un::IsNan, Lazy::F32(a)) => Lazy::Bool(a.is_nan()),
        (op, Lazy::F32(a)) => Lazy::F32(match op {
            Un::Neg => -a,
            Un::Abs => a.abs(),
            Un::Sqrt => a.sqrt(),
            Un::Exp => a.exp(),
            Un::Ln => a.ln(),
            Un::Sin => a.sin(),
            Un::Cos => a.cos(),
            Un::Tanh => a.tanh(),
            Un::Not | Un::IsNan => unreachable!("{op:?} is not defined for the type"),
        }),
        _ => unreachable!("{op:?} is not defined for the type"),
    }
}

/// The expression of a tree over leaves, which are arrays or an operator's arguments.
fn lazy(tree: &Tree, leaves: &[Lazy], scalars: &[u32]) -> Lazy {
    let of = |x: &Tree| lazy(x, leaves, scalars);
    match &tree.node {
        Node::Leaf(at) => leaves[*at].clone(),
        Node::Scalar(at) => typed!(tree.ty, T => T::lazy(kiln::IntoExpr::<T>::into_expr(T::of(scalars[*at])))),
        Node::Un(op, a) => unary(*op, of(a)),
        Node::Bin(op, a, b) => binary(*op, of(a), of(b)),
        Node::Cast(a) => each!(Lazy, of(a), x => typed!(tree.ty, T => T::lazy(x.cast::<T>()))),
        Node::Select(parts) => {
            let condition = bool::expr(of(&parts[0]));
            let (a, b) = (of(&parts[1]), of(&parts[2]));
            typed!(tree.ty, T => T::lazy(condition.select(T::expr(a), T::expr(b))))
        }
    }
}

/// An expression's end, for types that have it.
fn ended<T>(expr: &Expr<T>, end: &End, draw: &Draw, arrays: &[Any]) -> kiln::Result<Any>
where
    T: Kind,
    T::Sum: Kind,
    T::Mean: Kind,
{
    let axes = || {
        let axes = draw.axes.as_ref().map_or_else(|| Axes::from(..), |axes| Axes::from(axes.clone()));
        if draw.keep { keep(axes) } else { axes }
    };
    let mut stolen: Option<Expr<T>> = None;
    if let Some(Misuse::Argument) = draw.misuse {
        // An argument outlives the call that it was made for.
        let device = each!(Any, &arrays[0], x => x.device());
        device.full(T::of(1), 1)?.scan(0, |a, b| {
            stolen = Some(a.clone());
            b.clone()
        })?;
    }
    let operator = |tree: &Tree, a: &Expr<T>, b: &Expr<T>| {
        let value = T::expr(lazy(tree, &[T::lazy(a.clone()), T::lazy(b.clone())], &draw.scalars));
        match (draw.misuse, &stolen) {
            (Some(Misuse::Array), _) => T::expr(each!(Any, &arrays[0], x => T::lazy(x.cast::<T>()))).maximum(value),
            (Some(Misuse::Argument), Some(stolen)) => value.maximum(stolen),
            _ => value,
        }
    };
    Ok(match end {
        End::Read => arrays[0].clone(),
        End::Eval | End::Function => T::any(expr.eval()?),
        End::Sum => T::Sum::any(expr.sum(axes())?),
        End::Prod => T::Sum::any(expr.prod(axes())?),
        End::Min => T::any(expr.min(axes())?),
        End::Max => T::any(expr.max(axes())?),
        End::Mean => T::Mean::any(expr.mean(axes())?),
        End::Any => Any::Bool(bool::expr(T::lazy(expr.clone())).any(axes())?),
        End::All => Any::Bool(bool::expr(T::lazy(expr.clone())).all(axes())?),
        End::Reduce(tree) => T::any(expr.reduce(axes(), |a, b| operator(tree, a, b))?),
        End::ReduceFrom(tree) => T::any(expr.reduce_from(T::of(draw.initial), axes(), |a, b| operator(tree, a, b))?),
        End::Cumsum => T::Sum::any(expr.cumsum(draw.axis())?),
        End::Cumprod => T::Sum::any(expr.cumprod(draw.axis())?),
        End::Cummin => T::any(expr.cummin(draw.axis())?),
        End::Cummax => T::any(expr.cummax(draw.axis())?),
        End::Scan(tree) => T::any(expr.scan(draw.axis(), |a, b| operator(tree, a, b))?),
    })
}

/// What a statement gives.
pub(crate) fn statement(
    device: &Device,
    statement: &Statement,
    draw: &Draw,
    results: &[Option<Any>],
) -> kiln::Result<Any> {
    let operands = draw.operands.iter().zip(&statement.operands);
    let operands = operands.map(|(x, &ty)| operand(device, x, ty, results)).collect::<kiln::Result<Vec<Any>>>()?;
    fn leaf<T: Kind>(x: &Array<T>) -> Lazy {
        T::lazy(x.to_expr())
    }
    let leaves: Vec<Lazy> = operands.iter().map(|x| each!(Any, x, x => leaf(x))).collect();
    let expr = lazy(&statement.tree, &leaves, &draw.scalars);
    each!(Lazy, expr, expr => ended(&expr, &statement.end, draw, &operands))
}

/// The oracle's word for an error.
pub(crate) fn bad(error: &Error) -> Option<Bad> {
    Some(match error.kind() {
        ErrorKind::ShapeMismatch { .. } => Bad::Shapes,
        ErrorKind::LengthMismatch { .. } => Bad::Length,
        ErrorKind::AxisOutOfRange { .. } => Bad::Axis,
        ErrorKind::RepeatedAxis { .. } => Bad::Repeated,
        ErrorKind::NotAPermutation { .. } => Bad::Permutation,
        ErrorKind::BadSlice { .. } => Bad::Slice,
        ErrorKind::Empty { .. } => Bad::Empty,
        ErrorKind::NotOneElement { .. } => Bad::NotOne,
        ErrorKind::NoArray { .. } => Bad::NoArray,
        ErrorKind::BadOperator { .. } => Bad::Operator,
        ErrorKind::Limit { .. } => Bad::Limit,
        ErrorKind::TooLarge { .. } => Bad::TooLarge,
        _ => return None,
    })
}
