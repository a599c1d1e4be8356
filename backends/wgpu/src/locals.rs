//! Calls from destructors of thread-local variables.
//!
//! What enters: work on the device, from any place of a program. What leaves: its result. Decided: debug builds of wgpu
//! keep a thread-local variable, and end the process when they meet it gone. So a variable of ours is made right after
//! wgpu's, and goes right before it, since variables go in the reverse order; from then on the thread's calls run on a
//! thread of their own, which it waits for. Whatever else is done on a thread costs one look at a flag.

use std::cell::Cell;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kiln_array::backend::{Completion, MaybeSend};
use kiln_array::{Pending, Result};

use crate::engine::Engine;

thread_local! {
    /// Whether the thread's variables go. Without a destructor, it can be read to the thread's end.
    static GOING: Cell<bool> = const { Cell::new(false) };
    static SENTINEL: Sentinel = const { Sentinel };
}

struct Sentinel;

impl Drop for Sentinel {
    fn drop(&mut self) {
        GOING.set(true);
    }
}

/// Notes that this thread has made a call after which wgpu's variable exists. To be called after the first of those
/// calls that need it: bind groups, writes, submissions, polls.
pub(crate) fn used() {
    // Gone already: then the note is there.
    let _ = SENTINEL.try_with(|_| ());
}

/// Does `work` where wgpu can.
pub(crate) fn safely<T: MaybeSend>(work: impl FnOnce() -> T + MaybeSend) -> T {
    if GOING.get() { aside(work) } else { work() }
}

#[cfg(not(target_arch = "wasm32"))]
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let place = &mut work;
    let done = std::thread::scope(|scope| crate::worker::scoped(scope, move || place.take().map(|work| work())));
    match (done, work) {
        (Some(Ok(Some(result))), _) => result,
        (Some(Err(panic)), _) => std::panic::resume_unwind(panic),
        // The system gives no thread: release builds need none.
        (_, Some(work)) => work(),
        (_, None) => unreachable!("work that was taken has a result"),
    }
}

/// A browser's page ends with its threads.
#[cfg(target_arch = "wasm32")]
fn aside<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// A handle on an engine that can be the last one anywhere.
#[derive(Clone)]
pub(crate) struct Shared(Option<Arc<Engine>>);

impl Shared {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self(Some(engine))
    }
}

impl Deref for Shared {
    type Target = Arc<Engine>;
    fn deref(&self) -> &Arc<Engine> {
        self.0.as_ref().expect("a handle holds its engine until it is dropped")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let engine = self.0.take();
        safely(move || drop(engine));
    }
}

/// A result on its way that can be polled, awaited and dropped anywhere.
pub(crate) struct Anywhere<T>(Option<Pending<T>>);

impl<T: MaybeSend + 'static> Anywhere<T> {
    pub(crate) fn pending(inner: Pending<T>) -> Pending<T> {
        Pending::new(Self(Some(inner)))
    }
}

const TAKEN: &str = "a pending result is taken once";

impl<T: MaybeSend> Future for Anywhere<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut().expect(TAKEN);
        let waker = cx.waker();
        safely(move || Pin::new(inner).poll(&mut Context::from_waker(waker)))
    }
}

impl<T: MaybeSend> Completion<T> for Anywhere<T> {
    fn wait(mut self: Pin<Box<Self>>) -> Result<T> {
        let inner = self.0.take().expect(TAKEN);
        safely(move || inner.wait())
    }
}

impl<T> Drop for Anywhere<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        safely(move || drop(inner));
    }
}
