//! Deals work to threads: a range of units, each with its own stretch of every output.
//!
//! What enters: outputs, a range of units, a job. What leaves: the job done for every unit, in pieces of at least a grain,
//! by whoever is free. Decided: work is halved recursively, so that outputs are split as plain slices and no lock is
//! taken; a serial task makes one piece; and Kiln has a pool of its own, because a thread of a shared pool that waits may
//! run somebody else's job, which may call Kiln again and wait for itself.

use std::ops::Range;
use std::sync::OnceLock;

use kiln_array::Result;
use smallvec::SmallVec;

use crate::operand::Dst;

/// Elements below which a dispatch stays on the caller's thread, and elements of the smallest piece of a larger one.
pub(crate) const PIECE: usize = 32 * 1024;

/// The outputs of a job.
pub(crate) type Outs<'a> = SmallVec<[Dst<'a>; 2]>;

/// The threads of one device, started when the first large dispatch comes.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// How many there are, or will be.
    pub(crate) fn count() -> usize {
        if cfg!(target_arch = "wasm32") { 1 } else { rayon::max_num_threads().min(available()) }
    }

    /// Runs `work` where [`split`] finds the threads. `work` learns whether there are several.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce(bool) -> R + Send) -> R {
        let Some(pool) = self.pool.get_or_init(start) else {
            return work(false);
        };
        if rayon::current_thread_index().is_none() {
            return pool.install(|| work(true));
        }
        // On a thread of another pool `install` would run that pool's jobs while it waits. A plain thread just waits.
        let done = std::thread::scope(|scope| scope.spawn(|| pool.install(|| work(true))).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn available() -> usize {
    let wanted =
        std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok()).filter(|&count| count > 0);
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn start() -> Option<rayon::ThreadPool> {
    if Threads::count() < 2 {
        return None;
    }
    let builder = rayon::ThreadPoolBuilder::new().num_threads(Threads::count());
    builder.thread_name(|index| format!("kiln-cpu-{index}")).build().ok()
}

/// Does `job` for all units, in pieces of `grain` units; in one piece if `grain` is 0. `at` says where in each output a
/// unit's stretch starts.
pub(crate) fn split<'a, J, A>(outs: Outs<'a>, units: Range<usize>, grain: usize, at: &A, job: &J) -> Result<()>
where
    J: Fn(Range<usize>, Outs<'a>) -> Result<()> + Sync,
    A: Fn(usize) -> usize + Sync,
{
    if grain == 0 || units.len() <= grain {
        return if units.is_empty() { Ok(()) } else { job(units, outs) };
    }
    let middle = units.start + (units.len() / grain).div_ceil(2) * grain;
    let length = at(middle) - at(units.start);
    let (left, right): (Outs<'a>, Outs<'a>) = outs.into_iter().map(|out| out.split_at(length)).unzip();
    let (left, right) = rayon::join(
        || split(left, units.start..middle, grain, at, job),
        || split(right, middle..units.end, grain, at, job),
    );
    left.and(right)
}
