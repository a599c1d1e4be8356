//! Replays recordings on a device, and answers reads.
//!
//! What enters: recordings and reads, from any thread. What leaves: batches, submitted in order. Decided: a batch is
//! submitted when something is read, when it is long, or when it holds much memory. One lock guards the batch and the
//! memory; nobody waits for the device, compiles a kernel or copies host data while holding it. When a batch fails,
//! what it wrote is poisoned: reads of it and of what depends on it return the error, and everything else goes on, but for a read that was part of the same batch.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use kiln_array::recording::{BufferId, Dispatch, Recording};
use kiln_array::{Caps, DeviceInfo, Error, ErrorKind, HostBytes, Pending, Result};
use smallvec::SmallVec;

use crate::batch::{Batch, Command, MAX_GROUPS, fold};
use crate::bind::BindGroups;
use crate::buffers::{Block, Memory, size_class};
use crate::compile::Kernel;
use crate::error::Gpu;
#[cfg(not(target_arch = "wasm32"))]
use crate::inplace::InPlace;
use crate::memory::{Dropped, with_bytes};
use crate::pipelines::{Kernels, Pipelines};
#[cfg(not(target_arch = "wasm32"))]
use crate::prewarm::Warming;
use crate::readback::{Arrival, Staging};
use crate::uploads::Uploads;
use crate::worker::Worker;

/// Submissions that may be on their way, and bytes that they may hold, before whoever submits more has to wait.
const IN_FLIGHT: usize = 16;
pub(crate) const IN_FLIGHT_BYTES: u64 = 512 << 20;

/// An open device with everything on it.
pub(crate) struct Engine {
    pub(crate) gpu: Gpu,
    pub(crate) info: DeviceInfo,
    pub(crate) caps: Caps,
    /// How long a waiting thread polls before it blocks.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "nobody waits in a browser"))]
    pub(crate) spin: Duration,
    pub(crate) pipelines: Pipelines,
    pub(crate) staging: Staging,
    pub(crate) uploads: Uploads,
    pub(crate) worker: Worker,
    pub(crate) state: Mutex<State>,
    /// Buffers that were dropped while somebody had the state's lock.
    pub(crate) released: Mutex<Vec<Dropped>>,
    /// Whether arrays are read where they lie: the device's memory is the host's.
    pub(crate) in_place: bool,
    /// Warm-ups, and what their first dispatches run on.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) warming: Warming,
    /// Some buffer is no longer mapped.
    pub(crate) unmapped: Condvar,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) memory: Memory,
    pub(crate) bind_groups: BindGroups,
    pub(crate) batch: Batch,
    /// The last submission.
    pub(crate) last: Option<wgpu::SubmissionIndex>,
    /// Submissions that nobody has waited for, with the bytes that they hold.
    in_flight: VecDeque<(wgpu::SubmissionIndex, u64)>,
    pub(crate) dispatches: u64,
    pub(crate) submissions: u64,
    /// How many buffers are mapped.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser shares no memory"))]
    pub(crate) mapped: usize,
    pub(crate) reads_in_place: u64,
}

impl Engine {
    pub(crate) fn new(
        gpu: Gpu,
        info: DeviceInfo,
        caps: Caps,
        spin: Duration,
        in_place: bool,
        pipelines: Pipelines,
    ) -> Self {
        let state = State {
            memory: Memory::default(),
            bind_groups: BindGroups::default(),
            batch: Batch::new(&gpu.device.limits()),
            last: None,
            in_flight: VecDeque::new(),
            dispatches: 0,
            submissions: 0,
            mapped: 0,
            reads_in_place: 0,
        };
        let (staging, worker, state) = (Staging::default(), Worker::default(), Mutex::new(state));
        Self {
            gpu,
            info,
            caps,
            spin,
            pipelines,
            staging,
            uploads: Uploads::default(),
            worker,
            state,
            released: Mutex::default(),
            in_place,
            unmapped: Condvar::new(),
            #[cfg(not(target_arch = "wasm32"))]
            warming: Warming::default(),
        }
    }

