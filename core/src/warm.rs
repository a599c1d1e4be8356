//! Warm-ups: kernels compiled before they are needed, and the handle to watch that with.
//!
//! What enters: kernels, from a backend's own list or from code that is rehearsed. What leaves: a [`WarmUp`]. The work
//! itself belongs to the backend.

use std::fmt;
use std::sync::Arc;

use core::time::Duration;

use crate::backend::{MaybeSendSync, Pending};
use crate::error::Error;

/// Where a kernel came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// It was compiled already when its turn came, or somebody else compiled it meanwhile.
    Ready,
    /// Written, lowered and compiled.
    Compiled,
    /// Its lowered text was in the cache; the driver compiled it.
    CachedText,
    /// Its lowered text and the driver's own form of it were in the cache.
    CachedDriver,
    /// It does not compile.
    Failed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Compiled => "compiled",
            Self::CachedText => "cached text",
            Self::CachedDriver => "cached",
            Self::Failed => "failed",
        })
    }
}

/// What became of one kernel of a warm-up.
#[derive(Clone, Debug)]
pub struct WarmedKernel {
    /// The kernel's label: `reduce.sum.f32`.
    pub kernel: String,
    /// Where it came from.
    pub origin: Origin,
    /// How long it took.
    pub time: Duration,
    /// Why it does not compile. Whoever asks for the kernel gets the same error.
    pub error: Option<Error>,
}

/// How far a warm-up is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Kernels dealt with.
    pub done: usize,
    /// Kernels in all, those done included. It grows until the list is read.
    pub total: usize,
    /// What is being done: a kernel's label, or a step of opening.
    pub current: Option<String>,
}

/// What a warm-up did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its kernels, in the order in which they were done.
    pub kernels: Vec<WarmedKernel>,
    /// Whether it was cancelled before all were done.
    pub cancelled: bool,
    /// Why there is no device to warm, if it had to be opened first; or why a rehearsal stopped, the first that did.
    pub error: Option<Error>,
}

/// A warm-up as its backend sees it.
pub trait WarmUpTask: MaybeSendSync {
    /// How far it is.
    fn progress(&self) -> Progress;

    /// Begins no further kernel. The one under way is finished.
    fn cancel(&self);

    /// What it did so far.
    fn report(&self) -> Report;

    /// Completes when nothing is left to do.
    fn finished(&self) -> Pending<()>;
}

/// A warm-up that runs behind the program. Dropping the handle changes nothing.
#[derive(Clone)]
pub struct WarmUp {
    task: Arc<dyn WarmUpTask>,
}

impl WarmUp {
    /// A handle on a task.
    #[must_use]
    pub fn new(task: Arc<dyn WarmUpTask>) -> Self {
        Self { task }
    }

    /// A warm-up that is over: for backends with nothing to warm, or that did it at once.
    #[must_use]
    pub fn done(report: Report) -> Self {
        Self::new(Arc::new(Done(report)))
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.task.progress()
    }

    /// Begins no further kernel. The one under way is finished; work that asks for a kernel compiles it as ever.
    pub fn cancel(&self) {
        self.task.cancel();
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.task.report()
    }

    /// Completes when nothing is left to do: `.await` it.
    pub fn finished(&self) -> Pending<()> {
        self.task.finished()
    }

    /// Blocks until nothing is left to do; says what was done. In a browser, where blocking is impossible, await
    /// [`finished`](Self::finished) instead.
    #[must_use]
    pub fn wait(&self) -> Report {
        // A warm-up fails nowhere: what went wrong is in the report.
        let _ = self.task.finished().wait();
        self.task.report()
    }
}

impl fmt::Debug for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { done, total, .. } = self.progress();
        write!(f, "WarmUp({done} of {total})")
    }
}

struct Done(Report);

impl WarmUpTask for Done {
    fn progress(&self) -> Progress {
        Progress { done: self.0.kernels.len(), total: self.0.kernels.len(), current: None }
    }

    fn cancel(&self) {}

    fn report(&self) -> Report {
        self.0.clone()
    }

    fn finished(&self) -> Pending<()> {
        Pending::ready(Ok(()))
    }
}
