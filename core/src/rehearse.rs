//! Rehearsals: code run on a device that computes nothing, so that its kernels are compiled before they are needed.

use std::sync::Arc;

use crate::device::Device;
use crate::error::Result;
use crate::kernel::KernelSpec;
use crate::recorder::{Recorder, kernels};
use crate::warm::WarmUp;

impl Device {
    /// Compiles, behind the program, the kernels that it used in earlier processes, the latest and most used first, then
    /// a short list of common ones; and lets the device's first allocation, upload, submission and read happen. Joins
    /// the warm-up that runs since the device was opened, if there is one.
    ///
    /// Work that needs a kernel meanwhile never waits for the list: it joins the compile under way or makes its own.
    pub fn warm_up(&self) -> WarmUp {
        self.backend().warm_up()
    }

    /// Compiles, behind the program, the kernels that `code` would run: it gets a device that plans as this one does
    /// but computes nothing. Reads of it are errors.
    ///
    /// # Errors
    /// What `code` returns.
    pub fn rehearse(&self, code: impl FnOnce(&Self) -> Result<()>) -> Result<WarmUp> {
        let recorder = Recorder::new(self.caps().clone());
        code(&recorder.device().with_schedule(*self.schedule()))?;
        let mut specs: Vec<Arc<KernelSpec>> = Vec::new();
        for spec in kernels(&recorder.take()) {
            if !specs.contains(spec) {
                specs.push(Arc::clone(spec));
            }
        }
        Ok(self.backend().warm(specs))
    }
}
