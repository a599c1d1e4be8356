//! The thread that waits for the device on behalf of futures, and threads for a while. Only this file and `idle` start
//! threads.
//!
//! What enters: submissions that somebody awaits. What leaves: their callbacks have run. It starts with the first
//! future that is polled before its result is there, sleeps while nobody awaits anything, and has ended when the backend
//! is dropped: drivers crash when a device goes while the process exits. In a browser, which calls back by itself, it
//! does nothing.

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::{Worker, side_by_side};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::{Ahead, WARM_UP, Worker, detached, is_own, scoped, side_by_side, uncounted};

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::sync::{Arc, OnceLock, mpsc};
    use std::thread::{self, JoinHandle};

    use crate::cache::{self, Cache, CacheOptions};
    use crate::error::Gpu;
    use crate::exit::Counted;
    use crate::idle::{self, STACK};
    use crate::readback::Slot;

    /// The name of warm-ups' threads.
    pub(crate) const WARM_UP: &str = "kiln-warm-up";

    /// Runs `work` on a thread that has no other meanwhile; the process's end waits for it. `false` where there is none.
    pub(crate) fn detached(name: &'static str, work: impl FnOnce() + Send + 'static) -> bool {
        let Some(counted) = Counted::new() else { return false };
        let body = move || {
            let _counted = counted;
            work();
        };
        idle::run(name, body)
    }

    /// Runs `work` on a thread that does not count by itself; `false` where there is none.
    pub(crate) fn uncounted(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        thread::Builder::new().name(name.into()).spawn(work).is_ok()
    }

    /// Runs `work` on a thread of `scope`, and waits for it; `None` where there is no thread.
    pub(crate) fn scoped<'scope, T: Send + 'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<thread::Result<T>> {
        let thread = thread::Builder::new().name("kiln-aside".into()).stack_size(STACK).spawn_scoped(scope, work);
        thread.ok().map(thread::ScopedJoinHandle::join)
    }

    /// Whether this is a thread of a warm-up.
    pub(crate) fn is_own() -> bool {
        thread::current().name() == Some(WARM_UP)
    }

    /// Files of the cache that are read while the driver loads.
    pub(crate) struct Ahead {
        reading: Option<mpsc::Receiver<cache::Ahead>>,
        options: Option<CacheOptions>,
    }

    impl Ahead {
        /// Begins to read.
        pub(crate) fn start(options: &CacheOptions) -> Self {
            let options = options.enabled.then(|| options.clone());
            let reading = options.clone().and_then(|options| {
                let (sender, reading) = mpsc::channel();
                let read = move || drop(sender.send(cache::Ahead::read(&options)));
                idle::run("kiln-read-ahead", read).then_some(reading)
            });
            Self { reading, options }
        }

        /// The cache of an environment, if there is to be one.
        pub(crate) fn open(self, environment: &str) -> Option<Arc<Cache>> {
            let options = self.options?;
            let read = self.reading.and_then(|reading| reading.recv().ok());
            let read = read.unwrap_or_else(|| cache::Ahead::read(&options));
            Cache::open(read, environment).map(Arc::new)
        }
    }

    /// Calls `work` for each item, all at once where there are cores.
    pub(crate) fn side_by_side<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
        let Some((first, others)) = items.split_first() else { return };
        if thread::available_parallelism().map_or(1, usize::from) == 1 {
            return items.iter().for_each(work);
        }
        thread::scope(|scope| {
            for other in others {
                let work = &work;
                if thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || work(other)).is_err() {
                    // The caller will find it missing and do it.
                    break;
                }
            }
            work(first);
        });
    }

    /// A submission that somebody awaits.
    struct Awaited {
        index: wgpu::SubmissionIndex,
        slot: Arc<Slot>,
        /// Whether nothing but the submission is waited for: no callback fills the slot.
        nothing: bool,
    }

    /// A handle on the thread.
    #[derive(Default)]
    pub(crate) struct Worker {
        running: OnceLock<Option<Running>>,
    }

    /// The thread ends when the sender is dropped.
    struct Running {
        sender: mpsc::Sender<Awaited>,
        thread: JoinHandle<()>,
    }

    impl Worker {
        /// Sees to it that `slot` is filled, though nobody polls the device.
        pub(crate) fn watch(&self, gpu: &Gpu, index: wgpu::SubmissionIndex, slot: &Arc<Slot>, nothing: bool) {
            let running = self.running.get_or_init(|| start(gpu));
            let awaited = Awaited { index, slot: slot.clone(), nothing };
            let refused = match running {
                Some(running) => running.sender.send(awaited).err().map(|refused| refused.0),
                None => Some(awaited),
            };
            // Without a thread the waiting is done here: late, but right.
            if let Some(awaited) = refused {
                wait(gpu, awaited);
            }
        }
    }

    impl Drop for Worker {
        fn drop(&mut self) {
            if let Some(Some(Running { sender, thread })) = self.running.take() {
                drop(sender);
                // A waker that drops the last handle on the device runs on the thread itself.
                if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                    log::error!("kiln: a waker panicked");
                }
            }
        }
    }

    /// Starts the thread; `None` where the system gives no thread.
    fn start(gpu: &Gpu) -> Option<Running> {
        let gpu = gpu.clone();
        let (sender, receiver) = mpsc::channel::<Awaited>();
        let wait_for_all = move || receiver.into_iter().for_each(|awaited| wait(&gpu, awaited));
        let thread = thread::Builder::new().name("kiln-wgpu-wait".into()).spawn(wait_for_all).ok()?;
        Some(Running { sender, thread })
    }

    /// Blocks until a submission is done and its callbacks have run.
    fn wait(gpu: &Gpu, Awaited { index, slot, nothing }: Awaited) {
        match crate::readback::poll_until(gpu, index) {
            Err(error) => slot.fill(Err(error)),
            Ok(()) if nothing => slot.fill(Ok(())),
            Ok(()) => {}
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::sync::Arc;

    use crate::error::Gpu;
    use crate::readback::Slot;

    /// Calls `work` for each item.
    pub(crate) fn side_by_side<T>(items: &[T], work: impl Fn(&T)) {
        items.iter().for_each(work);
    }

    /// Nothing.
    #[derive(Default)]
    pub(crate) struct Worker;

    impl Worker {
        /// Nothing to do.
        pub(crate) fn watch(&self, _: &Gpu, _: wgpu::SubmissionIndex, _: &Arc<Slot>, _: bool) {}
    }
}
