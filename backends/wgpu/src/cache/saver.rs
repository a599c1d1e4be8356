//! The thread that saves behind the program.
//!
//! What enters: word that there is something to save. What leaves: calls of [`Cache::save`], each a moment after the word,
//! since a program's first calls come in bursts. Decided: it is started before the program's first call where something
//! else runs behind the program anyway, because starting a thread costs a tenth of a millisecond, which is much for a
//! call that finds everything ready; it sleeps until the cache is dropped. The end of the process does not wait for it
//! while it sleeps, and saves by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::Cache;
use crate::error::lock;
use crate::exit::{self, Counted};
use crate::idle;

/// How long a program's first calls are waited for before their kernels are saved.
const MOMENT: Duration = Duration::from_millis(100);

/// What the thread and those who give it word share.
#[derive(Default)]
pub(super) struct Saver {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether there is a thread.
    runs: bool,
    /// Whether something is to be saved.
    asked: bool,
    /// Whether nothing will be saved any more.
    closed: bool,
}

impl Saver {
    /// Sees to it that there is a thread.
    pub(super) fn stand_by(self: &Arc<Self>, cache: &Arc<Cache>) {
        self.start(lock(&self.state), cache);
    }

    /// Saves in a moment.
    pub(super) fn request(self: &Arc<Self>, cache: &Arc<Cache>) {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.asked, true) {
            self.start(state, cache);
            self.changed.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    fn start(self: &Arc<Self>, mut state: std::sync::MutexGuard<'_, State>, cache: &Arc<Cache>) {
        if std::mem::replace(&mut state.runs, true) {
            return;
        }
        drop(state);
        let (saver, cache) = (Arc::clone(self), Arc::downgrade(cache));
        if !idle::run("kiln-save", move || saver.work(&cache)) {
            // The next word tries again; the end of the device, or of the process, saves.
            *lock(&self.state) = State::default();
        }
    }

    fn work(&self, cache: &Weak<Cache>) {
        while self.is_asked() {
            // When the process ends, its end saves.
            let Some(_counted) = Counted::new() else { return };
            exit::pause(MOMENT);
            // From here on, what comes is for the next turn.
            lock(&self.state).asked = false;
            let Some(cache) = cache.upgrade() else { return };
            // As after a panic on any thread of ours: it is in the log, and the next turn comes.
            let _ = catch_unwind(AssertUnwindSafe(|| cache.save()));
        }
    }

    /// Waits for word; `false` once there will be none.
    fn is_asked(&self) -> bool {
        let mut state = lock(&self.state);
        while !state.asked && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.closed
    }
}
