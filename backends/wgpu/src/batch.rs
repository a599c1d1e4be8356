//! A batch: work recorded and not yet submitted, and its way to the device.
//!
//! What enters: dispatches whose buffers, bind groups and parameters are resolved, and copies. What leaves: one command
//! buffer with as few compute passes as the copies allow. Decided: wgpu sees nothing of a batch before it is
//! submitted, so that recording costs little and a failure has one place.

use std::sync::Arc;

use kiln_array::Result;
use kiln_array::recording::BufferId;

use crate::compile::Kernel;
use crate::error::{Gpu, Scopes};
use crate::params::Params;

/// Commands of the first batch after a read, when the device may be idle, and of the longest batch.
const COMMANDS: std::ops::RangeInclusive<usize> = 16..=64;

/// Bytes that a batch may hold, in uploads and in buffers dropped from the pool, before it is submitted.
const BYTES: u64 = 64 << 20;

/// Workgroups in one dimension of a dispatch.
pub(crate) const MAX_GROUPS: u64 = 65_535;

/// Work recorded and not yet submitted.
pub(crate) struct Batch {
    /// Counts batches; a block notes the last one that touches it.
    pub(crate) number: u64,
    /// Bytes that are held until the submission is done, those of uploads whose first parts went ahead of it included. Never 0
    /// after an upload, so that whoever waits submits the rest of it.
    pub(crate) bytes: u64,
    /// Buffers that the dispatches write, for poisoning.
    pub(crate) writes: Vec<BufferId>,
    pub(crate) params: Params,
    commands: Vec<Command>,
    limit: usize,
}

/// One command, resolved.
pub(crate) enum Command {
    /// A kernel on some arrays.
    Dispatch { kernel: Arc<Kernel>, params: wgpu::BindGroup, offset: u32, arrays: wgpu::BindGroup, groups: (u32, u32) },
    /// The first bytes of one buffer to the start of another.
    Copy { from: wgpu::Buffer, to: wgpu::Buffer, bytes: u64 },
}

impl Batch {
    pub(crate) fn new(limits: &wgpu::Limits) -> Self {
        Self {
            number: 1,
            bytes: 0,
            writes: Vec::new(),
            params: Params::new(limits),
            commands: Vec::new(),
            limit: *COMMANDS.start(),
        }
    }

    pub(crate) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.bytes == 0
    }

    /// Whether it is long or large enough to submit.
    pub(crate) fn is_full(&self) -> bool {
        self.commands.len() >= self.limit || self.bytes >= BYTES
    }

    /// The next batch may be twice as long: the device has work.
    pub(crate) fn lengthen(&mut self) {
        self.limit = (self.limit * 2).min(*COMMANDS.end());
    }

    /// The next batch shall be short: somebody waits for the device, which may become idle.
    pub(crate) fn shorten(&mut self) {
        self.limit = *COMMANDS.start();
    }

    /// Submits everything and starts the next batch. Returns the submission, the bytes that it holds, and whether it
    /// failed; `writes` is left to the caller.
    pub(crate) fn submit(&mut self, gpu: &Gpu) -> (wgpu::SubmissionIndex, u64, Result<()>) {
        let scopes = Scopes::open(&gpu.device);
        self.params.upload(&gpu.queue);
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("kiln") });
        encode(&mut encoder, &self.commands);
        let index = gpu.queue.submit([encoder.finish()]);
        crate::locals::used();
        let outcome = scopes.close(gpu, "launch");
        self.commands.clear();
        self.number += 1;
        (index, std::mem::take(&mut self.bytes), outcome)
    }
}

/// Encodes commands in order, neighbouring dispatches in one pass.
fn encode(encoder: &mut wgpu::CommandEncoder, commands: &[Command]) {
    let is_dispatch = |command: &Command| matches!(command, Command::Dispatch { .. });
    for run in commands.chunk_by(|a, b| is_dispatch(a) && is_dispatch(b)) {
        if let [Command::Copy { from, to, bytes }] = run {
            encoder.copy_buffer_to_buffer(from, 0, to, 0, *bytes);
            continue;
        }
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for command in run {
            if let Command::Dispatch { kernel, params, offset, arrays, groups: (x, y) } = command {
                pass.set_pipeline(&kernel.pipeline);
                pass.set_bind_group(0, params, &[*offset]);
                pass.set_bind_group(1, arrays, &[]);
                pass.dispatch_workgroups(*x, *y, 1);
            }
        }
    }
}

/// A linear number of workgroups as two dimensions: kernels compute `x + y * num_workgroups.x`.
pub(crate) fn fold(groups: u64) -> Option<(u32, u32)> {
    let y = groups.div_ceil(MAX_GROUPS).max(1);
    let x = groups.div_ceil(y);
    (y <= MAX_GROUPS).then_some((u32::try_from(x).ok()?, u32::try_from(y).ok()?))
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn groups_fold_into_two_dimensions_without_a_gap() {
        for groups in [1, 2, 65_535, 65_536, 131_070, 131_071, 10_000_019, 65_535 * 65_535] {
            let (x, y) = fold(groups).map(|(x, y)| (u64::from(x), u64::from(y))).expect("within the limit");
            assert!(x <= 65_535 && y <= 65_535, "{groups}: {x} {y}");
            assert!(x * y >= groups && x * (y - 1) < groups, "{groups}: {x} {y}");
        }
        assert_eq!(fold(65_535 * 65_535 + 1), None);
    }
}
