//! Work that fails: an error each time, never a wrong value, and the device goes on.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kiln_array::kernel::KernelSpec;
use kiln_array::op::BinaryOp;
use kiln_array::recording::{BufferId, Recording};
use kiln_array::warm::Report;
use kiln_array::{Backend, Error, ErrorKind, HostBytes, Pending};

use super::{binary, compute, device, device_with, dispatch, floats, ramp, read, recording, upload, warm};
use crate::error::lock;

#[track_caller]
fn assert_backend_error(result: Result<HostBytes, Error>) {
    let error = result.expect_err("the work failed");
    assert!(matches!(error.kind(), ErrorKind::Backend { .. }), "{error}");
}

#[test]
fn what_cannot_be_had_is_an_error_and_the_device_goes_on() {
    let Some(gpu) = device() else { return };
    let error = gpu.allocate(4 << 40).expect_err("no device has so much");
    let limit = gpu.caps().max_array_bytes;
    assert!(
        matches!(error.kind(), ErrorKind::Limit { needed, limit: at, .. } if *needed == 4 << 40 && *at == limit),
        "{error}"
    );
    // Other ids than our own are refused, not dereferenced.
    assert_backend_error(gpu.read(BufferId(u64::MAX), 4).wait());
    let x = upload(&gpu, &[1.0]);
    assert_backend_error(gpu.read(x, 1 << 20).wait());
    let two = compute(&gpu, &binary(BinaryOp::Add), x, x, 1);
    assert_eq!(read(&gpu, two, 1), [2.0]);
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_its_name_and_the_message() {
    let Some(gpu) = device_with(|_, _| Ok("@compute @workgroup_size(1) fn main() { nonsense(); }".into())) else {
        return;
    };
    let x = upload(&gpu, &[1.0]);
    for _ in 0..2 {
        let error = gpu.run(&recording(dispatch(&binary(BinaryOp::Add), [x, x], x, 1))).expect_err("nonsense");
        let ErrorKind::Kernel { kernel, message } = error.kind() else { panic!("{error}") };
        assert_eq!(kernel, "map.add.f32");
        assert!(message.contains("nonsense"), "{message}");
    }
    assert_eq!(gpu.counters().kernels_compiled, 1, "it stays failed");
    assert_eq!(read(&gpu, x, 1), [1.0]);
}

#[test]
fn a_kernel_above_the_devices_limits_is_an_error() {
    let Some(gpu) = device_with(|_, _| Ok("@compute @workgroup_size(65536) fn main() {}".into())) else { return };
    let error = warm(&gpu, &binary(BinaryOp::Add)).expect_err("65536 invocations");
    assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
}

#[test]
fn a_renderer_that_panics_is_an_error() {
    let Some(gpu) = device_with(|_, _| panic!("no such operator")) else {
        return;
    };
    let error = warm(&gpu, &binary(BinaryOp::Add)).expect_err("it panicked");
    assert!(error.to_string().contains("no such operator"), "{error}");
}

#[test]
fn results_of_a_failed_batch_are_poisoned_and_nothing_else() {
    let Some(gpu) = device() else { return };
    let add = binary(BinaryOp::Add);
    let x = upload(&gpu, &[1.0; 8]);
    // One buffer read and written in one dispatch: wgpu refuses it.
    let aliased = upload(&gpu, &[1.0; 8]);
    gpu.run(&recording(dispatch(&add, [aliased, x], aliased, 8))).expect("it is only recorded");
    let follows = compute(&gpu, &add, aliased, x, 8);
    gpu.synchronize().wait().expect_err("the batch failed");
    gpu.synchronize().wait().expect("that was told");
    assert_backend_error(gpu.read(aliased, 32).wait());
    let depends = compute(&gpu, &add, follows, x, 8);
    assert_backend_error(gpu.read(depends, 32).wait());
    assert_backend_error(pollster::block_on(gpu.read(follows, 32)));
    [aliased, follows, depends].into_iter().for_each(|buffer| gpu.release(buffer));
    let fine = compute(&gpu, &add, x, x, 8);
    assert_eq!(read(&gpu, fine, 8), [2.0; 8]);
}

#[test]
fn reads_of_what_a_refused_batch_used_end() {
    let Some(gpu) = device() else { return };
    let (add, len) = (binary(BinaryOp::Add), 4_000_000);
    let x = upload(&gpu, &[1.0; 8]);
    assert_eq!(read(&gpu, x, 8), [1.0; 8]);
    for awaited in [false, true] {
        // wgpu keeps what is uploaded for whatever it submits next.
        let (large, aliased) = (upload(&gpu, &ramp(len)), upload(&gpu, &[1.0; 8]));
        gpu.run(&recording(dispatch(&add, [aliased, x], aliased, 8))).expect("it is only recorded");
        gpu.synchronize().wait().expect_err("the batch failed");
        // Nothing is recorded of a dispatch whose operand is wrong.
        let depends = compute(&gpu, &add, aliased, x, 8);
        let start = |buffer, len: usize| gpu.read(buffer, len as u64 * 4);
        let [small, large] = [start(x, 8), start(large, len)].map(|pending| {
            floats(if awaited { pollster::block_on(pending) } else { pending.wait() }.expect("it is right"))
        });
        assert_eq!(small, [1.0; 8]);
        assert!(large == ramp(len));
        assert_backend_error(start(depends, 8).wait());
    }
}

#[test]
fn a_lost_device_is_an_error_on_every_use() {
    let Some(gpu) = device() else { return };
    let x = upload(&gpu, &[1.0; 8]);
    let pending = gpu.read(x, 32);
    gpu.device().destroy();
    let add = binary(BinaryOp::Add);
    let errors = [
        pending.wait().map(drop),
        gpu.read(x, 32).wait().map(drop),
        pollster::block_on(gpu.read(x, 32)).map(drop),
        gpu.upload(&[0; 4]).map(drop),
        gpu.allocate(1 << 20).map(drop),
        gpu.run(&recording(dispatch(&add, [x, x], x, 8))),
        gpu.synchronize().wait(),
    ];
    for error in errors.map(|result| result.expect_err("the device is gone")) {
        assert!(matches!(error.kind(), ErrorKind::DeviceLost { .. }), "{error}");
    }
    gpu.release(x);
}

#[test]
fn somebody_elses_device_keeps_its_handlers_and_survives() {
    let Some(own) = device() else { return };
    let (device, queue) = (own.device().clone(), own.queue().clone());
    let heard = Arc::new(AtomicUsize::new(0));
    let count = heard.clone();
    device.on_uncaptured_error(Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let gpu = crate::from_device(device.clone(), queue).expect("its limits are enough");
    let x = upload(&gpu, &[1.0; 8]);
    gpu.run(&recording(dispatch(&binary(BinaryOp::Add), [x, x], x, 8))).expect("it is only recorded");
    assert_backend_error(gpu.read(x, 32).wait());
    drop(gpu);
    assert_eq!(heard.load(Ordering::SeqCst), 0, "our errors are not the owner's");
    drop(device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &[wgpu::BindGroupLayoutEntry {
            binding: u32::MAX,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering),
            count: None,
        }],
    }));
    assert_eq!(heard.load(Ordering::SeqCst), 1, "the owner's are");
}

