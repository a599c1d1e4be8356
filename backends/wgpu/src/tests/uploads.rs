//! Uploads of many pieces, of few bytes, and of several threads.

use kiln_array::Backend;

use super::device;
use crate::uploads::{ENOUGH, PIECE, ROOM, SUBMISSIONS};

/// Bytes without a period that a piece could hide.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn uploads_of_several_pieces_arrive_whole_and_stay_within_their_room() {
    let Some(gpu) = device() else { return };
    let lengths = [PIECE - 1, PIECE, PIECE + 1, PIECE + 3, 2 * PIECE + 2, 5 * PIECE + 7];
    for len in lengths.into_iter().filter(|&len| len as u64 <= gpu.caps().max_array_bytes) {
        let data = noise(len);
        let kept: Vec<_> = (0..3).map(|_| gpu.upload(&data).expect("there is memory")).collect();
        let (under_way, written, _) = gpu.engine.uploads.counts();
        assert!(under_way <= ROOM && written < ENOUGH, "{len}: {under_way} under way, {written} written");
        for buffer in kept {
            assert!(gpu.read(buffer, len as u64).wait().expect("it was uploaded").as_bytes() == data, "{len} bytes");
            gpu.release(buffer);
        }
    }
}

#[test]
fn small_uploads_are_counted_and_forgotten() {
    let Some(gpu) = device() else { return };
    for _ in 0..1000 {
        let buffer = gpu.upload(&[1, 2, 3, 4, 5]).expect("there is memory");
        gpu.synchronize().wait().expect("the device works");
        gpu.release(buffer);
    }
    let (under_way, _, submissions) = gpu.engine.uploads.counts();
    assert_eq!(under_way, 5000);
    assert!(submissions <= SUBMISSIONS, "{submissions}");
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
}
