//! Work that fails: an error each time, never a wrong value, and the device goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_array::op::BinaryOp;
use kiln_array::recording::BufferId;
use kiln_array::{Backend, Error, ErrorKind, HostBytes};

use super::{binary, compute, device, device_with, dispatch, floats, ramp, read, recording, upload, warm};

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
    // Whether this one made it is the driver's business; it must end.
    drop(pending.wait());
    let add = binary(BinaryOp::Add);
    let errors = [
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