/// What goes wrong in a compile.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The renderer says so.
    Error,
    /// The renderer, naga or the driver panics.
    Panic,
    /// naga takes the text, and the device does not.
    Refused,
    /// The same after a while, in which others come to wait for it.
    Late,
}

/// A buffer that no kernel's layout has.
const REFUSED: &str =
    "@group(3) @binding(0) var<storage, read_write> x: u32; @compute @workgroup_size(1) fn main() { x = 1; }";

/// What goes wrong next. One test at a time has a device.
static FAULTS: Mutex<VecDeque<Fault>> = Mutex::new(VecDeque::new());

/// The usual renderer, but for the planted faults.
fn faulty(spec: &KernelSpec, target: kiln_shaders::Target) -> Result<String, kiln_shaders::Error> {
    let fault = lock(&FAULTS).pop_front();
    match fault {
        None => kiln_shaders::render(spec, target),
        Some(Fault::Error) => Err(kiln_shaders::check("nonsense").expect_err("it is no text")),
        Some(Fault::Panic) => panic!("out of handles"),
        Some(Fault::Late) => {
            std::thread::sleep(Duration::from_millis(200));
            Ok(REFUSED.into())
        }
        Some(Fault::Refused) => Ok(REFUSED.into()),
    }
}

fn plant(faults: &[Fault]) {
    *lock(&FAULTS) = faults.iter().copied().collect();
}

#[test]
fn l17_a_failure_that_passes_is_not_kept() {
    for fault in [Fault::Error, Fault::Panic, Fault::Refused] {
        for from_warm_up in [false, true] {
            let Some(gpu) = device_with(faulty) else { return };
            let (add, x) = (binary(BinaryOp::Add), upload(&gpu, &ramp(8)));
            plant(&[fault]);
            let error = if from_warm_up {
                warm(&gpu, &add).expect_err("a planted fault")
            } else {
                gpu.run(&recording(dispatch(&add, [x, x], x, 8))).expect_err("a planted fault")
            };
            assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{fault:?}: {error}");
            assert_eq!(gpu.counters().kernels_compiled, 1, "{fault:?}: one call, one compile");
            let sum = compute(&gpu, &add, x, x, 8);
            assert_eq!(read(&gpu, sum, 8), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0], "{fault:?}");
            assert_eq!(gpu.counters().kernels_compiled, 2, "{fault:?}");
            // From here on it is there.
            assert!(warm(&gpu, &add).is_ok());
            assert_eq!(gpu.counters().kernels_compiled, 2, "{fault:?}");
        }
    }
}

