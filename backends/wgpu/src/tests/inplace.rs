//! Reads of memory that host and device share, beside other work on the same buffers.

use std::sync::atomic::{AtomicBool, Ordering};

use kiln_array::Backend;
use kiln_array::op::BinaryOp;

use super::{binary, compute, device, floats, ramp, read, upload};
use crate::adapter;

/// A device that reads in place, or `None` after a line that says why.
macro_rules! sharing_device {
    () => {{
        let Some(gpu) = device() else { return };
        if !gpu.engine.in_place {
            println!("not run: reads in place ({} has memory of its own)", gpu.info());
            return;
        }
        gpu
    }};
}

#[test]
fn devices_that_share_memory_read_in_place() {
    let Some(gpu) = device() else { return };
    assert_eq!(gpu.engine.in_place, adapter::shares_memory(gpu.info()), "wgpu maps storage on every such device");
    let x = upload(&gpu, &ramp(1000));
    assert_eq!(read(&gpu, x, 1000), ramp(1000));
    assert_eq!(gpu.counters().reads_in_place, u64::from(gpu.engine.in_place));
}

#[test]
fn a_dropped_buffer_stays_until_it_was_read() {
    let gpu = sharing_device!();
    let add = binary(BinaryOp::Add);
    let (len, ones) = (5000, vec![1.0; 5000]);
    let x = upload(&gpu, &ramp(len));
    let pending = gpu.read(x, len as u64 * 4);
    let unread = gpu.read(x, 4);
    gpu.release(x);
    // New arrays would take its memory.
    for _ in 0..8 {
        let y = upload(&gpu, &ones);
        compute(&gpu, &add, y, y, len);
    }
    assert_eq!(floats(pending.wait().expect("it was uploaded")), ramp(len));
    let before = gpu.counters().buffers;
    drop(unread);
    assert_eq!(gpu.counters().buffers, before - 1, "it goes with its last reader");
}

#[test]
fn work_goes_on_between_the_start_and_the_end_of_a_read() {
    let gpu = sharing_device!();
    let (add, len) = (binary(BinaryOp::Add), 100_000);
    let x = upload(&gpu, &ramp(len));
    let twice: Vec<f32> = ramp(len).iter().map(|v| v + v).collect();
    let first = gpu.read(x, len as u64 * 4);
    let y = compute(&gpu, &add, x, x, len);
    let second = gpu.read(x, len as u64 * 4);
    let z = compute(&gpu, &add, x, x, len);
    assert_eq!(floats(second.wait().expect("a read")), ramp(len));
    assert_eq!(floats(first.wait().expect("a read")), ramp(len));
    // As futures of one thread, where nobody else could end a read.
    pollster::block_on(async {
        let pending = gpu.read(x, len as u64 * 4);
        let w = compute(&gpu, &add, x, x, len);
        assert_eq!(floats(gpu.read(w, len as u64 * 4).await.expect("a read")), twice);
        assert_eq!(floats(pending.await.expect("a read")), ramp(len));
    });
    assert_eq!(read(&gpu, y, len), twice);
    assert_eq!(read(&gpu, z, len), twice);
}

#[test]
fn many_threads_read_and_use_one_buffer() {
    let gpu = sharing_device!();
    let (add, len) = (binary(BinaryOp::Add), 30_000);
    let x = upload(&gpu, &ramp(len));
    let twice: Vec<f32> = ramp(len).iter().map(|v| v + v).collect();
    let (gpu, stop) = (&gpu, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(read(gpu, x, len), ramp(len));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let y = compute(gpu, &add, x, x, len);
                assert_eq!(read(gpu, y, len), twice);
                gpu.release(y);
            }
        });
        // As an owner of the device may, which maps buffers on this thread.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                gpu.device().poll(wgpu::PollType::Poll).expect("it polls");
            }
        });
        let ends: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        // Before a failure is passed on: the scope waits for everybody.
        stop.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.expect("a reader"));
    });
}
