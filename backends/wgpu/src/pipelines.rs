//! Kernels, compiled once each.
//!
//! What enters: kernel specifications. What leaves: kernels. Decided: a specification maps to a cell that is filled by
//! whoever comes first, a user's call or a warm-up; others that need it wait for that compile, and no lock is held
//! meanwhile. Kernels that one call needs are compiled side by side. A kernel whose text naga refuses stays failed,
//! with naga's words. Any other failure may pass: its cell is taken away, and the next call compiles anew. How a kernel
//! is made is in `compile`.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use kiln_array::Result;
use kiln_array::kernel::KernelSpec;
use kiln_array::recording::Dispatch;
use kiln_array::warm::{Origin, WarmedKernel};
use smallvec::SmallVec;

use crate::cache::Cache;
#[cfg(not(target_arch = "wasm32"))]
use crate::cache::Used;
use crate::compile::{Compiler, Failure, Kernel, refusal};
use crate::error::{Gpu, lock};
use crate::hash::FastHash;
use crate::times::{KernelTimes, Stopwatch};
use crate::worker;

type Cell = Arc<OnceLock<Result<Arc<Kernel>, Failure>>>;

/// A kernel that a call lacks, and what came of compiling it.
type Missing<'a> = (&'a Arc<KernelSpec>, OnceLock<Result<Arc<Kernel>>>);

/// Kernels of a recording's dispatches.
pub(crate) type Kernels = SmallVec<[Arc<Kernel>; 4]>;

/// All kernels of a device.
pub(crate) struct Pipelines {
    pub(crate) compiler: Compiler,
    cells: RwLock<HashMap<Arc<KernelSpec>, Cell, FastHash>>,
    compiled: AtomicU64,
    joined: AtomicU64,
    log: Mutex<Vec<KernelTimes>>,
}

impl Pipelines {
    pub(crate) fn new(compiler: Compiler) -> Self {
        Self {
            compiler,
            cells: RwLock::default(),
            compiled: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            log: Mutex::default(),
        }
    }

