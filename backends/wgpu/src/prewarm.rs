//! Kernels compiled before they are needed, on threads that end when the list does.
//!
//! What enters: a list of kernels, or the question which ones the program used before. What leaves: a handle. Decided: a
//! user's call never waits for the list: it takes a kernel that is under way when that compile is done, and compiles any
//! other itself, since both go through the same cell of `pipelines`. So the order matters little to a call, and much to how long
//! the list takes: of a stretch of kernels the largest goes first. Every kernel is dispatched once with no work (`touch`), and
//! what else a device does for the first time happens beside (`steps`). Threads hold the device only while they work on one
//! kernel, so dropping it ends the list.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use kiln_array::backend::Completion;
use kiln_array::kernel::{Family, KernelSpec};
use kiln_array::recorder::{Recorder, kernels};
use kiln_array::reduce::Reduce;
use kiln_array::scan::Scan;
use kiln_array::warm::{Progress, Report, WarmUp, WarmUpTask};
use kiln_array::{ArrayOps, Caps, Result};

use crate::cache::Cache;
use crate::engine::Engine;
use crate::error::lock;
use crate::touch::Scratch;
use crate::{exit, worker};

/// Threads at most, unless more are asked for.
const MOST_THREADS: usize = 8;

/// How many threads warm up on this machine: half of its cores, so that the program keeps the others; none on one core.
pub(crate) fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores == 1 { 0 } else { (cores / 2).clamp(1, MOST_THREADS) }
}

/// The warm-ups of a device.
#[derive(Default)]
pub(crate) struct Warming {
    /// That of what the program used before.
    usual: Mutex<Option<Arc<Task>>>,
    /// All that may be under way.
    tasks: Mutex<Vec<Weak<Task>>>,
    /// What kernels are first dispatched on.
    pub(crate) scratch: OnceLock<Scratch>,
    /// Held during a first dispatch.
    pub(crate) touching: Mutex<()>,
    /// Whether the program has worked with the device.
    in_use: AtomicBool,
}

impl Warming {
    /// Notes that the program works with the device.
    pub(crate) fn note_use(&self) {
        if !self.in_use.load(Ordering::Relaxed) {
            self.in_use.store(true, Ordering::Relaxed);
        }
    }

    /// The warm-up of what the program used before: the one under way or done, or a new one where that was cancelled or
    /// some kernel failed, which may have passed.
    pub(crate) fn usual(engine: &Arc<Engine>, threads: usize) -> Arc<Task> {
        let mut usual = lock(&engine.warming.usual);
        match &*usual {
            Some(task) if !task.is_over() || task.is_whole() => Arc::clone(task),
            _ => Arc::clone(usual.insert(Task::start(engine, threads, true, Vec::new()))),
        }
    }

    /// Begins no further kernel. Called at the end of the process, too, when a lock may never come free.
    pub(crate) fn cancel(&self) {
        if let Ok(tasks) = self.tasks.try_lock() {
            under_way(&tasks).iter().for_each(|task| task.cancel());
        }
    }

    /// Begins no further kernel, and waits until no thread is in the driver, but not for ever.
    pub(crate) fn end(&self) {
        let tasks = under_way(&lock(&self.tasks));
        tasks.iter().for_each(|task| task.cancel());
        tasks.iter().for_each(|task| task.wait_a_while());
    }
}

fn under_way(tasks: &[Weak<Task>]) -> Vec<Arc<Task>> {
    tasks.iter().filter_map(Weak::upgrade).collect()
}

/// A warm-up under way.
pub(crate) struct Task {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether the device's first steps are still to be done, and the program's list to be read.
    first: bool,
    queue: VecDeque<Arc<KernelSpec>>,
    /// Labels of the kernels under way.
    current: Vec<String>,
    /// What else is under way.
    step: Option<&'static str>,
    report: Report,
    threads: usize,
    wakers: Vec<Waker>,
}

