//! The trait between what to compute and what computes it.
//!
//! A backend owns buffers, compiles kernels and replays recordings in order. It never chooses an algorithm: planners do,
//! from its [`Caps`].

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::dtype::Dtype;
use crate::error::{Located, Result};
use crate::host::HostBytes;
use crate::kernel::KernelSpec;
use crate::recording::{BufferId, Recording};
use crate::warm::WarmUp;

/// `Send` and `Sync` on native targets; nothing in the browser, whose GPU handles stay on one thread.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSendSync: Send + Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + Sync + ?Sized> MaybeSendSync for T {}
/// `Send` and `Sync` on native targets; nothing in the browser, whose GPU handles stay on one thread.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSendSync {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSendSync for T {}

/// `Send` on native targets; nothing in the browser.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send` on native targets; nothing in the browser.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSend for T {}

/// What sort of device it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A graphics card of its own.
    DiscreteGpu,
    /// A graphics processor that shares the CPU's memory.
    IntegratedGpu,
    /// A virtual or unknown graphics processor.
    OtherGpu,
    /// A graphics API run by the CPU.
    SoftwareGpu,
    /// Kiln's own CPU backend.
    Cpu,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiscreteGpu => "discrete GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::OtherGpu => "GPU",
            Self::SoftwareGpu => "software GPU",
            Self::Cpu => "CPU",
        })
    }
}

/// Which device it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The adapter's name.
    pub name: String,
    /// The graphics API, or `cpu`: the words that `KILN_BACKEND` takes.
    pub backend: &'static str,
    /// What sort of device it is.
    pub kind: DeviceKind,
    /// The driver and its version.
    pub driver: String,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.kind)
    }
}

/// The facts of a device that planners may read. They choose schedules only; values do not depend on them.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Element types that it stores and computes.
    pub dtypes: Vec<Dtype>,
    /// Bytes of the largest array.
    pub max_array_bytes: u64,
    /// Arrays that one kernel may read and write.
    pub max_operands: usize,
    /// Workgroups of one dispatch.
    pub max_groups: u64,
    /// Leaves of all lines that one workgroup's memory holds for one-word accumulators, as a power of two.
    pub log_slots: u32,
    /// Workgroups that keep the whole device busy.
    pub busy_groups: usize,
    /// Whether a workgroup is one thread that walks its tile, rather than hundreds of invocations.
    pub serial_groups: bool,
}

/// A backend. One value is one open device.
pub trait Backend: Any + MaybeSendSync {
    /// Which device it is.
    fn info(&self) -> &DeviceInfo;

    /// What planners may know of it.
    fn caps(&self) -> &Caps;

    /// Whether it is known that the device is lost: whoever opens one wants another.
    fn is_lost(&self) -> bool {
        false
    }

    /// A buffer of at least `bytes` bytes, rounded up to 16, whose contents are not defined.
    ///
    /// # Errors
    /// Out of memory, above a limit, or the device is lost.
    fn allocate(&self, bytes: u64) -> Result<BufferId>;

    /// A buffer that holds `data`. It may wait for earlier uploads, for long only where much is under way.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    fn upload(&self, data: &[u8]) -> Result<BufferId>;

    /// Gives a buffer back. Work recorded before still sees it.
    fn release(&self, buffer: BufferId);

    /// Takes work. It may run later, but in order, and before any read made after it.
    ///
    /// # Errors
    /// A kernel does not compile, or the device is lost.
    fn run(&self, recording: &Recording) -> Result<()>;

    /// The first `bytes` bytes of a buffer, after all work taken so far.
    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes>;

    /// Completes when all work taken so far is done.
    fn synchronize(&self) -> Pending<()>;

    /// Gives memory back that is kept for later buffers; see [`Device::trim`](crate::Device::trim). A backend that
    /// keeps none has nothing to do.
    ///
    /// # Errors
    /// The device is lost.
    fn trim(&self) -> Result<()> {
        Ok(())
    }

