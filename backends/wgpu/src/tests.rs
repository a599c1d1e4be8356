//! The engine on a real adapter; software Vulkan will do. Without one the tests say so and pass, unless
//! `KILN_TEST_REQUIRE` lists `wgpu`.

mod failures;
mod inplace;
mod uploads;
mod work;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use kiln_array::kernel::{Access, Family, KernelSpec, Slot};
use kiln_array::op::BinaryOp;
use kiln_array::program::{Instr, Program};
use kiln_array::recording::{BufferId, Dispatch, MAP_GROUP, Operand, Recording, Tiling};
use kiln_array::{Backend, Dtype, Element, HostBytes};
use smallvec::{SmallVec, smallvec};

use crate::compile::{Render, Source};
use crate::error::lock;
use crate::{Options, Wgpu, adapter, open};

/// A device while no other test has one: several at a time deadlock in one driver that we met (NVIDIA on Linux).
struct Turn {
    gpu: Wgpu,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Wgpu;
    fn deref(&self) -> &Wgpu {
        &self.gpu
    }
}

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    lock(&TURN)
}

/// A device, or `None` after a line that says why.
fn device() -> Option<Turn> {
    let turn = turn();
    match pollster::block_on(open(&Options::new().allow_software(true))) {
        Ok(gpu) => Some(Turn { gpu, _turn: turn }),
        Err(error) => {
            let required = std::env::var("KILN_TEST_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "wgpu"));
            assert!(!required, "KILN_TEST_REQUIRE lists wgpu, but {error}");
            println!("not run: wgpu ({error})");
            None
        }
    }
}

/// A device whose kernels are what `render` makes.
fn device_with(render: Render) -> Option<Turn> {
    device()?;
    let turn = turn();
    let opened = pollster::block_on(adapter::open(&Options::new().allow_software(true))).expect("it opened before");
    let gpu = Wgpu::new(opened.device, opened.queue, &opened.info, Source::Wgsl, None, render)
        .expect("its limits were enough before");
    Some(Turn { gpu, _turn: turn })
}

/// `a op b` elementwise.
fn binary(op: BinaryOp) -> Arc<KernelSpec> {
    let mut map = Program::default();
    let (a, b) = (map.push(Instr::Input(0), Dtype::F32), map.push(Instr::Input(1), Dtype::F32));
    let value = map.push(Instr::Binary(op, a, b), Dtype::F32);
    map.outputs.push(value);
    let slot = Slot { dtype: Dtype::F32, access: Access::Quad };
    Arc::new(KernelSpec {
        family: Family::Map,
        name: op.name(),
        kept: 0,
        walked: 1,
        inputs: vec![slot; 2],
        outputs: vec![slot],
        map,
        combine: Program::default(),
        finish: Program::default(),
        reads_totals: false,
        writes_totals: false,
        even_tiles: false,
    })
}

fn dispatch(kernel: &Arc<KernelSpec>, inputs: [BufferId; 2], output: BufferId, len: usize) -> Dispatch {
    let operand = |buffer| Operand { buffer, offset: 0, kept: SmallVec::new(), walked: smallvec![1] };
    Dispatch {
        kernel: kernel.clone(),
        inputs: inputs.map(operand).to_vec(),
        outputs: vec![operand(output)],
        totals_in: None,
        totals_out: None,
        kept: SmallVec::new(),
        walked: smallvec![len],
        tiling: Tiling { length: len, lines: 1, ..Tiling::default() },
        log_step: 0,
        groups: len.div_ceil(MAP_GROUP),
        scalars: SmallVec::new(),
    }
}

fn recording(dispatch: Dispatch) -> Recording {
    Recording { dispatches: vec![dispatch] }
}

/// The error of a kernel that is warmed up, if it has one.
fn warm(gpu: &Wgpu, kernel: &Arc<KernelSpec>) -> Result<(), kiln_array::Error> {
    let mut report = gpu.warm(vec![kernel.clone()]).wait();
    assert_eq!(report.kernels.len(), 1);
    report.kernels.remove(0).error.map_or(Ok(()), Err)
}

fn upload(gpu: &Wgpu, values: &[f32]) -> BufferId {
    gpu.upload(bytemuck::cast_slice(values)).expect("there is memory")
}

/// A new buffer with `a op b`.
fn compute(gpu: &Wgpu, kernel: &Arc<KernelSpec>, a: BufferId, b: BufferId, len: usize) -> BufferId {
    let out = gpu.allocate(len as u64 * 4).expect("there is memory");
    gpu.run(&recording(dispatch(kernel, [a, b], out, len))).expect("the kernel compiles");
    out
}

fn floats(bytes: HostBytes) -> Vec<f32> {
    f32::from_bytes(bytes).expect("there is memory")
}

fn read(gpu: &Wgpu, buffer: BufferId, len: usize) -> Vec<f32> {
    floats(gpu.read(buffer, len as u64 * 4).wait().expect("the work succeeded"))
}

fn ramp(len: usize) -> Vec<f32> {
    (0u16..1000).cycle().take(len).map(f32::from).collect()
}
