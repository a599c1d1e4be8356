//! Errors of wgpu as Kiln's errors, and what is known of the device's health.
//!
//! What enters: error scopes around our own calls, the lost-device callback, the uncaptured-error handler of devices
//! that we opened. What leaves: `kiln_array::Error`. Decided: every call of ours stands in a [`Scopes`], so that an
//! error belongs to the call that made it and never reaches the handler of whoever owns the device. Natively a scope's
//! result is there when it closes; a browser delivers it later, so there [`Gpu::settle`] makes reads wait for it.
//!
//! wgpu tells of a lost device by the device-lost callback alone, which belongs to the owner, and for `Device::destroy`
//! comes late. Scopes catch nothing then, or that something made of nothing is not valid. So [`Gpu::check`] asks,
//! wherever somebody else may have lost the device: by a call that a device refuses while it works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use kiln_array::{Error, ErrorKind, Result};

use crate::late::Late;

/// What errors are said to come from that belong to no call.
const UNCAPTURED: &str = "wgpu";

/// Why a device is lost whose driver said nothing.
const DESTROYED: &str = "it was destroyed";

/// Why a device is lost whose owner alone was told.
#[cfg(not(target_arch = "wasm32"))]
const DESTROYED_OR_LOST: &str = "it was destroyed, or its driver lost it; wgpu tells its owner alone";

/// Locks a mutex; the state behind ours stays whole when a holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the device still works, and what it said otherwise.
pub(crate) struct Health {
    device: String,
    lost: OnceLock<String>,
    /// Whether somebody else has the device, who may lose it without a word.
    shared: AtomicBool,
    uncaptured: Mutex<Option<String>>,
}

impl Health {
    pub(crate) fn new(device: String) -> Self {
        Self { device, lost: OnceLock::new(), shared: AtomicBool::new(false), uncaptured: Mutex::new(None) }
    }

    /// The device's name, for errors.
    pub(crate) fn device(&self) -> String {
        self.device.clone()
    }

    /// An error once the device is known to be lost.
    fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(ErrorKind::DeviceLost { device: self.device(), reason: reason.clone() }.into()),
        }
    }

    /// Notes that somebody else has the device.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Notes that the device is lost; the first reason stays. Returns the error.
    pub(crate) fn lose(&self, reason: &str) -> Error {
        // wgpu has no words for `Device::destroy`.
        let reason = if reason.is_empty() { DESTROYED } else { reason };
        let reason = self.lost.get_or_init(|| reason.to_owned());
        ErrorKind::DeviceLost { device: self.device(), reason: reason.clone() }.into()
    }

    /// Notes an error that no scope caught, for the next read to report.
    pub(crate) fn uncaptured(&self, error: &wgpu::Error) {
        log::error!("kiln: uncaptured wgpu error: {error}");
        lock(&self.uncaptured).get_or_insert_with(|| error.to_string());
    }

    /// Notes an error that [`report`](Self::report) told somebody whom it does not concern.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn tell_again(&self, error: &Error) {
        if let ErrorKind::Backend { op: UNCAPTURED, message } = error.kind() {
            lock(&self.uncaptured).get_or_insert_with(|| message.clone());
        }
    }

    /// The error that no scope caught, once.
    pub(crate) fn report(&self) -> Result<()> {
        self.check()?;
        match lock(&self.uncaptured).take() {
            None => Ok(()),
            Some(message) => Err(ErrorKind::Backend { op: UNCAPTURED, message }.into()),
        }
    }
}

/// Kiln's form of an error of wgpu.
fn translate(op: &'static str, device: String, error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => ErrorKind::OutOfMemory { bytes: 0, device }.into(),
        other => ErrorKind::Backend { op, message: other.to_string() }.into(),
    }
}

/// A device with its queue and health: what every module works with. Clones are the same device.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) health: Arc<Health>,
    late: Arc<Late>,
}

impl Gpu {
    pub(crate) fn new(device: wgpu::Device, queue: wgpu::Queue, name: String) -> Self {
        Self { device, queue, health: Arc::new(Health::new(name)), late: Arc::default() }
    }

    /// An error once the device is lost, whoever lost it.
    pub(crate) fn check(&self) -> Result<()> {
        self.health.check()?;
        #[cfg(not(target_arch = "wasm32"))]
        if self.health.shared.load(Ordering::Relaxed) && self.is_lost() {
            return Err(self.health.lose(DESTROYED_OR_LOST));
        }
        Ok(())
    }

    /// Whether the device is lost. Of all calls that a device refuses while it works, this one costs least: nothing
    /// reaches the driver. A lost one says nothing.
    #[cfg(not(target_arch = "wasm32"))]
    fn is_lost(&self) -> bool {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let (label, ty, count) = (Some("kiln.alive"), wgpu::QueryType::Occlusion, 0);
        drop(self.device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count }));
        let refused = std::pin::pin!(scope.pop()).poll(&mut Context::from_waker(std::task::Waker::noop()));
        matches!(refused, Poll::Ready(None))
    }

    /// The error, or that the device is lost, from which others follow.
    pub(crate) fn or_lost(&self, error: Error) -> Error {
        self.check().err().unwrap_or(error)
    }

    /// What `f` makes, or the error that a scope around it caught.
    pub(crate) fn scoped<T>(&self, op: &'static str, f: impl FnOnce() -> T) -> Result<T> {
        let scopes = Scopes::open(&self.device);
        let made = f();
        scopes.close(self, op).map(|()| made)
    }

    /// Ready once all errors of earlier calls are known: the one that a read must report, if there is one.
    pub(crate) fn settle(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.late.settle(cx).map(|settled| settled.and_then(|()| self.health.report()))
    }
}

/// Error scopes for all kinds of errors, on this thread, around some calls.
#[must_use = "errors are known once the scopes close"]
pub(crate) struct Scopes {
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
    internal: wgpu::ErrorScopeGuard,
}

impl Scopes {
    pub(crate) fn open(device: &wgpu::Device) -> Self {
        // Fields in the order of pushing; `close` pops in reverse.
        Self {
            memory: device.push_error_scope(wgpu::ErrorFilter::OutOfMemory),
            validation: device.push_error_scope(wgpu::ErrorFilter::Validation),
            internal: device.push_error_scope(wgpu::ErrorFilter::Internal),
        }
    }

    /// The first error caught. In a browser, where it is known later, see [`Gpu::settle`].
    pub(crate) fn close(self, gpu: &Gpu, op: &'static str) -> Result<()> {
        let (internal, validation, memory) = (self.internal.pop(), self.validation.pop(), self.memory.pop());
        let health = gpu.health.clone();
        let caught = gpu.late.expect(async move {
            let caught = [internal.await, validation.await, memory.await];
            let error = caught.into_iter().flatten().next()?;
            Some(health.check().err().unwrap_or_else(|| translate(op, health.device(), &error)))
        });
        caught.map_err(|error| gpu.or_lost(error))
    }
}
