//! The end of the process: warm-ups stop, files are written, and nobody is left inside the driver.
//!
//! Drivers crash when their libraries go while a thread of ours is in one, and `std::process::exit` runs no destructor. So
//! we have the C library call us at every regular end of the process: what it calls forbids new work, saves what is unsaved,
//! and waits, two seconds at most, until our threads are gone. It must come before the functions that drivers register when
//! they compile for the first time. A thread's own variables go before all of those (glibc, macOS), so one of the main
//! thread's, where it used Kiln, does it as it goes. An end by another thread runs registered functions only, in the reverse
//! order of their registration: so while threads of ours are in a driver, ours is registered again and again, to stay the
//! last, which leaves moments when it is not.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

use kiln_array::DeviceKind;

use crate::engine::Engine;
use crate::error::lock;
use crate::worker;

/// How long the end of the process may be held up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static THREADS: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
static ENGINES: Mutex<Vec<Weak<Engine>>> = Mutex::new(Vec::new());

/// Whether the process ends: no work is begun.
pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// Counts a thread of ours until it is dropped.
pub(crate) struct Counted(());

impl Counted {
    /// Counts one; `None` when the process ends.
    pub(crate) fn new() -> Option<Self> {
        be_called();
        let mut threads = lock(&THREADS);
        if is_exiting() {
            return None;
        }
        *threads += 1;
        Some(Self(()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *lock(&THREADS) -= 1;
        ENDED.notify_all();
    }
}

/// Saves the files of a device when the process ends, and waits for its work where that runs in this process.
pub(crate) fn remember(engine: Weak<Engine>) {
    be_called();
    let mut engines = lock(&ENGINES);
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(engine);
}

/// Sees to it that the end of the process is noticed.
fn be_called() {
    static ONCE: Once = Once::new();
    ONCE.call_once(register);
    // The variable may be gone by now.
    let _ = END_OF_MAIN.try_with(|_| ());
}

thread_local! {
    static END_OF_MAIN: EndOfMain = EndOfMain { is_main: is_main() };
}

/// Ends the process's work when the main thread's variables go, which is when the process ends.
struct EndOfMain {
    is_main: bool,
}

impl Drop for EndOfMain {
    fn drop(&mut self) {
        if self.is_main {
            at_exit();
        }
    }
}

/// Whether this is the thread that the process began with, whose variables go before anything else ends.
fn is_main() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: the call takes nothing and cannot fail.
    let is_main = u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }) == Ok(std::process::id());
    #[cfg(target_vendor = "apple")]
    // SAFETY: as above.
    let is_main = unsafe { libc::pthread_main_np() } == 1;
    // Windows ends all other threads before.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    let is_main = false;
    is_main
}

unsafe extern "C" {
    /// The C library's: calls a function when the process ends regularly.
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

/// Makes our function the first that runs at the end of the process.
fn register() {
    // SAFETY: every C library has `atexit`; the function stays valid, takes nothing and does not unwind.
    if unsafe { atexit(at_exit) } != 0 {
        log::debug!("kiln: the C library takes no further function for the end of the process");
    }
}

/// Keeps our function the first until `is_over`, for threads that are in a driver meanwhile.
pub(crate) fn stay_first(is_over: impl Fn() -> bool) {
    let start = Instant::now();
    // The C library keeps every registration: there is an end to them.
    static LEFT: AtomicI64 = AtomicI64::new(10_000);
    while !is_exiting() && !is_over() && LEFT.fetch_sub(1, Ordering::Relaxed) > 0 {
        register();
        // Most of what a driver registers comes with its first kernel.
        let early = start.elapsed() < Duration::from_millis(500);
        pause(if early { Duration::from_micros(250) } else { Duration::from_millis(4) });
    }
}

/// Sleeps, but not beyond the end of the process.
pub(crate) fn pause(time: Duration) {
    let start = Instant::now();
    let mut threads = lock(&THREADS);
    while let Some(rest) = time.checked_sub(start.elapsed())
        && !is_exiting()
    {
        threads = ENDED.wait_timeout(threads, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
}

extern "C" fn at_exit() {
    // Nothing may unwind into the C library.
    let _ = std::panic::catch_unwind(end);
}

fn end() {
    let start = Instant::now();
    // Registered more than once, run once.
    let threads = lock(&THREADS);
    let again = EXITING.swap(true, Ordering::Relaxed);
    drop(threads);
    ENDED.notify_all();
    if again {
        return;
    }
    let engines: Vec<_> =
        ENGINES.try_lock().map(|engines| engines.iter().filter_map(Weak::upgrade).collect()).unwrap_or_default();
    engines.iter().for_each(|engine| engine.warming.cancel());
    // A disk may hang; this thread must not.
    *lock(&THREADS) += 1;
    let counted = Counted(());
    let saved = engines.clone();
    let save = move || {
        let _counted = counted;
        saved.iter().for_each(|engine| engine.save());
        // A software GPU computes, and compiles, on threads of its driver in this process.
        let software = saved.iter().filter(|engine| engine.info.kind == DeviceKind::SoftwareGpu);
        for engine in software {
            if let Err(error) = engine.wait_until_idle() {
                log::debug!("kiln: at the end of the process: {error}");
            }
        }
        // Not dropped here either.
        std::mem::forget(saved);
    };
    if !worker::uncounted("kiln-last", save) {
        log::debug!("kiln: no thread to save compiled kernels at the end");
    }
    let mut threads = lock(&THREADS);
    while *threads > 0 {
        let Some(rest) = PATIENCE.checked_sub(start.elapsed()) else { break };
        threads = ENDED.wait_timeout(threads, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(threads);
    // What these handles alone still hold must not be dropped now: drivers may be half gone.
    std::mem::forget(engines);
}