    /// Compiles what this program used before, and what is common, behind it; see
    /// [`Device::warm_up`](crate::Device::warm_up).
    fn warm_up(&self) -> WarmUp;

    /// Compiles kernels behind the program.
    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp;
}

/// A result on its way: a future that can also be waited for.
pub trait Completion<T>: Future<Output = Result<T>> + MaybeSend {
    /// Blocks until the result is there.
    ///
    /// # Errors
    /// As the future's.
    fn wait(self: Pin<Box<Self>>) -> Result<T>;
}

/// A result on its way from a device: `.await` it, or [`wait`](Self::wait) for it.
///
/// Wakers are called from inside other calls of Kiln, on any thread. They may only note that there is something to poll, as
/// those of every executor do: one that polls at once waits for the call that it is in.
#[must_use = "nothing is read until it is awaited or waited for"]
pub struct Pending<T> {
    inner: Pin<Box<dyn Completion<T>>>,
    /// The source line of the call that it comes from.
    location: Option<&'static Location<'static>>,
}

impl<T> Located for Pending<T> {
    #[track_caller]
    fn located(self) -> Self {
        let location = self.location.or(Some(Location::caller()));
        Self { location, ..self }
    }
}

impl<T> Pending<T> {
    /// A result that a backend will deliver.
    pub fn new(completion: impl Completion<T> + 'static) -> Self {
        Self { inner: Box::pin(completion), location: None }
    }

    /// A result that is there already.
    pub fn ready(result: Result<T>) -> Self
    where
        T: MaybeSend + 'static,
    {
        Self::new(Ready(Some(result)))
    }

    /// The result changed by `f` once it is there.
    pub fn map<U: 'static>(self, f: impl FnOnce(T) -> Result<U> + MaybeSend + 'static) -> Pending<U>
    where
        T: 'static,
    {
        Pending::new(Map { inner: self, f: Some(Box::new(f)) })
    }

    /// Blocks until the result is there. In a browser, where blocking is impossible, `.await` instead.
    ///
    /// # Errors
    /// The device was lost, or the work that makes the result failed.
    pub fn wait(self) -> Result<T> {
        placed(self.inner.wait(), self.location)
    }
}

/// A result whose error names the place, if there is one.
fn placed<T>(result: Result<T>, location: Option<&'static Location<'static>>) -> Result<T> {
    result.map_err(|error| match location {
        Some(location) => error.or_at(location),
        None => error,
    })
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let location = self.location;
        self.inner.as_mut().poll(cx).map(|result| placed(result, location))
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

struct Ready<T>(Option<Result<T>>);

impl<T> Unpin for Ready<T> {}

const TAKEN: &str = "a pending result is taken once";

impl<T> Future for Ready<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<T>> {
        Poll::Ready(self.0.take().expect(TAKEN))
    }
}

impl<T: MaybeSend> Completion<T> for Ready<T> {
    fn wait(mut self: Pin<Box<Self>>) -> Result<T> {
        self.0.take().expect(TAKEN)
    }
}

#[cfg(not(target_arch = "wasm32"))]
type Change<T, U> = Box<dyn FnOnce(T) -> Result<U> + Send>;
#[cfg(target_arch = "wasm32")]
type Change<T, U> = Box<dyn FnOnce(T) -> Result<U>>;

struct Map<T, U> {
    inner: Pending<T>,
    f: Option<Change<T, U>>,
}

impl<T, U> Future for Map<T, U> {
    type Output = Result<U>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<U>> {
        match Pin::new(&mut self.inner).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => {
                let f = self.f.take().expect(TAKEN);
                Poll::Ready(result.and_then(f))
            }
        }
    }
}

impl<T, U> Completion<U> for Map<T, U> {
    fn wait(self: Pin<Box<Self>>) -> Result<U> {
        let this = *Pin::into_inner(self);
        this.inner.wait().and_then(this.f.expect(TAKEN))
    }
}