impl Task {
    /// Warms `specs` on up to `threads` threads; before that the device's first steps and the kernels that the program
    /// used before, if `first`.
    pub(crate) fn start(engine: &Arc<Engine>, threads: usize, first: bool, specs: Vec<Arc<KernelSpec>>) -> Arc<Self> {
        let wanted = (specs.len() + usize::from(first)).min(threads.max(1));
        let state = State { first, queue: largest_first(specs).into(), ..State::default() };
        let task = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let mut tasks = lock(&engine.warming.tasks);
        tasks.retain(|task| task.strong_count() > 0);
        tasks.push(Arc::downgrade(&task));
        drop(tasks);
        task.spawn(engine, wanted, threads.max(1));
        let watched = Arc::clone(&task);
        worker::detached("kiln-exit", move || exit::stay_first(|| watched.is_over()));
        task
    }

    /// Starts threads, as far as the system has any.
    fn spawn(self: &Arc<Self>, engine: &Arc<Engine>, count: usize, most: usize) {
        for _ in 0..count {
            lock(&self.state).threads += 1;
            let (task, engine) = (Arc::clone(self), Arc::downgrade(engine));
            if !worker::detached(worker::WARM_UP, move || task.work(&engine, most)) {
                self.leave();
            }
        }
    }

    /// One thread's work.
    fn work(self: &Arc<Self>, engine: &Weak<Engine>, most: usize) {
        // The thread is counted until here, whatever happens between.
        struct Leaves<'a>(&'a Task);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                self.0.leave();
            }
        }
        let _leaves = Leaves(self);
        while let Some(engine) = engine.upgrade().filter(|_| !exit::is_exiting()) {
            let mut state = lock(&self.state);
            if state.report.cancelled {
                break;
            }
            if std::mem::take(&mut state.first) {
                drop(state);
                self.first_steps(&engine, most);
                continue;
            }
            let Some(spec) = state.queue.pop_front() else { break };
            let label = spec.label();
            state.current.push(label.clone());
            drop(state);
            let warmed = engine.pipelines.warm(&engine.gpu, &spec);
            if warmed.error.is_none() {
                engine.touch(&spec, || !exit::is_exiting() && !lock(&self.state).report.cancelled);
            }
            let mut state = lock(&self.state);
            if let Some(at) = state.current.iter().position(|current| *current == label) {
                state.current.remove(at);
            }
            state.report.kernels.push(warmed);
        }
    }

    /// Reads the list, starts more threads for it, and lets the device's first steps happen.
    fn first_steps(self: &Arc<Self>, engine: &Arc<Engine>, most: usize) {
        // A list names each kernel once; the common ones may be on it.
        let mut specs: Vec<_> = engine.pipelines.used_before().into_iter().map(|used| used.spec).collect();
        for spec in common(&engine.caps) {
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        let mut state = lock(&self.state);
        state.step = Some("the list");
        state.queue.extend(largest_first(specs));
        let more = state.queue.len().min(most.saturating_sub(state.threads));
        drop(state);
        self.spawn(engine, more, most);
        lock(&self.state).step = Some("the first steps");
        if let Some(cache) = &engine.pipelines.compiler.cache {
            Cache::stand_by(cache);
        }
        let task = Arc::clone(self);
        let wanted = move |warming: &Warming| {
            !warming.in_use.load(Ordering::Relaxed) && !exit::is_exiting() && !lock(&task.state).report.cancelled
        };
        if let Err(error) = engine.first_steps(wanted) {
            log::debug!("kiln: the device's first steps: {error}");
        }
        lock(&self.state).step = None;
    }

    /// One thread less; the last one tells that all is done.
    fn leave(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        if state.threads == 0 {
            state.report.cancelled |= state.first || !state.queue.is_empty();
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            self.changed.notify_all();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// A handle on the task.
    pub(crate) fn handle(self: &Arc<Self>) -> WarmUp {
        WarmUp::new(Arc::new(Handle(Arc::clone(self))))
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).threads == 0
    }

    /// Whether nothing was left out and no kernel failed.
    fn is_whole(&self) -> bool {
        let report = &lock(&self.state).report;
        !report.cancelled && report.kernels.iter().all(|kernel| kernel.error.is_none())
    }

    /// Waits until no thread of it is in the driver, but not for ever.
    fn wait_a_while(&self) {
        let state = lock(&self.state);
        let _ = self.changed.wait_timeout_while(state, exit::PATIENCE, |state| state.threads > 0);
    }

    /// Begins no further kernel.
    fn cancel(&self) {
        let mut state = lock(&self.state);
        if state.threads > 0 && (state.first || state.step.is_some() || !state.queue.is_empty()) {
            state.report.cancelled = true;
        }
    }
}

/// A handle, which may be kept after the device is gone.
struct Handle(Arc<Task>);

impl WarmUpTask for Handle {
    fn progress(&self) -> Progress {
        let state = lock(&self.0.state);
        let done = state.report.kernels.len();
        let current = state.current.last().cloned().or_else(|| state.step.map(str::to_owned));
        Progress { done, total: done + state.queue.len() + state.current.len(), current }
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    fn report(&self) -> Report {
        lock(&self.0.state).report.clone()
    }

    fn finished(&self) -> kiln_array::Pending<()> {
        kiln_array::Pending::new(Finished(Arc::clone(&self.0)))
    }
}

struct Finished(Arc<Task>);

impl Future for Finished {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.0.state);
        if state.threads == 0 {
            return Poll::Ready(Ok(()));
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Completion<()> for Finished {
    fn wait(self: Pin<Box<Self>>) -> Result<()> {
        let mut state = lock(&self.0.state);
        while state.threads > 0 {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

/// Kernels within which the largest goes first.
const STRETCH: usize = 64;

/// The same kernels, stretch by stretch those first that take a compiler longest: begun last, one of them would leave all
/// threads but its own idle at the end.
fn largest_first(mut specs: Vec<Arc<KernelSpec>>) -> Vec<Arc<KernelSpec>> {
    for stretch in specs.chunks_mut(STRETCH) {
        stretch.sort_by_key(|spec| std::cmp::Reverse(size(spec)));
    }
    specs
}

/// How much there is to compile, roughly: a tile's tree of combinations is written out in registers.
fn size(spec: &KernelSpec) -> usize {
    let combinations = match spec.family {
        Family::Map => 0,
        Family::Spine => 4,
        Family::Reduce => 16,
        _ => 32,
    };
    combinations * (4 + spec.combine.instrs.len()) + spec.map.instrs.len() + spec.finish.instrs.len()
}

/// Kernels that many programs begin with.
fn common(caps: &Caps) -> Vec<Arc<KernelSpec>> {
    let recorder = Recorder::new(caps.clone());
    let device = recorder.device();
    let plan = || -> Result<()> {
        let x = device.full(0f32, [1000, 1000])?;
        let y = device.full(0f32, [1000, 1000])?;
        (&x + &y).eval()?;
        x.sum(..)?;
        x.cumsum(1)?;
        Ok(())
    };
    if let Err(error) = plan() {
        log::debug!("kiln: the common kernels: {error}");
    }
    kernels(&recorder.take()).map(Arc::clone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_goes_first_within_a_stretch() {
        let some = common(&Recorder::gpu_caps());
        let names = |specs: &[Arc<KernelSpec>]| specs.iter().map(|spec| spec.family.name()).collect::<Vec<_>>();
        let sorted = largest_first(some.clone());
        let mut ranks: Vec<_> = names(&sorted);
        ranks.dedup();
        assert_eq!(ranks, ["scan", "reduce", "map"], "of {:?}", names(&some));
        // A later stretch does not come before an earlier one.
        let map = some.iter().find(|spec| spec.family == Family::Map).expect("a sum of arrays is one");
        let scan = some.iter().find(|spec| spec.family == Family::Scan).expect("running sums are one");
        let mut long = vec![Arc::clone(map); STRETCH];
        long.push(Arc::clone(scan));
        assert_eq!(names(&largest_first(long.clone())), names(&long));
    }
}
