//! What the compiler says of an expression that is used as an array.
//!
//! An expression has no elements to read or to view until it is evaluated. These methods are never called: they are
//! there so that the compiler names `eval` where it would only say that there is no such method.

use crate::array::Array;
use crate::backend::Pending;
use crate::dtype::Element;
use crate::error::Result;
use crate::expr::Expr;
use crate::host::HostArray;
use crate::shape::{IntoAxis, IntoShape};
use crate::slice::SliceItem;

/// What has its elements in memory: arrays alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not evaluated: it has no elements to read or to view",
    label = "an expression; `eval` computes it into an array",
    note = "evaluate it first: `expr.eval()?.to_host()?`"
)]
pub trait Evaluated<T> {
    /// The array.
    fn array(&self) -> &Array<T>;
}

impl<T> Evaluated<T> for Array<T> {
    fn array(&self) -> &Self {
        self
    }
}

macro_rules! of_arrays {
    ($($name:ident($($argument:ident: $type:ty)?) -> $out:ty;)*) => {
        #[doc(hidden)]
        impl<T: Element> Expr<T> {
            $(pub fn $name(&self $(, $argument: $type)?) -> $out
            where
                Self: Evaluated<T>,
            {
                self.array().$name($($argument)?)
            })*
        }
    };
}

of_arrays! {
    to_host() -> Result<HostArray<T>>;
    item() -> Result<T>;
    read() -> Pending<HostArray<T>>;
    read_item() -> Pending<T>;
    slice(items: impl AsRef<[SliceItem]>) -> Result<Array<T>>;
    transpose() -> Array<T>;
    permute(axes: impl AsRef<[isize]>) -> Result<Array<T>>;
    reverse(axis: impl IntoAxis) -> Result<Array<T>>;
    broadcast_to(shape: impl IntoShape) -> Result<Array<T>>;
    reshape(shape: impl IntoShape) -> Result<Array<T>>;
}
