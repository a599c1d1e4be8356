//! Programs as text, for whoever looks at a failure.

use std::fmt;

use kiln::SliceItem;

use crate::draw::{Draw, Misuse, Source, View};
use crate::program::{Node, Statement, Tree, Type};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F32 => "f32",
        })
    }
}

/// A value of a type by its bits.
pub(crate) fn value(ty: Type, bits: u32) -> String {
    match ty {
        Type::Bool => (bits != 0).to_string(),
        Type::I32 => bits.cast_signed().to_string(),
        Type::U32 => bits.to_string(),
        Type::F32 => format!("{:?}", f32::from_bits(bits)),
    }
}

fn tree(tree: &Tree, scalars: &[u32], leaf: &dyn Fn(usize) -> String) -> String {
    let of = |x: &Tree| self::tree(x, scalars, leaf);
    match &tree.node {
        Node::Leaf(at) => leaf(*at),
        Node::Scalar(at) => format!("{}{}", value(tree.ty, scalars[*at]), tree.ty),
        Node::Un(op, a) => format!("{op:?}({})", of(a)),
        Node::Bin(op, a, b) => format!("{op:?}({}, {})", of(a), of(b)),
        Node::Select(parts) => format!("Select({}, {}, {})", of(&parts[0]), of(&parts[1]), of(&parts[2])),
        Node::Cast(a) => format!("{}({})", tree.ty, of(a)),
    }
}

fn item(item: &SliceItem) -> String {
    match item {
        SliceItem::Index(at) => at.to_string(),
        SliceItem::Range { start, stop, step } => {
            let end = |end: &Option<isize>| end.map_or_else(String::new, |end| end.to_string());
            format!("{}:{}:{step}", end(start), end(stop))
        }
        SliceItem::Inclusive { start, last, step } => {
            format!("{}:={last}:{step}", start.map_or_else(String::new, |start| start.to_string()))
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slice(items) => write!(f, "[{}]", items.iter().map(item).collect::<Vec<_>>().join(", ")),
            Self::Permute(axes) => write!(f, "permute {axes:?}"),
            Self::Transpose => f.write_str("transpose"),
            Self::Reverse(axis) => write!(f, "reverse {axis}"),
            Self::Broadcast(shape) => write!(f, "broadcast_to {shape:?}"),
            Self::Reshape(shape) => write!(f, "reshape {shape:?}"),
        }
    }
}

/// A statement with what was drawn for it.
pub(crate) fn statement(number: usize, statement: &Statement, draw: &Draw) -> String {
    let mut out = String::new();
    for (at, (operand, ty)) in draw.operands.iter().zip(&statement.operands).enumerate() {
        let source = match &operand.source {
            Source::Earlier(at) => format!("r{at}"),
            Source::New { shape, values, seed, given } => {
                let wrong = given.map_or_else(String::new, |given| format!(" of {given} values"));
                format!("{ty} {shape:?} {values:?} {seed:#x}{wrong}")
            }
        };
        let views: String = operand.views.iter().map(|view| format!(" | {view}")).collect();
        out += &format!("  x{number}{at} = {source}{views}\n");
    }
    let expression = tree(&statement.tree, &draw.scalars, &|at| format!("x{number}{at}"));
    let mut arguments = Vec::new();
    let end = &statement.end;
    if matches!(end, crate::program::End::ReduceFrom(_)) {
        arguments.push(format!("initial {}", value(statement.tree.ty, draw.initial)));
    }
    if end.is_scan() {
        arguments.push(format!("axis {}", draw.axis()));
    } else if end.is_reduction() {
        let axes = draw.axes.as_ref().map_or_else(|| "..".to_owned(), |axes| format!("{axes:?}"));
        arguments.push(if draw.keep { format!("keep({axes})") } else { format!("axes {axes}") });
    }
    if let Some(operator) = end.operator() {
        arguments.push(match draw.misuse {
            Some(Misuse::Array) => "an operator that uses an array".to_owned(),
            Some(Misuse::Argument) => "an operator that uses another's argument".to_owned(),
            None => format!("|a, b| {}", tree(operator, &draw.scalars, &|at| ["a", "b"][at].to_owned())),
        });
    }
    out + &format!("  r{number} = ({expression}).{}({})\n", end.name(), arguments.join(", "))
}
