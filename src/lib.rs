//! n-dimensional arrays that compute on any GPU, and on the CPU where there is none, with the same answers.
//!
//! ```
//! use kiln::prelude::*;
//!
//! # fn main() -> kiln::Result<()> {
//! let gpu = kiln::open()?; // the best GPU; the CPU if there is none
//! let x = gpu.array(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//!
//! let z = (&x - x.mean(keep(1))?) * 2.0; // an expression: nothing has run
//! let energy = (&z * &z).sum(..)?; // one kernel; still on the device
//! let path = z.cumsum(1)?; // running totals along the rows
//! let peak = x.reduce(.., |a, b| a.maximum(b))?; // own operator, traced into the kernel
//!
//! assert_eq!(energy.item()?, 16.0); // the only places that wait
//! assert_eq!(path.to_host()?.as_slice(), [-2.0, -2.0, 0.0, -2.0, -2.0, 0.0]);
//! assert_eq!(peak.item()?, 6.0);
//! # Ok(())
//! # }
//! ```
//!
//! A statement is a kernel: an [`Expr`] computes nothing until it is evaluated, reduced or scanned, and then the whole
//! expression is part of that one kernel. Shapes, strides and scalars are parameters: one structure has a
//! handful of kernels (by rank, by whether elements lie together, by whether tiles are full), whatever the sizes.
//!
//! [`first_call`] says why the first call of a process is slow and what is done about it.
//! [`tour`] shows everything once, with examples. [`semantics`] states once what operations mean. Reductions and scans combine in one [`order`], so sums have the same
//! bits on every device.

#![forbid(unsafe_code)]

#[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
pub mod cache;
mod choice;
mod open;
mod settings;
mod shared;
#[doc = include_str!("../docs/semantics.md")]
pub mod semantics {}
#[doc = include_str!("../docs/tour.md")]
pub mod tour {}
#[doc = include_str!("../docs/first-call.md")]
#[doc = include_str!("../docs/first-call.svg")]
pub mod first_call {}
#[cfg(not(target_arch = "wasm32"))]
mod warm;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use kiln_array::backend::{DeviceInfo, DeviceKind, Pending};
pub use kiln_array::device::Schedule;
pub use kiln_array::dtype::{Bits, Float, Number, Scalar, Signed};
pub use kiln_array::plan::order;
pub use kiln_array::reduce::Reduce;
pub use kiln_array::scan::Scan;
pub use kiln_array::warm::{Origin, Progress, Report, WarmUp, WarmedKernel};
pub use kiln_array::{
    Array, ArrayOps, Axes, Axis, Device, Dtype, Element, Error, ErrorKind, Expr, FloatRules, HostArray, IntoAxes,
    IntoAxis, IntoExpr, IntoShape, Result, Shape, SliceItem, keep, s,
};
pub use open::{Backend, Options, devices_async, open_async};
#[cfg(not(target_arch = "wasm32"))]
pub use open::{devices, open};
#[cfg(not(target_arch = "wasm32"))]
pub use warm::{rehearse, warm_up};

/// What most programs use: `use kiln::prelude::*`.
pub mod prelude {
    pub use crate::{Array, ArrayOps, Device, Expr, HostArray, Reduce, Scan, keep, s};
}

/// Working beside a program's own wgpu code.
#[cfg(feature = "wgpu")]
pub mod wgpu {
    pub use kiln_wgpu::wgpu::*;
    pub use kiln_wgpu::{Counters, KernelTimes, OpenTimes, Wgpu};

    use std::sync::Arc;

    /// The wgpu backend behind a device: its wgpu device and queue, counters, and times. `None` for other backends.
    #[must_use]
    pub fn backend(device: &crate::Device) -> Option<&Wgpu> {
        device.backend_as()
    }

    /// A device on a wgpu device that the program has opened itself.
    ///
    /// Work goes to the given queue. The program's error handler and device-lost callback stay as they are. Nothing is kept
    /// and nothing starts by itself; [`Options::open_on`](crate::Options::open_on) does both. wgpu runs callbacks on whatever
    /// thread polls the device, Kiln's included: a callback may drop arrays, and must do nothing else with Kiln.
    ///
    /// # Errors
    /// The device's limits are too low for Kiln's kernels.
    pub fn from_device(device: Device, queue: Queue) -> crate::Result<crate::Device> {
        Ok(crate::Device::new(Arc::new(kiln_wgpu::from_device(device, queue)?)))
    }
}
