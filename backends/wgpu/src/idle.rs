//! Threads that have done their work and wait for more.
//!
//! What enters: work and a name. What leaves: the work is done on a thread of that name. Decided: one thread of each name
//! stays for a while after its work. Allocators give each thread an arena, whose free memory nobody takes back when the
//! thread ends. So a program that opens devices again and again would own ever more of it if each had new threads. If more
//! of a name stayed, each of their arenas would grow to what the largest kernel needs. Names keep small work away from the
//! thread that has the large arena. Work never waits for a thread: where none is idle, a new one starts. The end of the
//! process does not wait for idle threads, which hold nothing and are in no driver.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::error::lock;

/// How long a thread waits for more work before it ends.
const WHILE: Duration = Duration::from_secs(60);

/// Shaders are parsed and compiled by recursion.
pub(crate) const STACK: usize = 8 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// A thread without work.
struct Idle {
    name: &'static str,
    id: ThreadId,
    /// A process that was forked off has the list, but not the threads.
    process: u32,
    sender: mpsc::Sender<Work>,
}

/// The threads without work, one of each name.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Runs `work` on a thread of that name; `false` where there is none.
pub(crate) fn run(name: &'static str, work: impl FnOnce() + Send + 'static) -> bool {
    let Some(work) = hand_over(name, Box::new(work)) else { return true };
    thread::Builder::new().name(name.into()).stack_size(STACK).spawn(move || live(name, work)).is_ok()
}

/// Gives `work` to an idle thread, or back.
fn hand_over(name: &str, mut work: Work) -> Option<Work> {
    let mut idle = lock(&IDLE);
    idle.retain(|idle| idle.process == process::id());
    while let Some(at) = idle.iter().position(|idle| idle.name == name) {
        match idle.remove(at).sender.send(work) {
            Ok(()) => return None,
            Err(refused) => work = refused.0,
        }
    }
    Some(work)
}

/// A thread's life.
fn live(name: &'static str, mut work: Work) {
    loop {
        // A panic is in the log by its hook.
        let _ = catch_unwind(AssertUnwindSafe(work));
        let (sender, receiver) = mpsc::channel();
        let id = thread::current().id();
        let mut idle = lock(&IDLE);
        if idle.iter().any(|idle| idle.name == name && idle.process == process::id()) {
            return;
        }
        idle.push(Idle { name, id, process: process::id(), sender });
        drop(idle);
        let next = receiver.recv_timeout(WHILE).or_else(|_| {
            // Work is handed over under the lock: what has not come by now will not come.
            lock(&IDLE).retain(|idle| idle.id != id);
            receiver.try_recv()
        });
        match next {
            Ok(next) => work = next,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does something on a thread, and says which that was once it is idle.
    fn once(name: &'static str, panics: bool) -> ThreadId {
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            assert_eq!(thread::current().name(), Some(name));
            let _ = sender.send(thread::current().id());
            assert!(!panics, "as the test wants it");
        };
        assert!(run(name, work));
        let id = receiver.recv_timeout(WHILE).expect("the work is done");
        while !lock(&IDLE).iter().any(|idle| idle.id == id) {
            thread::yield_now();
        }
        id
    }

    #[test]
    fn a_thread_does_later_work_of_its_name() {
        let first = once("test-idle-a", false);
        assert_ne!(once("test-idle-b", false), first);
        assert_eq!(once("test-idle-a", true), first);
        assert_eq!(once("test-idle-a", false), first, "a panic ends no thread");
    }

    #[test]
    fn work_never_waits_for_a_thread() {
        let (sender, receiver) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        assert!(run("test-idle-c", move || {
            let _ = wait.recv();
        }));
        assert!(run("test-idle-c", move || {
            let _ = sender.send(());
        }));
        receiver.recv_timeout(WHILE).expect("the first thread has work, so a second one does this");
        drop(go_on);
    }

    #[test]
    fn a_list_from_before_a_fork_is_not_used() {
        let (sender, receiver) = mpsc::channel();
        let process = process::id().wrapping_add(1);
        lock(&IDLE).push(Idle { name: "test-idle-d", id: thread::current().id(), process, sender });
        once("test-idle-d", false);
        assert!(receiver.try_recv().is_err());
    }
}
