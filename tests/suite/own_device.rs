//! A wgpu device that the program has opened itself: Kiln computes on it beside the program's own work.

use kiln::prelude::*;
use kiln::wgpu;
use kiln::{DeviceKind, ErrorKind};

use crate::harness::{backends, line, values};

/// A device with the limits that `limits` makes of the adapter's; nothing where there is no adapter.
pub(crate) fn open(limits: impl Fn(wgpu::Limits) -> wgpu::Limits) -> Option<(wgpu::Device, wgpu::Queue)> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
    let wgpu_ran = backends().iter().any(|tested| tested.name == "wgpu" && tested.device.is_ok());
    match adapter {
        Ok(adapter) => {
            let request = adapter.request_device(&wgpu::DeviceDescriptor {
                required_limits: limits(adapter.limits()),
                ..Default::default()
            });
            Some(pollster::block_on(request).expect("the adapter opens"))
        }
        Err(error) => {
            assert!(!wgpu_ran, "the suite has an adapter, but: {error}");
            None
        }
    }
}

#[test]
fn works_beside_the_programs_own_work() {
    let Some((device, queue)) = open(|limits| limits) else {
        return;
    };
    let kiln = wgpu::from_device(device.clone(), queue.clone()).unwrap();
    assert_ne!(kiln.info().kind, DeviceKind::Cpu);
    let x = line(&kiln, &(0..1000).collect::<Vec<i32>>());

    // The program copies buffers of its own, with Kiln's work recorded before, between and after.
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("the program's"),
            size: 16,
            usage,
            mapped_at_creation: false,
        })
    };
    let (source, target) = (buffer(usage), buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST));
    queue.write_buffer(&source, 0, &[7; 16]);
    let squares = (&x * &x).eval().unwrap();
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(&source, 0, &target, 0, 16);
    queue.submit([encoder.finish()]);
    let paths = squares.cumsum(0).unwrap();
    target.slice(..).map_async(wgpu::MapMode::Read, |result| result.expect("mapped"));
    assert_eq!(paths.max(..).unwrap().item().unwrap(), 332_833_500);
    device.poll(wgpu::PollType::wait_indefinitely()).expect("the device goes on");
    let mapped = target.slice(..).get_mapped_range();
    assert_eq!(mapped.expect("mapped")[..], [7; 16]);
    target.unmap();

    // Kiln goes; the program's device stays.
    drop((x, squares, paths, kiln));
    queue.write_buffer(&source, 0, &[8; 16]);
    let again = wgpu::from_device(device, queue).unwrap();
    let y = line(&again, &[1.0f32, 2.0]);
    assert_eq!(values(&(&y + 1.0).eval().unwrap()), [2.0, 3.0]);
}

/// The owner's error handler gets the owner's errors, and no error of Kiln's.
#[test]
fn the_owners_error_handler_stays() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let Some((device, queue)) = open(|limits| limits) else {
        return;
    };
    let errors = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&errors);
    device.on_uncaptured_error(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let kiln = wgpu::from_device(device.clone(), queue).unwrap();
    let x = line(&kiln, &[1.0f32, 2.0]);
    assert!(kiln.full(1.0f32, 1 << 40).is_err());
    assert_eq!(x.sum(..).unwrap().item().unwrap(), 3.0);
    assert_eq!(errors.load(Ordering::Relaxed), 0, "errors of Kiln's");
    // A buffer of no usage that a mapping wants is an error of the program's.
    let _ = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: u64::MAX,
        usage: wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    assert_eq!(errors.load(Ordering::Relaxed), 1, "errors of the program's");
    assert_eq!(x.max(..).unwrap().item().unwrap(), 2.0);
}

