//! Opening and warming the default device before it is asked for.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use kiln_array::backend::{Completion, Pending};
use kiln_array::warm::{Progress, Report, WarmUp, WarmUpTask};
use kiln_array::{Device, ErrorKind, Result};

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
    /// The thread that opens it could not be had, or panicked: whoever wants a device opens one.
    GaveUp,
}

#[derive(Default)]
struct State {
    slot: Slot,
    rehearsals: VecDeque<Rehearsal>,
    warming: Vec<WarmUp>,
    /// What went wrong in a rehearsal, the first time.
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
/// ever. A second call before that gives the same handle; one after it warms the device that is open, or opens another
/// where none is.
pub fn warm_up() -> WarmUp {
    WarmUp::new(Arc::new(Handle(begin(None))))
}

/// As [`warm_up`], and compiles the kernels that `code` would run on the default device: it gets one that plans but
/// computes nothing, and reads of it are errors. For code that runs before [`open`](crate::open); later there is
/// [`Device::rehearse`].
pub fn rehearse(code: impl FnOnce(&Device) -> Result<()> + Send + 'static) -> WarmUp {
    WarmUp::new(Arc::new(Handle(begin(Some(Box::new(code))))))
}

/// The opening that nobody has taken, or a new one; with a rehearsal, if there is one to add.
fn begin(code: Option<Rehearsal>) -> Arc<Opening> {
    let mut current = lock(&OPENING);
    if let Some(opening) = &*current {
        let mut state = lock(&opening.state);
        // One that is over does nothing more.
        if !state.finished || code.is_none() {
            state.rehearsals.extend(code);
            drop(state);
            return Arc::clone(opening);
        }
        // Its device is open: what is new is rehearsed on it, by another opening that begins with it.
        let slot = std::mem::replace(&mut state.slot, Slot::Taken);
        drop(state);
        return current.insert(Opening::start(slot, code)).clone();
    }
    current.insert(Opening::start(Slot::Opening, code)).clone()
}

/// The device that is being opened, if one is and nobody has taken it: waits for it. `None` where there is none to wait
/// for.
pub(crate) fn take() -> Option<Result<Device>> {
    let opening = lock(&OPENING).clone()?;
    let mut state = lock(&opening.state);
    loop {
        if let Some(taken) = opening.taken(&mut state) {
            return taken;
        }
        state = opening.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// [`take`] without blocking. The device stays where it is if the future is dropped before.
pub(crate) async fn take_async() -> Option<Result<Device>> {
    let opening = lock(&OPENING).clone()?;
    std::future::poll_fn(|cx| {
        let mut state = lock(&opening.state);
        match opening.taken(&mut state) {
            Some(taken) => Poll::Ready(taken),
            None => {
                state.wake_later(cx);
                Poll::Pending
            }
        }
    })
    .await
}

impl State {
    fn wake_later(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }
}

impl Opening {
    fn start(slot: Slot, code: Option<Rehearsal>) -> Arc<Self> {
        let state = State { slot, rehearsals: code.into_iter().collect(), ..State::default() };
        let opening = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let other = Arc::clone(&opening);
        if !background(move || other.run()) {
            opening.end();
        }
        opening
    }

    /// Opens, rehearses, and waits until all is warm.
    fn run(&self) {
        // Whatever happens, nobody waits for ever.
        struct Ends<'a>(&'a Opening);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let _ends = Ends(self);
        let known = match &lock(&self.state).slot {
            Slot::Open(device) => Some(device.clone()),
            _ => None,
        };
        let device = match known {
            Some(device) => device,
            None => match self.open() {
                Some(device) => device,
                None => return,
            },
        };
        loop {
            let mut state = lock(&self.state);
            if state.cancelled {
                state.rehearsals.clear();
                state.warming.iter().for_each(WarmUp::cancel);
            }
            let Some(code) = state.rehearsals.pop_front() else {
                let warming = state.warming.clone();
                drop(state);
                // What went wrong is in their reports.
                warming.iter().for_each(|warming| drop(warming.wait()));
                let mut state = lock(&self.state);
                if state.rehearsals.is_empty() {
                    state.finished = true;
                    return;
                }
                continue;
            };
            drop(state);
            let rehearsed = catch_unwind(AssertUnwindSafe(|| device.rehearse(code))).unwrap_or_else(|_| {
                let message = "the code that is rehearsed panicked".to_owned();
                Err(ErrorKind::Backend { op: "rehearse", message }.into())
            });
            let mut state = lock(&self.state);
            match rehearsed {
                Ok(warming) => state.warming.push(warming),
                Err(error) => drop(state.failed.get_or_insert(error)),
            }
        }
    }

    /// Opens the device, and begins to warm it.
    fn open(&self) -> Option<Device> {
        let opened = Options::from_env().open();
        let mut state = lock(&self.state);
        state.slot = match &opened {
            Ok(device) => Slot::Open(device.clone()),
            Err(error) => Slot::Failed(error.clone()),
        };
        self.wake(state);
        let device = opened.ok()?;
        let warming = device.warm_up();
        lock(&self.state).warming.push(warming);
        Some(device)
    }

    /// Nothing more is done.
    fn end(&self) {
        let mut state = lock(&self.state);
        if matches!(state.slot, Slot::Opening) {
            state.slot = Slot::GaveUp;
        }
        state.finished = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        // A waker may poll at once, on this thread.
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the device out, or the error, once there is one; `Some(None)` where nobody opens one.
    fn taken(self: &Arc<Self>, state: &mut State) -> Option<Option<Result<Device>>> {
        let taken = match &state.slot {
            Slot::Opening => return None,
            Slot::Taken | Slot::GaveUp => None,
            Slot::Failed(error) => Some(Err(error.clone())),
            Slot::Open(device) => Some(Ok(device.clone())),
        };
        if matches!(state.slot, Slot::Open(_)) {
            state.slot = Slot::Taken;
        }
        // The next one that opens a device gets another.
        let mut current = OPENING.try_lock();
        if let Ok(current) = &mut current
            && current.as_ref().is_some_and(|current| Arc::ptr_eq(current, self))
        {
            **current = None;
        }
        Some(taken)
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
        state.wake_later(cx);
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
