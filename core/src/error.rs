//! The one error type: what was asked, the shapes or values, the limit or device in the way.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::dtype::Dtype;
use crate::shape::Shape;

/// The result of every fallible operation of Kiln.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation could not be done.
///
/// An expression carries the first error of its parts; the call that evaluates it returns that error. Errors name the
/// source line of the operator or call that made them; those of a pending value, the line of the read.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

struct Inner {
    kind: ErrorKind,
    location: Option<&'static Location<'static>>,
}

/// The kinds of error, with the values that caused them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Two shapes do not broadcast with each other.
    ShapeMismatch {
        /// The operation.
        op: &'static str,
        /// Shape of the left operand.
        lhs: Shape,
        /// Shape of the right operand.
        rhs: Shape,
    },
    /// The number of values given differs from the number of elements of the shape.
    LengthMismatch {
        /// The operation.
        op: &'static str,
        /// Values given.
        got: usize,
        /// The shape asked for.
        shape: Shape,
    },
    /// The number of elements of a shape is beyond what can be counted.
    TooLarge {
        /// The operation.
        op: &'static str,
        /// The shape.
        shape: Shape,
    },
    /// An axis is not one of the array's axes.
    AxisOutOfRange {
        /// The operation.
        op: &'static str,
        /// The axis given.
        axis: isize,
        /// Number of axes of the array.
        ndim: usize,
    },
    /// An axis is named twice.
    RepeatedAxis {
        /// The operation.
        op: &'static str,
        /// The axis, counted from the front.
        axis: usize,
        /// The array's shape.
        shape: Shape,
    },
    /// A list of axes that is not a permutation of the array's axes.
    NotAPermutation {
        /// The operation.
        op: &'static str,
        /// The axes given.
        axes: Vec<isize>,
        /// The array's shape.
        shape: Shape,
    },
    /// A slice does not fit the array.
    BadSlice {
        /// What is wrong with it.
        reason: String,
        /// The array's shape.
        shape: Shape,
    },
    /// A reduction or scan with no neutral element over zero elements.
    Empty {
        /// The operation.
        op: &'static str,
        /// The array's shape.
        shape: Shape,
    },
    /// A single value was asked of an array with another number of elements.
    NotOneElement {
        /// The array's shape.
        shape: Shape,
    },
    /// Operands live on different devices.
    DeviceMismatch {
        /// The operation.
        op: &'static str,
        /// Device of the left operand, with its place among those that this process has opened.
        lhs: String,
        /// Device of the right operand, likewise.
        rhs: String,
    },
    /// An expression of scalars only has no device to run on.
    NoArray {
        /// The operation.
        op: &'static str,
    },
    /// The device has no such element type.
    UnsupportedDtype {
        /// The type.
        dtype: Dtype,
        /// The device.
        device: String,
    },
    /// More of something than the device, or Kiln, can handle.
    Limit {
        /// The operation.
        op: &'static str,
        /// What is limited, with its unit: `"bytes of one array"`.
        what: &'static str,
        /// How much was needed.
        needed: u64,
        /// How much there may be.
        limit: u64,
        /// Whose limit it is.
        device: String,
    },
    /// An operator's closure used something other than its arguments and scalars.
    BadOperator {
        /// The operation.
        op: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// A variable of the environment has a word that it does not take.
    BadSetting {
        /// The variable.
        name: &'static str,
        /// Its word.
        value: String,
        /// What it takes.
        reason: String,
    },
    /// No device of the kind asked for.
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What was tried and why it did not do.
        reason: String,
    },
    /// The device, or the host where an array is read, had no memory left.
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The device, or `the host`.
        device: String,
    },
    /// A generated kernel did not compile.
    Kernel {
        /// The kernel's label.
        kernel: String,
        /// The compiler's message, with its code frame.
        message: String,
    },
    /// The device is gone: removed, reset, or destroyed.
    DeviceLost {
        /// The device.
        device: String,
        /// The driver's words.
        reason: String,
    },
    /// The backend failed in another way.
    Backend {
        /// What it was doing.
        op: &'static str,
        /// Its words.
        message: String,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShapeMismatch { op: op @ "broadcast_to", lhs, rhs } => {
                write!(f, "{op}: shape {lhs} does not broadcast to {rhs}")
            }
            Self::ShapeMismatch { op, lhs, rhs } => {
                write!(f, "{op}: shapes {lhs} and {rhs} do not broadcast")
            }
            Self::LengthMismatch { op, got, shape } => {
                write!(f, "{op}: {got} values do not fill shape {shape} of {} elements", shape.size())
            }
            Self::TooLarge { op, shape } => {
                write!(f, "{op}: shape {shape} is too large: its elements cannot be counted in {} bits", isize::BITS)
            }
            Self::AxisOutOfRange { op, axis, ndim } => {
                write!(f, "{op}: axis {axis} is out of range for an array with {ndim} axes")
            }
            Self::RepeatedAxis { op, axis, shape } => {
                write!(f, "{op}: axis {axis} is named twice for shape {shape}")
            }
            Self::NotAPermutation { op, axes, shape } => {
                write!(f, "{op}: {axes:?} is not a permutation of the axes of shape {shape}")
            }
            Self::BadSlice { reason, shape } => write!(f, "slice of shape {shape}: {reason}"),
            Self::Empty { op, shape } => {
                write!(f, "{op}: nothing to combine in shape {shape}; `reduce_from` takes an initial value")
            }
            Self::NotOneElement { shape } => {
                write!(f, "item: shape {shape} has {} elements, not one", shape.size())
            }
            Self::DeviceMismatch { op, lhs, rhs } => {
                write!(
                    f,
                    "{op}: operands live on two devices, {lhs} and {rhs}; make both on clones of one `Device`, "
                )?;
                f.write_str("or move one with `to_host` and `Device::array`")
            }
            Self::NoArray { op } => write!(f, "{op}: the expression has no array, so no device to run on"),
            Self::UnsupportedDtype { dtype, device } => write!(f, "{device} has no {dtype}"),
            Self::Limit { op, what, needed, limit, device } => {
                write!(f, "{op}: needs {needed} {what}, the limit of {device} is {limit}")
            }
            Self::BadOperator { op, reason } => write!(f, "{op}: {reason}"),
            Self::BadSetting { name, value, reason } => write!(f, "{name}={value}: {reason}"),
            Self::NoDevice { wanted, reason } => write!(f, "no device for {wanted}: {reason}"),
            Self::OutOfMemory { bytes, device } => {
                write!(f, "{device} has no room for {bytes} more bytes")
            }
            Self::Kernel { kernel, message } => {
                write!(f, "kernel {kernel} does not compile: {message}")
            }
            Self::DeviceLost { device, reason } => write!(f, "{device} was lost: {reason}"),
            Self::Backend { op, message } => write!(f, "{op}: {message}"),
        }
    }
}

impl Error {
    /// The kind of error and its values.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    /// The source line of the operator that failed, where there is one.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.inner.location
    }

    /// The error with a source line, unless it has one.
    pub(crate) fn or_at(self, location: &'static Location<'static>) -> Self {
        if self.inner.location.is_some() {
            return self;
        }
        Self { inner: Arc::new(Inner { kind: self.inner.kind.clone(), location: Some(location) }) }
    }

    /// The error with the caller's source line.
    #[track_caller]
    pub(crate) fn here(kind: ErrorKind) -> Self {
        Self { inner: Arc::new(Inner { kind, location: Some(Location::caller()) }) }
    }
}

/// Puts the caller's source line into an error that has none.
pub(crate) trait Located {
    #[track_caller]
    fn located(self) -> Self;
}

impl<T> Located for Result<T> {
    #[track_caller]
    fn located(self) -> Self {
        // No closure here: it would be the caller that the error names.
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(error.or_at(Location::caller())),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { inner: Arc::new(Inner { kind, location: None }) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.kind.fmt(f)?;
        if let Some(at) = self.inner.location {
            write!(f, " (at {}:{}:{})", at.file(), at.line(), at.column())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// The same words as `Display`: they are what `main` prints of an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
