//! How long opening and compiling took, for people who count the milliseconds to the first result.
//!
//! What enters: phases of `open` and of each compile. What leaves: plain durations. A browser has no clock that the
//! standard library can read, so there they are zero.

use std::time::Duration;

use kiln_array::warm::Origin;

/// The phases of opening a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenTimes {
    /// Loading the graphics APIs, which a process does once.
    pub instance: Duration,
    /// Listing adapters and choosing one.
    pub adapter: Duration,
    /// Opening the device.
    pub device: Duration,
}

/// The phases of compiling a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTimes {
    /// The kernel's label.
    pub kernel: String,
    /// Where it came from.
    pub origin: Origin,
    /// Writing its WGSL, and looking for it in the cache.
    pub render: Duration,
    /// Parsing, validating and, on Vulkan, lowering it.
    pub module: Duration,
    /// Compiling it in the driver; where wgpu translates the text, that too.
    pub pipeline: Duration,
}

/// Measures phases that follow each other.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) struct Stopwatch(std::time::Instant);

#[cfg(not(target_arch = "wasm32"))]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The time since the start or the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = std::time::Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// Measures nothing.
#[cfg(target_arch = "wasm32")]
pub(crate) struct Stopwatch;

#[cfg(target_arch = "wasm32")]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self
    }

    pub(crate) fn lap(&mut self) -> Duration {
        Duration::ZERO
    }
}
