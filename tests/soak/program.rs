//! Programs without their data: statements, each an expression over arrays and how it ends. A seed decides one.
//!
//! A structure has few kernels, however many shapes and values are drawn for it.

use crate::random::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Type {
    Bool,
    I32,
    U32,
    F32,
}

pub(crate) const TYPES: [Type; 4] = [Type::Bool, Type::I32, Type::U32, Type::F32];

/// Operators of one operand. Those from `Sqrt` on are approximate, and stand at the root of an expression only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Un {
    Neg,
    Not,
    Abs,
    IsNan,
    Sqrt,
    Exp,
    Ln,
    Sin,
    Cos,
    Tanh,
}

/// Operators of two operands. `Div` of floats is approximate, and stands at the root of an expression only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

const COMPARISONS: [Bin; 6] = [Bin::Lt, Bin::Le, Bin::Gt, Bin::Ge, Bin::Eq, Bin::Ne];
const LOGIC: [Bin; 5] = [Bin::And, Bin::Or, Bin::Xor, Bin::Min, Bin::Max];
const INTEGERS: [Bin; 10] =
    [Bin::Add, Bin::Sub, Bin::Mul, Bin::Div, Bin::Rem, Bin::Min, Bin::Max, Bin::And, Bin::Or, Bin::Xor];
const FLOATS: [Bin; 6] = [Bin::Add, Bin::Sub, Bin::Mul, Bin::Rem, Bin::Min, Bin::Max];
const FUNCTIONS: [Un; 6] = [Un::Sqrt, Un::Exp, Un::Ln, Un::Sin, Un::Cos, Un::Tanh];

#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// An operand of the statement; of an operator, its left or right argument.
    Leaf(usize),
    Scalar(usize),
    Un(Un, Box<Tree>),
    Bin(Bin, Box<Tree>, Box<Tree>),
    Select(Box<[Tree; 3]>),
    Cast(Box<Tree>),
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) ty: Type,
    pub(crate) node: Node,
}

/// What becomes of an expression.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The first operand is read as it is.
    Read,
    Eval,
    /// Evaluated, with an approximate operator at the root.
    Function,
    Sum,
    Prod,
    Min,
    Max,
    Mean,
    Any,
    All,
    Reduce(Tree),
    ReduceFrom(Tree),
    Cumsum,
    Cumprod,
    Cummin,
    Cummax,
    Scan(Tree),
}

/// The names of all ends.
pub(crate) const FAMILIES: [&str; 17] = [
    "read",
    "eval",
    "function",
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "any",
    "all",
    "reduce",
    "reduce_from",
    "cumsum",
    "cumprod",
    "cummin",
    "cummax",
    "scan",
];

impl End {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Eval => "eval",
            Self::Function => "function",
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::Any => "any",
            Self::All => "all",
            Self::Reduce(_) => "reduce",
            Self::ReduceFrom(_) => "reduce_from",
            Self::Cumsum => "cumsum",
            Self::Cumprod => "cumprod",
            Self::Cummin => "cummin",
            Self::Cummax => "cummax",
            Self::Scan(_) => "scan",
        }
    }

    pub(crate) fn operator(&self) -> Option<&Tree> {
        if let Self::Reduce(tree) | Self::ReduceFrom(tree) | Self::Scan(tree) = self { Some(tree) } else { None }
    }

    pub(crate) fn is_scan(&self) -> bool {
        matches!(self, Self::Cumsum | Self::Cumprod | Self::Cummin | Self::Cummax | Self::Scan(_))
    }

    pub(crate) fn is_reduction(&self) -> bool {
        !self.is_scan() && !matches!(self, Self::Read | Self::Eval | Self::Function)
    }

    /// Whether results are within a distance, and not exact: then no later statement uses them.
    pub(crate) fn is_approximate(&self) -> bool {
        matches!(self, Self::Function)
    }

    /// The type of the result for elements of a type.
    pub(crate) fn result(&self, ty: Type) -> Type {
        match self {
            Self::Sum | Self::Prod | Self::Cumsum | Self::Cumprod if ty == Type::Bool => Type::U32,
            Self::Mean => Type::F32,
            _ => ty,
        }
    }
}

