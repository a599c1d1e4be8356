//! One open device for equal options, as long as somebody has a handle on it.
//!
//! What enters: options with all that the environment says. What leaves: a handle on the device that they have opened,
//! or the task of opening it. Whoever comes while it is being opened waits for that.

use std::future::Future;
use std::task::{Poll, Waker};

use kiln_array::device::WeakDevice;
use kiln_array::{Device, Result};

use crate::Options;

/// A device that was opened with these options, or is being opened.
struct Entry {
    options: Options,
    state: State,
}

enum State {
    Opening(Vec<Waker>),
    Open(WeakDevice),
}

/// The devices of the process.
#[cfg(not(target_arch = "wasm32"))]
fn with<R>(work: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
    use std::sync::{Mutex, PoisonError};
    static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
    work(&mut ENTRIES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The devices of the thread: the GPU's handles stay on one in a browser.
#[cfg(target_arch = "wasm32")]
fn with<R>(work: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
    thread_local!(static ENTRIES: std::cell::RefCell<Vec<Entry>> = const { std::cell::RefCell::new(Vec::new()) });
    ENTRIES.with(|entries| work(&mut entries.borrow_mut()))
}

/// What there is for options.
enum Found {
    Open(Device),
    /// Somebody opens it.
    Wait,
    /// It is ours to open, after the one that was lost. Dropping the last handle on that one waits for its threads,
    /// which nobody else should.
    Ours(Option<Device>),
}

fn find(options: &Options, waker: &Waker) -> Found {
    with(|entries| {
        let mut lost = None;
        let Some(at) = entries.iter().position(|entry| entry.options == *options) else {
            entries.push(Entry { options: options.clone(), state: State::Opening(Vec::new()) });
            return Found::Ours(lost);
        };
        match &mut entries[at].state {
            State::Opening(wakers) => {
                if !wakers.iter().any(|known| known.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
                return Found::Wait;
            }
            State::Open(weak) => {
                if let Some(device) = weak.upgrade() {
                    if !device.backend().is_lost() {
                        return Found::Open(device);
                    }
                    lost = Some(device);
                }
            }
        }
        entries[at].state = State::Opening(Vec::new());
        Found::Ours(lost)
    })
}

/// Notes the device that was opened, or that none was, and wakes those who wait: also where opening is dropped halfway.
struct Turn<'a> {
    options: &'a Options,
    opened: Option<WeakDevice>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let opened = self.opened.take();
        let wakers = with(|entries| {
            let at = entries.iter().position(|entry| entry.options == *self.options)?;
            let state = match opened {
                Some(weak) => std::mem::replace(&mut entries[at].state, State::Open(weak)),
                // Those who wait find nothing, and open it themselves.
                None => entries.swap_remove(at).state,
            };
            // Devices that are gone are not remembered.
            entries.retain(|entry| !matches!(&entry.state, State::Open(weak) if weak.is_gone()));
            Some(state)
        });
        if let Some(State::Opening(wakers)) = wakers {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// The open device of these options, or the one that `open` gives.
///
/// Natively nobody stops halfway, since wgpu opens devices before it returns a future: a thread that blocks here waits
/// for another thread, not for a task of its own.
pub(crate) async fn device(options: &Options, open: impl Future<Output = Result<Device>>) -> Result<Device> {
    let found = std::future::poll_fn(|cx| match find(options, cx.waker()) {
        Found::Wait => Poll::Pending,
        found => Poll::Ready(found),
    });
    match found.await {
        Found::Open(device) => return Ok(device),
        Found::Ours(lost) => drop(lost),
        Found::Wait => {}
    }
    let mut turn = Turn { options, opened: None };
    let device = open.await?;
    turn.opened = Some(device.downgrade());
    Ok(device)
}