    /// Saves what was compiled.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn save(&self) {
        if let Some(cache) = &self.pipelines.compiler.cache {
            cache.close();
        }
    }

    /// Takes work.
    pub(crate) fn run(&self, recording: &Recording) -> Result<()> {
        self.gpu.check()?;
        let kernels = self.pipelines.of(&self.gpu, &recording.dispatches)?;
        self.launch(recording, kernels)
    }

    /// Adds a recording's dispatches, whose kernels are compiled, to the batch.
    pub(crate) fn launch(&self, recording: &Recording, kernels: Kernels) -> Result<()> {
        let mut state = self.state_for(recording);
        let mut behind = None;
        for (dispatch, kernel) in recording.dispatches.iter().zip(kernels) {
            self.record(&mut state, dispatch, kernel)?;
            behind = self.submit_if_full(&mut state).or(behind);
        }
        drop(state);
        self.catch_up(behind)
    }

    /// Adds a dispatch to the batch.
    fn record(&self, state: &mut State, dispatch: &Dispatch, kernel: Arc<Kernel>) -> Result<()> {
        if dispatch.groups == 0 {
            return Ok(());
        }
        let groups = fold(dispatch.groups as u64).ok_or_else(|| self.too_many_groups(dispatch.groups))?;
        if !state.batch.params.has_room(kernel.param_size) {
            self.submit(state);
        }
        let spec = &*dispatch.kernel;
        let read = dispatch.totals_in.filter(|_| spec.reads_totals);
        let written = dispatch.totals_out.filter(|_| spec.writes_totals);
        let ids = dispatch.inputs.iter().chain(&dispatch.outputs).map(|operand| operand.buffer);
        let mut blocks: SmallVec<[Block; 6]> = SmallVec::new();
        let mut poison = None;
        for id in ids.chain(read).chain(written) {
            let live = state.memory.get(id).ok_or_else(|| unknown("launch", id))?;
            live.block.batch = state.batch.number;
            poison = poison.or_else(|| live.poison.clone());
            blocks.push(live.block.clone());
        }
        let writes = dispatch.outputs.iter().map(|operand| operand.buffer).chain(written);
        if let Some(error) = poison {
            // What follows from wrong data is wrong: no need to compute it.
            writes.for_each(|id| state.poison(id, &error));
            return Ok(());
        }
        if blocks.len() != kernel.bindings.count as usize {
            let message = format!("{dispatch} has {} arrays, its kernel {}", blocks.len(), kernel.bindings.count);
            return Err(ErrorKind::Backend { op: "launch", message }.into());
        }
        let arrays = state.bind_groups.get(&self.gpu, &kernel, &blocks)?;
        let params =
            state.batch.params.bind_group(&self.gpu, &self.pipelines.compiler.param_layouts, kernel.param_size)?;
        let offset = state.batch.params.push(|words| dispatch.param_words(words));
        state.batch.writes.extend(writes);
        state.batch.push(Command::Dispatch { kernel, params, offset, arrays, groups });
        state.dispatches += 1;
        Ok(())
    }

    /// Submits a batch that is long or large enough. Returns a submission for [`catch_up`](Self::catch_up).
    pub(crate) fn submit_if_full(&self, state: &mut State) -> Option<wgpu::SubmissionIndex> {
        if !state.batch.is_full() {
            return None;
        }
        state.batch.lengthen();
        self.submit(state);
        let mut behind = None;
        while state.in_flight.len() > IN_FLIGHT
            || state.in_flight.iter().map(|(_, bytes)| bytes).sum::<u64>() > IN_FLIGHT_BYTES
        {
            behind = state.in_flight.pop_front().map(|(index, _)| index);
        }
        behind
    }

    /// Submits the batch, if there is anything in it. A failure poisons what it wrote.
    pub(crate) fn submit(&self, state: &mut State) {
        if let Err(error) = self.try_submit(state) {
            log::error!("kiln: a batch failed: {error}");
        }
    }

    /// Submits the batch, if there is anything in it. A failure poisons what it wrote, and is returned as well.
    fn try_submit(&self, state: &mut State) -> Result<()> {
        if state.batch.is_empty() {
            return Ok(());
        }
        let copies = self.uploads.submitting();
        let (index, bytes, outcome) = state.batch.submit(&self.gpu);
        // A lost device takes everything, and does nothing.
        let outcome = outcome.and_then(|()| self.gpu.check());
        state.submissions += 1;
        let mut writes = std::mem::take(&mut state.batch.writes);
        match &outcome {
            Ok(()) => {
                copies.accepted(&self.gpu);
                state.last = Some(index.clone());
                state.in_flight.push_back((index, bytes));
            }
            // Nobody must wait for a submission that was refused.
            Err(error) => {
                state.batch.bytes += copies.refused();
                writes.iter().for_each(|&id| state.poison(id, error));
            }
        }
        // The vector goes back, for its memory.
        writes.clear();
        state.batch.writes = writes;
        outcome
    }

    /// Submits what is recorded because somebody waits for it; from here on the device may become idle.
    pub(crate) fn submit_awaited(&self, state: &mut State) -> Result<()> {
        state.batch.shorten();
        let outcome = self.try_submit(state);
        state.in_flight.clear();
        outcome
    }

    /// The first `bytes` bytes of a buffer.
    pub(crate) fn read(self: &Arc<Self>, id: BufferId, bytes: u64) -> Pending<HostBytes> {
        let started = if bytes == 0 {
            self.gpu.check().map(|()| None)
        } else if self.in_place {
            self.start_read_in_place(id, bytes)
        } else {
            self.start_read(id, bytes)
        };
        match started {
            Ok(Some(pending)) => pending,
            Ok(None) => Pending::ready(Ok(HostBytes::default())),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Submits what is recorded; the bytes are taken from the buffer itself afterwards.
    #[cfg(not(target_arch = "wasm32"))]
    fn start_read_in_place(self: &Arc<Self>, id: BufferId, bytes: u64) -> Result<Option<Pending<HostBytes>>> {
        self.gpu.check()?;
        let mut state = self.state();
        state.readable(id, bytes)?;
        self.submit_awaited(&mut state)?;
        let Some(last) = state.last.clone() else {
            // Nothing ran yet, so there is no submission that the last part of an upload belongs to.
            drop(state);
            return self.start_read(id, bytes);
        };
        state.memory.expect_read(id);
        let batch = state.batch.number - 1;
        drop(state);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Some(Pending::new(InPlace::after(self.clone(), last, batch, id, bytes))))
    }

    /// A browser shares no memory, so nothing is ever mapped.
    #[cfg(target_arch = "wasm32")]
    fn state_for(&self, _: &Recording) -> std::sync::MutexGuard<'_, State> {
        self.state()
    }

    /// A browser shares no memory.
    #[cfg(target_arch = "wasm32")]
    fn start_read_in_place(self: &Arc<Self>, id: BufferId, bytes: u64) -> Result<Option<Pending<HostBytes>>> {
        self.start_read(id, bytes)
    }

    /// Copies to a staging buffer, which the bytes are taken from.
    fn start_read(self: &Arc<Self>, id: BufferId, bytes: u64) -> Result<Option<Pending<HostBytes>>> {
        self.gpu.check()?;
        let copied = bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        let class = size_class(copied, self.caps.max_array_bytes);
        let to = match self.staging.take(&self.gpu, class) {
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => {
                self.give_free_memory_back()?;
                self.staging.take(&self.gpu, class).map_err(|error| with_bytes(error, bytes))?
            }
            other => other?,
        };
        let mut state = self.state();
        // Where reads are in place, another one may have the buffer mapped.
        while state.memory.get(id).is_some_and(|live| live.mapped) {
            state = self.unmapped.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let from = state.readable(id, bytes)?;
        state.batch.push(Command::Copy { from, to: to.clone(), bytes: copied });
        self.submit_awaited(&mut state)?;
        let last = state.last.clone();
        drop(state);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(last.map(|index| Pending::new(Arrival::of(self.clone(), index, to, bytes))))
    }

    /// The end of all work taken so far.
    pub(crate) fn synchronize(self: &Arc<Self>) -> Pending<()> {
        let mut state = self.state();
        let outcome = self.gpu.check().and_then(|()| self.submit_awaited(&mut state));
        let last = state.last.clone();
        drop(state);
        match (outcome, last) {
            (Err(error), _) => Pending::ready(Err(error)),
            (Ok(()), None) => Pending::ready(self.gpu.health.report()),
            (Ok(()), Some(index)) => Pending::new(Arrival::of_nothing(self.clone(), index)).map(|_| Ok(())),
        }
    }

    /// Waits until everything that was submitted is done, parts of uploads and an owner's work included.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait_until_idle(&self) -> Result<()> {
        crate::readback::poll(&self.gpu, wgpu::PollType::wait_indefinitely())
    }

    /// Waits for a submission, if there is one to wait for: the device is that far behind. Never under the lock.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn catch_up(&self, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        index.map_or(Ok(()), |index| crate::readback::poll_until(&self.gpu, index))
    }

    /// Nothing: a browser keeps its own bounds.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn catch_up(&self, _: Option<wgpu::SubmissionIndex>) -> Result<()> {
        self.gpu.check()
    }

    fn too_many_groups(&self, groups: usize) -> Error {
        ErrorKind::Limit {
            op: "launch",
            what: "workgroups of one kernel",
            needed: groups as u64,
            limit: MAX_GROUPS * MAX_GROUPS,
            device: self.gpu.health.device(),
        }
        .into()
    }
}

