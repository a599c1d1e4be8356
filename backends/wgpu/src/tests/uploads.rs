//! Uploads of many pieces, of few bytes, of several threads, and on a device that goes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_array::{Backend, ErrorKind};

use super::{Turn, device};
use crate::uploads::{Counts, PIECE};

/// Bytes without a period that a piece could hide.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

/// Once everything is copied nothing may be counted.
fn assert_nothing_under_way(gpu: &Turn) {
    gpu.synchronize().wait().expect("the device works");
    let start = Instant::now();
    // Callbacks of another thread's poll may be about to run.
    while gpu.engine.uploads.counts() != Counts::default() {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", gpu.engine.uploads.counts());
        gpu.device().poll(wgpu::PollType::Poll).expect("the device works");
    }
}

#[test]
fn uploads_of_several_pieces_arrive_whole() {
    let Some(gpu) = device() else { return };
    let lengths = [PIECE - 1, PIECE, PIECE + 1, PIECE + 3, 2 * PIECE + 2, 5 * PIECE + 7];
    for len in lengths.into_iter().filter(|&len| len as u64 <= gpu.caps().max_array_bytes) {
        let data = noise(len);
        let kept: Vec<_> = (0..3).map(|_| gpu.upload(&data).expect("there is memory")).collect();
        for buffer in kept {
            assert!(gpu.read(buffer, len as u64).wait().expect("it was uploaded").as_bytes() == data, "{len} bytes");
            gpu.release(buffer);
        }
    }
    assert_nothing_under_way(&gpu);
}

#[test]
fn small_uploads_are_counted_until_they_are_copied() {
    let Some(gpu) = device() else { return };
    for round in 0..1000 {
        let buffer = gpu.upload(&[1, 2, 3, 4, 5]).expect("there is memory");
        gpu.release(buffer);
        if round % 10 == 0 {
            gpu.synchronize().wait().expect("the device works");
        }
    }
    assert_nothing_under_way(&gpu);
}

#[test]
fn memory_is_touched_as_long_as_that_is_wanted_and_there_is_room() {
    let Some(gpu) = device() else { return };
    let asked = AtomicUsize::new(0);
    let touch = |limit| {
        asked.store(0, Ordering::Relaxed);
        gpu.engine.touch_room(|| asked.fetch_add(1, Ordering::Relaxed) < limit).expect("there is memory");
        assert_eq!(gpu.engine.uploads.counts(), Counts::default(), "what was touched is free again");
        asked.load(Ordering::Relaxed)
    };
    assert_eq!((touch(0), touch(2)), (1, 3));
    let all = touch(usize::MAX);
    assert!(all > 3, "{all}");
    // An upload in between finds no room, and arrives all the same.
    let data = noise(PIECE);
    let held = AtomicUsize::new(0);
    gpu.engine
        .touch_room(|| {
            if held.fetch_add(1, Ordering::Relaxed) + 1 == all {
                let buffer = gpu.upload(&data).expect("there is memory");
                let arrived = gpu.read(buffer, PIECE as u64).wait().expect("it was uploaded");
                assert!(arrived.as_bytes() == data);
                gpu.release(buffer);
            }
            true
        })
        .expect("there is memory");
    assert_eq!(held.into_inner(), all);
    assert_nothing_under_way(&gpu);
}

#[test]
fn threads_upload_side_by_side() {
    let Some(gpu) = device() else { return };
    let data = noise(3 * PIECE / 2 + 1);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (gpu, data) = (&gpu, &data[thread..]);
            scope.spawn(move || {
                for _ in 0..3 {
                    let buffer = gpu.upload(data).expect("there is memory");
                    let read = gpu.read(buffer, data.len() as u64).wait().expect("it was uploaded");
                    assert!(read.as_bytes() == data, "thread {thread}");
                    gpu.release(buffer);
                }
            });
        }
    });
    assert_nothing_under_way(&gpu);
}

#[test]
fn uploads_end_when_the_device_goes() {
    let Some(gpu) = device() else { return };
    let data = noise(6 * PIECE);
    let (began, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (gpu, data) = (&gpu, &data);
        let uploads = scope.spawn(move || {
            // Until it is gone.
            loop {
                match gpu.upload(data) {
                    Ok(buffer) => gpu.release(buffer),
                    Err(error) => return error,
                }
                let _ = began.send(());
            }
        });
        begun.recv().expect("there is memory");
        gpu.device().destroy();
        drop(uploads.join().expect("it ends, with an error"));
        // It is known from here on.
        drop(gpu.synchronize().wait());
        assert!(matches!(gpu.upload(data).map_err(|error| error.kind().clone()), Err(ErrorKind::DeviceLost { .. })));
    });
}
