//! Opening and warming the default device before it is asked for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use kiln_array::backend::{Completion, Pending};
use kiln_array::warm::{Progress, Report, WarmUp, WarmUpTask};
use kiln_array::{Device, Result};

use crate::Options;

/// Code that is rehearsed once the device is open.
type Rehearsal = Box<dyn FnOnce(&Device) -> Result<()> + Send>;

/// The device that [`warm_up`] opens, until somebody takes it.
static OPENING: Mutex<Option<Arc<Opening>>> = Mutex::new(None);

#[derive(Default)]
pub(crate) struct Opening {
    state: Mutex<State>,
    changed: Condvar,
}

/// How far the opening is.
#[derive(Default)]
enum Slot {
    #[default]
    Opening,
    Open(Device),
    Failed(kiln_array::Error),
    /// Somebody has it; the handles keep no device alive.
    Taken,
}

impl Slot {
    /// Takes the device out, or the error.
    fn take(&mut self) -> Option<Result<Device>> {
        match self {
            Self::Opening | Self::Taken => None,
            Self::Failed(error) => Some(Err(error.clone())),
            Self::Open(device) => {
                let device = device.clone();
                *self = Self::Taken;
                Some(Ok(device))
            }
        }
    }
}

#[derive(Default)]
struct State {
    slot: Slot,
    rehearsals: Vec<Rehearsal>,
    warming: Vec<WarmUp>,
    /// What went wrong in a rehearsal.
    failed: Option<kiln_array::Error>,
    cancelled: bool,
    finished: bool,
    wakers: Vec<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the default device behind the program, and compiles there what the program used in earlier processes: for the
/// first line of `main`, while the program reads its input.
///
/// Returns at once. The next call of [`open`](crate::open) or [`open_async`](crate::open_async) takes that device and
/// waits only for the rest of its opening; kernels that are not compiled by then are compiled when they are needed, as
/// ever. A second call before that gives the same handle.
pub fn warm_up() -> WarmUp {
    WarmUp::new(Arc::new(Handle(begin())))
}

/// As [`warm_up`], and compiles the kernels that `code` would run on the default device: it gets one that plans but
/// computes nothing, and reads of it are errors. For code that runs before [`open`](crate::open); later there is
/// [`Device::rehearse`].
pub fn rehearse(code: impl FnOnce(&Device) -> Result<()> + Send + 'static) -> WarmUp {
    let opening = begin();
    let mut state = lock(&opening.state);
    state.rehearsals.push(Box::new(code));
    let restart = std::mem::take(&mut state.finished);
    drop(state);
    if restart {
        opening.start();
    }
    WarmUp::new(Arc::new(Handle(opening)))
}

fn begin() -> Arc<Opening> {
    let mut current = lock(&OPENING);
    if let Some(opening) = &*current {
        return Arc::clone(opening);
    }
    let opening = Arc::<Opening>::default();
    opening.start();
    current.insert(opening).clone()
}

/// The device that is being opened, if one is and nobody has taken it.
pub(crate) fn take() -> Option<Arc<Opening>> {
    lock(&OPENING).take()
}

impl Opening {
    fn start(self: &Arc<Self>) {
        let opening = Arc::clone(self);
        if !background(move || opening.run()) {
            // No thread: done here.
            self.run();
        }
    }

    /// Opens, rehearses, and waits until all is warm.
    fn run(&self) {
        let known = match &lock(&self.state).slot {
            Slot::Open(device) => Some(Ok(device.clone())),
            _ => None,
        };
        let opened = known.unwrap_or_else(|| Options::from_env().open());
        let mut state = lock(&self.state);
        state.slot = match &opened {
            Ok(device) => Slot::Open(device.clone()),
            Err(error) => Slot::Failed(error.clone()),
        };
        self.wake(&mut state);
        if let Ok(device) = opened {
            if state.warming.is_empty() && !state.cancelled {
                state.warming.push(device.warm_up());
            }
            while let Some(code) = state.rehearsals.pop() {
                drop(state);
                let rehearsed = device.rehearse(code);
                state = lock(&self.state);
                match rehearsed {
                    Ok(warming) => state.warming.push(warming),
                    Err(error) => state.failed = Some(error),
                }
            }
            if state.cancelled {
                state.warming.iter().for_each(WarmUp::cancel);
            }
        }
        let warming = state.warming.clone();
        drop(state);
        for warming in warming {
            // What went wrong is in its report.
            let _ = warming.wait();
        }
        let mut state = lock(&self.state);
        state.finished = true;
        self.wake(&mut state);
    }

    fn wake(&self, state: &mut State) {
        self.changed.notify_all();
        state.wakers.drain(..).for_each(Waker::wake);
    }

    /// Blocks until the device is open.
    pub(crate) fn wait(&self) -> Result<Device> {
        let mut state = lock(&self.state);
        loop {
            if let Some(device) = state.slot.take() {
                return device;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The device, once it is open.
    pub(crate) async fn opened(self: Arc<Self>) -> Result<Device> {
        std::future::poll_fn(|cx| {
            let mut state = lock(&self.state);
            match state.slot.take() {
                Some(device) => Poll::Ready(device),
                None => {
                    state.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A thread that the end of the process waits for; `false` where there is none.
#[cfg(feature = "wgpu")]
fn background(work: impl FnOnce() + Send + 'static) -> bool {
    kiln_wgpu::background(work)
}

#[cfg(not(feature = "wgpu"))]
fn background(_: impl FnOnce() + Send + 'static) -> bool {
    false
}

/// A handle on an opening.
struct Handle(Arc<Opening>);

impl WarmUpTask for Handle {
    fn progress(&self) -> Progress {
        let state = lock(&self.0.state);
        if matches!(state.slot, Slot::Opening) {
            return Progress { current: Some("the device".to_owned()), ..Progress::default() };
        }
        state.warming.iter().map(WarmUp::progress).fold(Progress::default(), |sum, next| Progress {
            done: sum.done + next.done,
            total: sum.total + next.total,
            current: next.current.or(sum.current),
        })
    }

    fn cancel(&self) {
        let mut state = lock(&self.0.state);
        state.cancelled |= !state.finished;
        state.warming.iter().for_each(WarmUp::cancel);
    }

    fn report(&self) -> Report {
        let state = lock(&self.0.state);
        let mut report = Report { cancelled: state.cancelled, ..Report::default() };
        for part in state.warming.iter().map(WarmUp::report) {
            report.kernels.extend(part.kernels);
            report.cancelled |= part.cancelled;
        }
        report.error = match &state.slot {
            Slot::Failed(error) => Some(error.clone()),
            _ => state.failed.clone(),
        };
        report
    }

    fn finished(&self) -> Pending<()> {
        Pending::new(Finished(Arc::clone(&self.0)))
    }
}

struct Finished(Arc<Opening>);

impl Future for Finished {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.0.state);
        if state.finished {
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
        while !state.finished {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}