impl State {
    /// The buffer of an id, if its first `bytes` bytes can be read.
    fn readable(&mut self, id: BufferId, bytes: u64) -> Result<wgpu::Buffer> {
        let live = self.memory.get(id).ok_or_else(|| unknown("read", id))?;
        if let Some(error) = &live.poison {
            return Err(error.clone());
        }
        let size = live.block.buffer.size();
        if bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT) > size {
            let message = format!("{bytes} bytes of a buffer of {size}");
            return Err(ErrorKind::Backend { op: "read", message }.into());
        }
        Ok(live.block.buffer.clone())
    }

    /// Whether the host has a buffer of a dispatch mapped.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_mapped(&mut self, dispatch: &Dispatch) -> bool {
        let operands = dispatch.inputs.iter().chain(&dispatch.outputs).map(|operand| operand.buffer);
        let mut ids = operands.chain(dispatch.totals_in).chain(dispatch.totals_out);
        ids.any(|id| self.memory.get(id).is_some_and(|live| live.mapped))
    }

    /// Marks a buffer's contents as wrong.
    fn poison(&mut self, id: BufferId, error: &Error) {
        if let Some(live) = self.memory.get(id) {
            live.poison.get_or_insert_with(|| error.clone());
        }
    }
}

pub(crate) fn unknown(op: &'static str, id: BufferId) -> Error {
    ErrorKind::Backend { op, message: format!("{id:?} is not a buffer of this device") }.into()
}

#[cfg(not(target_arch = "wasm32"))]
impl Drop for Engine {
    fn drop(&mut self) {
        self.save();
    }
}
