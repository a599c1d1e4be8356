//! Work that succeeds: results, order, bounds, futures, threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_array::op::BinaryOp;
use kiln_array::{Backend, DeviceKind, ErrorKind, Pending};

use super::{MAP_GROUP, binary, compute, device, floats, ramp, read, upload};
use crate::uploads::PIECE;
use crate::{Options, open};

#[test]
fn maps_compute_at_every_size() {
    let Some(gpu) = device() else { return };
    let add = binary(BinaryOp::Add);
    for len in [1, 3, 4, 5, 1023, 4096, 4097, 1_000_003] {
        let values = ramp(len);
        let x = upload(&gpu, &values);
        let y = compute(&gpu, &add, x, x, len);
        let expected: Vec<f32> = values.iter().map(|x| x + x).collect();
        assert_eq!(read(&gpu, y, len), expected, "{len} elements");
    }
    assert_eq!(gpu.counters().kernels_compiled, 1);
}

#[test]
fn more_groups_than_one_dimension_holds_compute() {
    let Some(gpu) = device() else { return };
    let len = 65_536 * MAP_GROUP + 5;
    if (len * 4) as u64 > gpu.caps().max_array_bytes || gpu.info().kind == DeviceKind::SoftwareGpu {
        println!("not run: 65537 workgroups (too slow or too large for {})", gpu.info());
        return;
    }
    let x = upload(&gpu, &vec![1.5; len]);
    let y = compute(&gpu, &binary(BinaryOp::Add), x, x, len);
    assert!(read(&gpu, y, len).iter().all(|y| y.to_bits() == 3f32.to_bits()));
}

#[test]
fn bytes_of_any_length_come_back() {
    let Some(gpu) = device() else { return };
    for len in [0usize, 1, 2, 3, 4, 5, 7, 255, 256, 257, 1027] {
        let data: Vec<u8> = (0u8..=255).cycle().take(len).collect();
        let buffer = gpu.upload(&data).expect("there is memory");
        assert_eq!(gpu.read(buffer, len as u64).wait().expect("it was uploaded").as_bytes(), data);
    }
}

#[test]
fn an_upload_does_not_overtake_recorded_work_on_a_reused_buffer() {
    let Some(gpu) = device() else { return };
    let add = binary(BinaryOp::Add);
    // Pieces are submitted before the batch that is being recorded, so none of them may land in what it reads.
    for (len, rounds) in [(1000, 20u8), (PIECE / 2, 4)] {
        let mut results = Vec::new();
        for round in 0..rounds {
            let x = upload(&gpu, &vec![f32::from(round); len]);
            results.push(compute(&gpu, &add, x, x, len));
            // The next round's upload must not land in this one's memory before the sum has read it.
            gpu.release(x);
        }
        for (round, &result) in (0u8..).zip(&results) {
            assert!(read(&gpu, result, len) == vec![f32::from(round) * 2.0; len], "round {round} of {len}");
        }
    }
}

#[test]
fn memory_and_submissions_stay_bounded_without_a_read() {
    let Some(gpu) = device() else { return };
    let mul = binary(BinaryOp::Mul);
    let x = upload(&gpu, &ramp(1024));
    for _ in 0..2000 {
        let y = compute(&gpu, &mul, x, x, 1024);
        gpu.release(y);
    }
    let counters = gpu.counters();
    assert!(counters.bytes_used + counters.bytes_free < 1 << 20, "{counters:?}");
    assert!((2000 / 64..2000 / 8).contains(&counters.submissions), "{counters:?}");
    assert!(counters.bind_groups < 20, "{counters:?}");
    gpu.synchronize().wait().expect("the device works");
}

#[test]
fn free_memory_is_given_back_beyond_a_bound() {
    let Some(gpu) = device() else { return };
    // Never touched, so software devices do not really hold it.
    let buffers: Vec<_> = (0..24).map(|_| gpu.allocate(32 << 20).expect("there is memory")).collect();
    buffers.into_iter().for_each(|buffer| gpu.release(buffer));
    assert_eq!(gpu.counters().bytes_used, 0);
    // A loop would ask for it again soon; what stays unused for long is forgotten.
    for _ in 0..10_000 {
        gpu.release(gpu.allocate(16).expect("there is memory"));
    }
    assert!(gpu.counters().bytes_free <= 256 << 20, "{:?}", gpu.counters());
}