    /// The kernels of some dispatches, in order. Those that are missing are compiled at the same time.
    pub(crate) fn of(&self, gpu: &Gpu, dispatches: &[Dispatch]) -> Result<Kernels> {
        let cells: SmallVec<[Cell; 4]> = dispatches.iter().map(|dispatch| self.cell(&dispatch.kernel)).collect();
        let mut missing: SmallVec<[Missing<'_>; 4]> = SmallVec::new();
        for (cell, Dispatch { kernel, .. }) in cells.iter().zip(dispatches) {
            if settled(cell).is_none() && !missing.iter().any(|(known, _)| *known == kernel) {
                missing.push((kernel, OnceLock::new()));
            }
        }
        let compile = |(spec, made): &Missing<'_>| drop(made.set(self.get(gpu, spec)));
        match &missing[..] {
            [] => {}
            [one] => compile(one),
            all => worker::side_by_side(all, compile),
        }
        let kernel = |(cell, dispatch): (Cell, &Dispatch)| {
            let kernel = match settled(&cell) {
                Some(kernel) => kernel,
                None => {
                    match missing.iter().find(|(spec, _)| **spec == dispatch.kernel).and_then(|(_, made)| made.get()) {
                        Some(made) => made.clone(),
                        // No thread could be had.
                        None => self.get(gpu, &dispatch.kernel),
                    }
                }
            }?;
            // Written once, read ever after.
            if !kernel.used.load(Ordering::Relaxed)
                && !kernel.used.swap(true, Ordering::Relaxed)
                && let Some(cache) = &self.compiler.cache
            {
                cache.note(&dispatch.kernel, kernel.key);
                Cache::save_soon(cache);
            }
            Ok(kernel)
        };
        cells.into_iter().zip(dispatches).map(kernel).collect()
    }

    /// The kernel of a specification, compiled by this call if by none before.
    pub(crate) fn get(&self, gpu: &Gpu, spec: &Arc<KernelSpec>) -> Result<Arc<Kernel>> {
        self.get_or_say(gpu, spec).0
    }

    /// The kernel, and whether this call compiled it.
    fn get_or_say(&self, gpu: &Gpu, spec: &Arc<KernelSpec>) -> (Result<Arc<Kernel>>, bool) {
        let mut again = true;
        loop {
            let cell = self.cell(spec);
            let (known, mut mine) = (cell.get().is_some(), false);
            let made = cell.get_or_init(|| {
                mine = true;
                self.compile(gpu, spec)
            });
            if !mine && !known {
                self.joined.fetch_add(1, Ordering::Relaxed);
            }
            let failure = match made {
                Ok(kernel) => return (Ok(Arc::clone(kernel)), mine),
                Err(failure) => failure,
            };
            if !failure.stays {
                self.forget(spec, &cell);
            }
            // What failed in passing for somebody else is tried for this call, once.
            if mine || failure.stays || !std::mem::take(&mut again) {
                return (Err(failure.error.clone()), mine);
            }
        }
    }

    /// Takes a cell away, so that the next call compiles anew.
    fn forget(&self, spec: &Arc<KernelSpec>, cell: &Cell) {
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        if cells.get(spec).is_some_and(|current| Arc::ptr_eq(current, cell)) {
            cells.remove(spec);
        }
    }

    /// Compiles a kernel for a warm-up, which takes no error for its own.
    pub(crate) fn warm(&self, gpu: &Gpu, spec: &Arc<KernelSpec>) -> WarmedKernel {
        let mut watch = Stopwatch::start();
        let (kernel, mine) = self.get_or_say(gpu, spec);
        let (origin, error) = match kernel {
            Ok(kernel) if mine => (kernel.origin, None),
            Ok(_) => (Origin::Ready, None),
            Err(error) => (Origin::Failed, Some(error)),
        };
        WarmedKernel { kernel: spec.label(), origin, time: watch.lap(), error }
    }

    /// The kernels that the program used in earlier processes.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn used_before(&self) -> Vec<Used> {
        self.compiler.cache.as_ref().map_or_else(Vec::new, |cache| cache.used_before())
    }

    /// How many kernels were compiled, failed ones included.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }

    /// How many calls waited for a compile that somebody else had begun.
    pub(crate) fn joined(&self) -> u64 {
        self.joined.load(Ordering::Relaxed)
    }

    /// The phases of each compile, in order of completion.
    pub(crate) fn log(&self) -> Vec<KernelTimes> {
        lock(&self.log).clone()
    }

    fn cell(&self, spec: &Arc<KernelSpec>) -> Cell {
        let known = self.cells.read().unwrap_or_else(PoisonError::into_inner).get(spec).cloned();
        known.unwrap_or_else(|| {
            let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
            cells.entry(spec.clone()).or_default().clone()
        })
    }

    fn compile(&self, gpu: &Gpu, spec: &KernelSpec) -> Result<Arc<Kernel>, Failure> {
        gpu.check()?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let label = spec.label();
        // naga and drivers' compilers have panicked on valid text before; a panic must not take the program along.
        let built = catch_unwind(AssertUnwindSafe(|| self.compiler.build(gpu, spec, &label)))
            .unwrap_or_else(|panic| Err(refusal(&label, panic_message(panic.as_ref())).into()));
        let (kernel, times) = built?;
        lock(&self.log).push(times);
        Ok(Arc::new(kernel))
    }
}

/// What a cell holds for good: a kernel, or the failure of one that can never be made.
fn settled(cell: &Cell) -> Option<Result<Arc<Kernel>>> {
    match cell.get()? {
        Ok(kernel) => Some(Ok(Arc::clone(kernel))),
        Err(failure) => failure.stays.then(|| Err(failure.error.clone())),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the compiler panicked: {}", message.unwrap_or("no message"))
}
