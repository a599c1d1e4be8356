//! The thread that waits for the device on behalf of futures. The only file that starts threads.
//!
//! What enters: submissions that somebody awaits. What leaves: their callbacks have run. It starts with the first
//! future that is polled before its result is there, sleeps while nobody awaits anything, and has ended when the backend
//! is dropped: drivers crash when a device goes while the process exits. In a browser, which calls back by itself, it
//! does nothing.

#[cfg(target_arch = "wasm32")]
pub(crate) use browser::Worker;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::Worker;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::sync::{Arc, OnceLock, mpsc};
    use std::thread::{self, JoinHandle};

    use crate::error::Gpu;
    use crate::readback::Slot;

    /// A submission that somebody awaits.
    struct Awaited {
        index: wgpu::SubmissionIndex,
        slot: Arc<Slot>,
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
        pub(crate) fn watch(&self, gpu: &Gpu, index: wgpu::SubmissionIndex, slot: &Arc<Slot>) {
            let running = self.running.get_or_init(|| start(gpu));
            let awaited = Awaited { index, slot: slot.clone() };
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
    fn wait(gpu: &Gpu, Awaited { index, slot }: Awaited) {
        if let Err(error) = crate::readback::poll_until(gpu, index) {
            slot.fill(Err(error));
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::sync::Arc;

    use crate::error::Gpu;
    use crate::readback::Slot;

    /// Nothing.
    #[derive(Default)]
    pub(crate) struct Worker;

    impl Worker {
        /// Nothing to do.
        pub(crate) fn watch(&self, _: &Gpu, _: wgpu::SubmissionIndex, _: &Arc<Slot>) {}
    }
}