/// Limits that some kernel could not do with are an error of opening, by name.
#[test]
fn limits_that_are_too_low_are_named() {
    type Lower = fn(&mut wgpu::Limits);
    let all: [(Lower, &str); 6] = [
        (|limits| limits.max_storage_buffers_per_shader_stage = 3, "storage buffers"),
        (|limits| limits.max_bindings_per_bind_group = 3, "storage buffers"),
        (|limits| limits.max_uniform_buffers_per_shader_stage = 0, "uniform buffers"),
        (|limits| limits.max_dynamic_uniform_buffers_per_pipeline_layout = 0, "dynamic uniform buffers"),
        (|limits| limits.max_bind_groups = 1, "bind groups"),
        (|limits| limits.max_buffer_size = 4096, "bytes of a buffer"),
    ];
    for (lower, named) in all {
        let lowered = |mut limits: wgpu::Limits| {
            lower(&mut limits);
            limits
        };
        let Some((device, queue)) = open(lowered) else { return };
        let error = wgpu::from_device(device, queue).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Limit { op: "open", .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

/// The least that is enough: every operation computes, in parts where it has more arrays, and nothing reaches the owner.
#[test]
fn four_bindings_are_enough() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let few = |limits| wgpu::Limits { max_bindings_per_bind_group: 4, ..limits };
    let Some((device, queue)) = open(few) else { return };
    let errors = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&errors);
    device.on_uncaptured_error(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let kiln = wgpu::from_device(device, queue).unwrap();
    let x = line(&kiln, &(0..100_000u32).collect::<Vec<_>>());
    let wide = (0..9).fold(&x + 0, |sum, i| sum + x.slice(s![i..i + 1]).expect("one element"));
    assert_eq!(values(&wide.eval().unwrap()), (0..100_000).map(|i| i + 36).collect::<Vec<u32>>());
    assert_eq!(x.cumsum(0).unwrap().slice(s![-1]).unwrap().item().unwrap(), 704_982_704);
    assert_eq!(x.sum(..).unwrap().item().unwrap(), 704_982_704);
    assert_eq!((&x * 2).max(..).unwrap().item().unwrap(), 199_998);
    assert_eq!(errors.load(Ordering::Relaxed), 0, "errors of Kiln's");
}

/// The limits of every WebGPU device are enough; an array beyond them is refused by name. Cases G03, G04.
#[test]
fn default_limits_are_enough() {
    let Some((device, queue)) = open(|_| wgpu::Limits::default()) else {
        return;
    };
    let kiln = wgpu::from_device(device, queue).unwrap();
    let error = kiln.full(1.0f32, 36_711_938).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error:?}");
    for word in ["146847752", "134217728"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let host: Vec<u32> = (0..300_000).map(|i| i % 7).collect();
    let x = line(&kiln, &host);
    let total = host.iter().sum::<u32>();
    assert_eq!(x.sum(..).unwrap().item().unwrap(), total);
    let paths = values(&x.cumsum(0).unwrap());
    assert_eq!(paths.last(), Some(&total));
    // More arrays than eight bindings take: computed in parts.
    let wide = (0..9).fold(&x + 0, |sum, i| sum + x.slice(s![i..i + 1]).expect("one element"));
    let more = (0..9).sum::<u32>() - 7 - 8 + 1;
    let want: Vec<u32> = host.iter().map(|v| v + more).collect();
    assert_eq!(values(&wide.eval().unwrap()), want);
}

#[test]
fn arrays_dropped_from_inside_a_submission() {
    let Some((device, queue)) = open(|limits| limits) else {
        return;
    };
    let kiln = wgpu::from_device(device.clone(), queue.clone()).unwrap();
    let x = line(&kiln, &[1i32, 2, 3]);
    for round in 0..50 {
        // wgpu runs the callback inside whatever submission comes after the work, Kiln's own among them.
        let doomed = (&x + round).eval().unwrap();
        queue.submit([]);
        queue.on_submitted_work_done(move || drop(doomed));
        assert_eq!((&x * 2).sum(..).unwrap().item().unwrap(), 12);
    }
    device.poll(wgpu::PollType::wait_indefinitely()).expect("the device goes on");
}