/// One statement: operands, scalars, an expression over them, its end.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) operands: Vec<Type>,
    /// Whether the first operand is the latest result of its type, where there is one.
    pub(crate) chained: bool,
    /// Types of the scalars, and the values of those that are not drawn.
    pub(crate) scalars: Vec<(Type, Option<u32>)>,
    pub(crate) tree: Tree,
    pub(crate) end: End,
}

/// How the device is told to lay the work out; results do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forced {
    pub(crate) log_slots: Option<u32>,
    pub(crate) line_fastest: Option<bool>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) forced: Forced,
    pub(crate) statements: Vec<Statement>,
}

impl Program {
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Rng::of(seed, 1);
        let small = random.one_in(3);
        let forced = Forced {
            log_slots: small.then(|| random.between(2, 7) as u32),
            line_fastest: random.one_in(3).then(|| random.one_in(2)),
        };
        let count = 1 + random.below(3);
        Self { forced, statements: (0..count).map(|_| Statement::random(&mut random)).collect() }
    }
}

/// What a tree may have at its ends.
struct Leaves {
    /// Operands so far; for an operator, its two arguments.
    operands: Vec<Type>,
    most: usize,
    scalars: Vec<(Type, Option<u32>)>,
}

impl Statement {
    fn random(random: &mut Rng) -> Self {
        let mut leaves = Leaves { operands: Vec::new(), most: 1 + random.below(4), scalars: Vec::new() };
        let ty = random.pick(&TYPES);
        let family = random.below(17);
        let (end, ty) = match family {
            0 => (End::Read, ty),
            1 | 2 => (End::Eval, ty),
            3 => (End::Function, Type::F32),
            4 => (End::Sum, ty),
            5 => (End::Prod, ty),
            6 => (End::Min, ty),
            7 => (End::Max, ty),
            8 => (End::Mean, ty),
            9 => (if random.one_in(2) { End::Any } else { End::All }, Type::Bool),
            10 => (End::Cumsum, ty),
            11 => (End::Cumprod, ty),
            12 => (if random.one_in(2) { End::Cummin } else { End::Cummax }, ty),
            // Operators share the statement's scalars, which stand first.
            13 => (End::Reduce(operator(random, ty, &mut leaves)), ty),
            14 => (End::ReduceFrom(operator(random, ty, &mut leaves)), ty),
            _ => (End::Scan(operator(random, ty, &mut leaves)), ty),
        };
        let tree = match end {
            End::Read => Tree { ty, node: leaves.leaf(random, ty) },
            End::Eval => leaves.tree(random, ty, 7),
            End::Function if random.one_in(4) => {
                let [a, b] = [(); 2].map(|()| Box::new(leaves.tree(random, ty, 1)));
                Tree { ty, node: Node::Bin(Bin::Div, a, b) }
            }
            End::Function => {
                let x = Box::new(leaves.tree(random, ty, 2));
                Tree { ty, node: Node::Un(random.pick(&FUNCTIONS), x) }
            }
            _ => {
                let budget = random.pick(&[0, 0, 1, 3, 5]);
                if budget == 0 { Tree { ty, node: leaves.leaf(random, ty) } } else { leaves.tree(random, ty, budget) }
            }
        };
        let chained = random.one_in(2);
        Self { operands: leaves.operands, chained, scalars: leaves.scalars, tree, end }
    }
}

/// An operator for reductions and scans of a type: some that are associative and not commutative, some that are random.
/// Random ones need not be associative: values combine in one order.
fn operator(random: &mut Rng, ty: Type, statement: &mut Leaves) -> Tree {
    let scalars = std::mem::take(&mut statement.scalars);
    let mut leaves = Leaves { operands: vec![ty, ty], most: 2, scalars };
    let leaf = |at: usize| Box::new(Tree { ty, node: Node::Leaf(at) });
    let node = match random.below(6) {
        0 => Node::Leaf(random.below(2)),
        1 => {
            // The last that is not zero, or the first.
            let at = random.below(2);
            let condition = Tree { ty: Type::Bool, node: Node::Cast(leaf(at)) };
            Node::Select(Box::new([condition, *leaf(at), *leaf(1 - at)]))
        }
        2 if ty == Type::U32 => affine(&mut leaves).node,
        3 => {
            let op = match ty {
                Type::Bool => random.pick(&[Bin::And, Bin::Or, Bin::Xor]),
                Type::F32 => random.pick(&[Bin::Add, Bin::Mul, Bin::Min, Bin::Max]),
                _ => random.pick(&[Bin::Add, Bin::Mul, Bin::Min, Bin::Max, Bin::And, Bin::Or, Bin::Xor]),
            };
            Node::Bin(op, leaf(0), leaf(1))
        }
        _ => leaves.tree(random, ty, 4).node,
    };
    statement.scalars = leaves.scalars;
    Tree { ty, node }
}