#[test]
fn futures_complete_without_anybody_polling_the_device() {
    let Some(gpu) = device() else { return };
    let x = upload(&gpu, &ramp(5000));
    let add = binary(BinaryOp::Add);
    let expected: Vec<f32> = ramp(5000).iter().map(|x| x + x).collect();
    for _ in 0..50 {
        let y = compute(&gpu, &add, x, x, 5000);
        let bytes = pollster::block_on(gpu.read(y, 20_000)).expect("the work succeeded");
        assert_eq!(floats(bytes), expected);
        gpu.release(y);
    }
    pollster::block_on(gpu.synchronize()).expect("the device works");
    // Dropped before it arrives: nothing to see, nothing to hang.
    drop(gpu.read(x, 4));
    let outlives: Pending<_> = gpu.read(x, 4);
    drop(gpu);
    assert_eq!(pollster::block_on(outlives).expect("it was asked for in time").as_bytes(), [0; 4]);
}

#[test]
fn sixteen_threads_share_a_device() {
    let Some(gpu) = device() else { return };
    let kernels = [binary(BinaryOp::Add), binary(BinaryOp::Mul)];
    std::thread::scope(|scope| {
        for seed in 0u8..16 {
            let (gpu, kernels) = (&gpu, &kernels);
            scope.spawn(move || {
                for round in 0..30 {
                    let len = 500 + 37 * usize::from(seed) + round;
                    let a = upload(gpu, &vec![f32::from(seed); len]);
                    let sum = compute(gpu, &kernels[0], a, a, len);
                    let product = compute(gpu, &kernels[1], sum, a, len);
                    gpu.release(sum);
                    let pending = gpu.read(product, len as u64 * 4);
                    let bytes = if round % 2 == 0 { pending.wait() } else { pollster::block_on(pending) };
                    let expected = vec![2.0 * f32::from(seed) * f32::from(seed); len];
                    assert_eq!(floats(bytes.expect("the work succeeded")), expected);
                    [a, product].into_iter().for_each(|buffer| gpu.release(buffer));
                }
            });
        }
    });
    assert_eq!(gpu.counters().kernels_compiled, 2, "threads join a compile that runs");
    assert_eq!(gpu.counters().buffers, 0);
}

#[test]
fn devices_are_listed_and_refusals_say_what_there_is() {
    let Some(_gpu) = device() else { return };
    let listed = pollster::block_on(crate::devices());
    assert!(!listed.is_empty());
    let error = pollster::block_on(open(&Options::new().adapter("no such card"))).expect_err("no such card");
    let ErrorKind::NoDevice { wanted, reason } = error.kind() else { panic!("{error}") };
    assert!(wanted.contains("no such card") && reason.contains(&listed[0].name), "{error}");
    let named = pollster::block_on(open(&Options::new().adapter(listed[0].name.to_uppercase()))).expect("it is there");
    assert_eq!(named.info().name, listed[0].name);
    assert!(named.open_times().device > std::time::Duration::ZERO);
}

#[test]
fn first_steps_end_where_they_are_no_longer_wanted() {
    let Some(gpu) = device() else { return };
    // Its own.
    let _ = gpu.warm_up().wait();
    let asked = Arc::new(AtomicU64::new(0));
    for limit in 0.. {
        asked.store(0, Ordering::Relaxed);
        let count = Arc::clone(&asked);
        let outcome = gpu.engine.first_steps(move |_| count.fetch_add(1, Ordering::Relaxed) < limit);
        assert_eq!(gpu.counters().buffers, 0, "nothing stays");
        match outcome {
            Ok(()) => break,
            Err(error) => assert!(error.to_string().contains("the program goes first"), "{error}"),
        }
        assert_eq!(asked.load(Ordering::Relaxed), limit + 1, "nothing is asked for after the end");
    }
    assert!(asked.load(Ordering::Relaxed) > 10, "there are as many places to stop");
}