#[test]
fn l17_a_failure_that_passes_concerns_one_kernel_of_a_call() {
    let Some(gpu) = device_with(faulty) else { return };
    let (add, mul) = (binary(BinaryOp::Add), binary(BinaryOp::Mul));
    let (x, sum, product) = (upload(&gpu, &[3.0; 8]), upload(&gpu, &[0.0; 8]), upload(&gpu, &[0.0; 8]));
    let both = Recording { dispatches: vec![dispatch(&add, [x, x], sum, 8), dispatch(&mul, [x, x], product, 8)] };
    plant(&[Fault::Panic]);
    gpu.run(&both).expect_err("a planted fault");
    assert_eq!(gpu.counters().kernels_compiled, 2, "the other one is made");
    gpu.run(&both).expect("it has passed");
    assert_eq!((read(&gpu, sum, 8), read(&gpu, product, 8)), (vec![6.0; 8], vec![9.0; 8]));
    assert_eq!(gpu.counters().kernels_compiled, 3);
}

#[test]
fn l17_who_waits_for_a_compile_that_fails_tries_again() {
    let Some(gpu) = device_with(faulty) else { return };
    let (add, x) = (binary(BinaryOp::Add), upload(&gpu, &[1.5; 8]));
    plant(&[Fault::Late]);
    let warming = gpu.warm(vec![Arc::clone(&add)]);
    while gpu.counters().kernels_compiled == 0 {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sum = compute(&gpu, &add, x, x, 8);
                assert_eq!(read(&gpu, sum, 8), [3.0; 8]);
            });
        }
    });
    assert!(warming.wait().kernels[0].error.is_some(), "the fault was the warm-up's");
    assert_eq!(gpu.counters().kernels_compiled, 2);
}

#[test]
fn l17_a_warm_up_that_failed_is_not_the_last() {
    let Some(gpu) = device_with(faulty) else { return };
    plant(&[Fault::Error; 2]);
    let failed = |report: &Report| report.kernels.iter().filter(|kernel| kernel.error.is_some()).count();
    assert!(failed(&gpu.warm_up().wait()) > 0, "planted faults");
    plant(&[]);
    let again = gpu.warm_up().wait();
    assert_eq!((failed(&again), again.kernels.is_empty()), (0, false));
    // One that is whole is the answer for good.
    assert_eq!(gpu.warm_up().wait().kernels.len(), again.kernels.len());
}

/// A task of an executor that is gone: the waker alone has it, so waking drops it.
struct Orphan {
    future: Mutex<Option<Pending<()>>>,
    executor: Sender<Arc<Self>>,
    _dropped: Sender<()>,
}

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        // Nobody receives it, so it is dropped here.
        let _ = self.executor.clone().send(self);
    }
}

/// Polls a future once in a task that its waker alone keeps from then on. Says when the task has been dropped; `None`
/// if the future was ready.
fn orphan(future: Pending<()>) -> Option<Receiver<()>> {
    let ((executor, queue), (dropped, told)) = (channel(), channel());
    let task = Arc::new(Orphan { future: Mutex::new(Some(future)), executor, _dropped: dropped });
    let waker = Waker::from(Arc::clone(&task));
    let polled = lock(&task.future).as_mut().map(|future| Pin::new(future).poll(&mut Context::from_waker(&waker)));
    drop(queue);
    matches!(polled, Some(Poll::Pending)).then_some(told)
}

#[track_caller]
fn assert_dropped(told: &Receiver<()>) {
    // The sender goes with the task.
    assert_eq!(
        told.recv_timeout(Duration::from_secs(30)),
        Err(RecvTimeoutError::Disconnected),
        "the waker's call hangs"
    );
}

#[test]
fn a_waker_may_drop_the_task_that_it_wakes() {
    let Some(gpu) = device_with(faulty) else { return };
    let (add, len) = (binary(BinaryOp::Add), 2_000_000);
    let x = upload(&gpu, &ramp(len));
    plant(&[Fault::Late]);
    let warming = gpu.warm(vec![Arc::clone(&add)]);
    let told = orphan(warming.finished()).expect("it takes a while");
    assert_dropped(&told);
    assert_eq!(warming.wait().kernels.len(), 1, "the warm-up ends");
    // A software GPU takes milliseconds for it, and so it is pending as a rule.
    let mut pending = 0;
    for round in 0..50 {
        gpu.release(compute(&gpu, &add, x, x, len));
        let end = if round % 2 == 0 { gpu.synchronize() } else { gpu.read(x, len as u64 * 4).map(|_| Ok(())) };
        if let Some(told) = orphan(end) {
            assert_dropped(&told);
            pending += 1;
        }
    }
    assert!(pending > 0, "none was pending");
    let sum = compute(&gpu, &add, x, x, 8);
    assert_eq!(read(&gpu, sum, 8), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0], "the device goes on");
}