/// Two maps `x → s·x + o` modulo 2^16 one after the other, each packed as `s·2^16 + o`.
fn affine(leaves: &mut Leaves) -> Tree {
    let ty = Type::U32;
    leaves.scalars.push((Type::U32, Some(1 << 16)));
    let half = leaves.scalars.len() - 1;
    let tree = |node| Box::new(Tree { ty, node });
    let bin = |op, a, b| tree(Node::Bin(op, a, b));
    let half = || tree(Node::Scalar(half));
    let scale = |at| bin(Bin::Div, tree(Node::Leaf(at)), half());
    let offset = |at| bin(Bin::Rem, tree(Node::Leaf(at)), half());
    let scales = bin(Bin::Mul, bin(Bin::Mul, scale(0), scale(1)), half());
    let offsets = bin(Bin::Add, bin(Bin::Mul, offset(0), scale(1)), offset(1));
    *bin(Bin::Add, scales, bin(Bin::Rem, offsets, half()))
}

impl Leaves {
    fn leaf(&mut self, random: &mut Rng, ty: Type) -> Node {
        let known: Vec<usize> = (0..self.operands.len()).filter(|&at| self.operands[at] == ty).collect();
        if self.operands.len() < self.most && (known.is_empty() || random.one_in(2)) {
            self.operands.push(ty);
            return Node::Leaf(self.operands.len() - 1);
        }
        if !known.is_empty() {
            return Node::Leaf(random.pick(&known));
        }
        // An operand of another type, converted.
        let at = random.below(self.operands.len());
        Node::Cast(Box::new(Tree { ty: self.operands[at], node: Node::Leaf(at) }))
    }

    fn end(&mut self, random: &mut Rng, ty: Type) -> Tree {
        let node = if random.one_in(5) {
            self.scalars.push((ty, None));
            Node::Scalar(self.scalars.len() - 1)
        } else {
            self.leaf(random, ty)
        };
        Tree { ty, node }
    }

    /// A tree of about so many operators.
    fn tree(&mut self, random: &mut Rng, ty: Type, budget: usize) -> Tree {
        if budget == 0 {
            return self.end(random, ty);
        }
        let rest = budget - 1;
        let node = match random.below(12) {
            0 | 1 => {
                let condition = self.tree(random, Type::Bool, rest / 3);
                let a = self.tree(random, ty, rest / 3);
                Node::Select(Box::new([condition, a, self.tree(random, ty, rest / 3)]))
            }
            2 | 3 => {
                let from: Vec<Type> = TYPES.into_iter().filter(|&from| from != ty).collect();
                let from = random.pick(&from);
                Node::Cast(Box::new(self.tree(random, from, rest)))
            }
            4 | 5 => {
                let (op, from) = match ty {
                    Type::Bool => random.pick(&[(Un::Not, Type::Bool), (Un::IsNan, Type::F32)]),
                    Type::U32 => (Un::Not, ty),
                    Type::I32 => (random.pick(&[Un::Neg, Un::Not, Un::Abs]), ty),
                    Type::F32 => (random.pick(&[Un::Neg, Un::Abs]), ty),
                };
                Node::Un(op, Box::new(self.tree(random, from, rest)))
            }
            _ => {
                let (op, of) = match ty {
                    Type::Bool if random.one_in(2) => (random.pick(&COMPARISONS), random.pick(&TYPES)),
                    Type::Bool => (random.pick(&LOGIC), ty),
                    Type::F32 => (random.pick(&FLOATS), ty),
                    _ => (random.pick(&INTEGERS), ty),
                };
                let left = random.below(rest + 1);
                let a = Box::new(self.tree(random, of, left));
                Node::Bin(op, a, Box::new(self.tree(random, of, rest - left)))
            }
        };
        Tree { ty, node }
    }
}
