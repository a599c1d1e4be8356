//! Element types: one row of [`ROWS`] per type, and the Rust types that stand for them.
//!
//! What enters: nothing. What leaves: [`Dtype`] (run time), [`Element`] (compile time), [`Scalar`] (one value of
//! either). A new element type is a row here, its WGSL spelling in `kiln-shaders`, and a lane type in `kiln-cpu`.

use std::fmt;

use crate::error::Result;
use crate::host::HostBytes;

/// The type of an array's elements, known at run time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dtype {
    /// Truth values, one byte each in memory.
    Bool,
    /// Signed 32-bit integers that wrap.
    I32,
    /// Unsigned 32-bit integers that wrap.
    U32,
    /// IEEE 754 single precision.
    F32,
}

/// What kind of arithmetic a type has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Logical operations only.
    Bool,
    /// Two's complement integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Binary floating point.
    Float,
}

/// The facts of one element type.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The type.
    pub dtype: Dtype,
    /// Its name as Rust and NumPy users write it.
    pub name: &'static str,
    /// Bytes of one element in memory.
    pub bytes: usize,
    /// Its arithmetic.
    pub kind: Kind,
}

/// Every element type, in the order of the enum.
pub const ROWS: [Row; 4] = [
    Row { dtype: Dtype::Bool, name: "bool", bytes: 1, kind: Kind::Bool },
    Row { dtype: Dtype::I32, name: "i32", bytes: 4, kind: Kind::Signed },
    Row { dtype: Dtype::U32, name: "u32", bytes: 4, kind: Kind::Unsigned },
    Row { dtype: Dtype::F32, name: "f32", bytes: 4, kind: Kind::Float },
];

impl Dtype {
    /// The facts of this type.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name: `"f32"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Bytes of one element in memory.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.row().bytes
    }

    /// The kind of arithmetic.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.row().kind
    }

    /// Whether several elements share one 32-bit word of memory.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        self.bytes() < 4
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value with its type, as it travels in a kernel's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scalar {
    /// The value's type.
    pub dtype: Dtype,
    /// The value's bits, zero-extended; `bool` is 0 or 1.
    pub bits: u32,
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Dtype::Bool => write!(f, "{}", self.bits != 0),
            Dtype::I32 => write!(f, "{}i32", self.bits.cast_signed()),
            Dtype::U32 => write!(f, "{}u32", self.bits),
            Dtype::F32 => write!(f, "{:?}f32", f32::from_bits(self.bits)),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that an array can hold. Sealed: the set is that of [`Dtype`].
#[diagnostic::on_unimplemented(
    message = "arrays of `{Self}` do not exist",
    label = "elements are `bool`, `i32`, `u32` or `f32`",
    note = "convert numbers on the host: `value as f32`"
)]
pub trait Element: sealed::Sealed + Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The run-time name of the type.
    const DTYPE: Dtype;
    /// The type of a sum or product: the type itself, except that types narrower than 32 bits widen.
    type Sum: Element;
    /// The type of a mean: `f32` for integers and bool, the type itself for floats.
    type Mean: Element;

    /// The value with its type.
    fn scalar(self) -> Scalar;
    /// The value of a scalar of this type.
    fn from_scalar(scalar: Scalar) -> Self;
    /// The bytes of a slice as they lie in device memory.
    fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]>;
    /// The values in bytes read from device memory.
    ///
    /// # Errors
    /// The host has no memory for them.
    fn from_bytes(bytes: HostBytes) -> Result<Vec<Self>>;
}

macro_rules! element {
    ($ty:ty, $dtype:ident, sum $sum:ty, mean $mean:ty, to $to:expr, from $from:expr) => {
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
            type Sum = $sum;
            type Mean = $mean;
            fn scalar(self) -> Scalar {
                Scalar { dtype: Dtype::$dtype, bits: $to(self) }
            }
            fn from_scalar(scalar: Scalar) -> Self {
                $from(scalar.bits)
            }
            fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]> {
                bytemuck::cast_slice(values).into()
            }
            fn from_bytes(bytes: HostBytes) -> Result<Vec<Self>> {
                bytes.into_numbers()
            }
        }
    };
}
element!(i32, I32, sum i32, mean f32, to i32::cast_unsigned, from u32::cast_signed);
element!(u32, U32, sum u32, mean f32, to std::convert::identity, from std::convert::identity);
element!(f32, F32, sum f32, mean f32, to f32::to_bits, from f32::from_bits);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Sum = u32;
    type Mean = f32;
    fn scalar(self) -> Scalar {
        Scalar { dtype: Dtype::Bool, bits: u32::from(self) }
    }
    fn from_scalar(scalar: Scalar) -> Self {
        scalar.bits != 0
    }
    fn to_bytes(values: &[Self]) -> std::borrow::Cow<'_, [u8]> {
        bytemuck::cast_slice(values).into()
    }
    fn from_bytes(bytes: HostBytes) -> Result<Vec<Self>> {
        bytes.into_bools()
    }
}

/// Element types with `+ − × ÷ %`.
pub trait Number: Element {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for f32 {}

/// Numbers with a sign: negation is defined.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no sign",
    label = "needs elements of `i32` or `f32`",
    note = "convert the elements first: `.cast::<i32>()` or `.cast::<f32>()`"
)]
pub trait Signed: Number {}
impl Signed for i32 {}
impl Signed for f32 {}

/// Floating-point numbers: roots and transcendental functions are defined.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point type",
    label = "needs elements of `f32`",
    note = "convert the elements first: `.cast::<f32>()`"
)]
pub trait Float: Signed {}
impl Float for f32 {}

/// Element types with `& | ^ !`: bool (logical) and the integers (bitwise).
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bitwise operators",
    label = "needs elements of `bool`, `i32` or `u32`",
    note = "comparisons such as `x.gt(0.0)` give `bool`"
)]
pub trait Bits: Element {}
impl Bits for bool {}
impl Bits for i32 {}
impl Bits for u32 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.dtype as usize, index);
            assert_eq!(row.dtype.row().name, row.name);
        }
    }

    #[test]
    fn scalars_round_trip() {
        assert_eq!(f32::from_scalar((-0.0f32).scalar()).to_bits(), (-0.0f32).to_bits());
        assert_eq!(i32::from_scalar(i32::MIN.scalar()), i32::MIN);
        assert!(bool::from_scalar(true.scalar()));
        assert_eq!(format!("{:?}", 2.5f32.scalar()), "2.5f32");
    }
}
