//! Arrays, expressions, plans and recordings: everything of Kiln that needs no GPU.
//!
//! The modules in the order in which data passes through them:
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`dtype`], [`shape`], [`layout`] | element types, lengths, strides and views |
//! | [`device`], `storage`, [`mod@array`] | a handle on a backend; memory on it; values that live there |
//! | [`expr`], [`op`], [`operators`] | lazy elementwise expressions and the tables of operators; `fuse` makes programs of them |
//! | [`elementwise`], [`reduce`], [`scan`] | the methods a user calls |
//! | `create`, `evaluate` | arrays from values; arrays from expressions, and values from arrays |
//! | `evaluated`, `probe` | what an expression says that is used as an array; which rules of floats a device keeps |
//! | [`monoid`] | the operators of reductions and scans, built in or traced from a closure |
//! | [`program`], [`kernel`] | an expression as straight-line code; what a backend compiles |
//! | [`plan`] | which dispatches, which tiles: from shapes and dtypes alone |
//! | [`recording`], [`backend`], [`recorder`] | work as data; the trait that runs it; one that keeps it |
//! | [`warm`], `rehearse`, `parse` | kernels compiled before they are needed; kernels from their text |
//!
//! How a sum runs, in three hops: [`reduce`] → [`plan::reduce`] → `shaders/wgsl/reduce.wgsl`.
//! Every other operation has the same three.

#![forbid(unsafe_code)]

pub mod array;
pub mod backend;
mod create;
mod cut;
pub mod device;
pub mod dtype;
pub mod elementwise;
pub mod error;
mod evaluate;
mod evaluated;
pub mod expr;
mod fuse;
pub mod host;
pub mod kernel;
pub mod layout;
mod mean;
pub mod monoid;
pub mod op;
pub mod operators;
mod parse;
pub mod plan;
mod probe;
pub mod program;
pub mod recorder;
pub mod recording;
pub mod reduce;
mod rehearse;
pub mod scan;
pub mod shape;
mod show;
pub mod slice;
mod storage;
pub mod warm;

pub use array::Array;
pub use backend::{Backend, Caps, DeviceInfo, DeviceKind, Pending};
pub use device::Device;
pub use dtype::{Dtype, Element, Scalar};
pub use elementwise::{ArrayOps, IntoExpr};
pub use error::{Error, ErrorKind, Result};
pub use expr::Expr;
pub use host::{HostArray, HostBytes};
pub use probe::FloatRules;
pub use shape::{Axes, Axis, IntoAxes, IntoAxis, IntoShape, Shape, keep};
pub use slice::SliceItem;
pub use warm::WarmUp;
