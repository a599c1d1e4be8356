//! Ends the process by name when one program takes too long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What one program may take.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Watchdog(Arc<Mutex<Option<(Instant, String)>>>);

impl Watchdog {
    /// Starts the thread that watches.
    pub(crate) fn start() -> Self {
        let watchdog = Self(Arc::default());
        let watched = watchdog.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let running = watched.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((start, text)) = running.filter(|(start, _)| start.elapsed() > LIMIT) {
                    println!("soak: FAILED: a statement takes {:?}, over {LIMIT:?}\n{text}", start.elapsed());
                    // Functions that run at a regular end might wait for what hangs.
                    std::process::abort();
                }
            }
        });
        watchdog
    }

    pub(crate) fn begin(&self, text: &str) {
        self.set(Some((Instant::now(), text.to_owned())));
    }

    pub(crate) fn end(&self) {
        self.set(None);
    }

    fn set(&self, running: Option<(Instant, String)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}
