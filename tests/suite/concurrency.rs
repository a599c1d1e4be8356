//! Many threads on one device: arrays made, combined, read and dropped side by side, each in its own order.

use std::sync::Barrier;

use kiln::prelude::*;

use crate::harness::{assert_same, line, on_each_backend, values};
use crate::inputs::Values;
use crate::naive::running;

/// Handles go from thread to thread.
#[test]
fn arrays_are_shared_by_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Device>();
    is_send_and_sync::<Array<f32>>();
    is_send_and_sync::<Expr<f32>>();
    is_send_and_sync::<kiln::Error>();
    on_each_backend(|device| {
        let host = u32::host(&[5000], 1).values;
        let x = line(device, &host);
        let want = running(&host, |v| v, u32::wrapping_add);
        std::thread::scope(|scope| {
            for t in 0..8 {
                let (x, want) = (&x, &want);
                scope.spawn(move || {
                    for _ in 0..10 {
                        if t % 2 == 0 {
                            assert_same(&values(&x.cumsum(0).unwrap()), want, "cumsum");
                        } else {
                            let total = x.sum(..).unwrap().item().unwrap();
                            assert_eq!(Some(&total), want.last());
                        }
                    }
                });
            }
        });
    });
}

/// An array made on one thread is read on another at once: work is in order, whoever asks.
#[test]
fn what_one_thread_makes_another_reads() {
    on_each_backend(|device| {
        let (sender, receiver) = std::sync::mpsc::channel::<(u32, Array<u32>)>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for i in 0..100 {
                    let x = device.full(i, 1000).unwrap();
                    let y = (&x + 1).eval().unwrap();
                    sender.send((i, y)).unwrap();
                }
            });
            for (i, y) in receiver {
                assert_eq!(values(&y), vec![i + 1; 1000]);
            }
        });
    });
}

/// Buffers that go back and out again at once never show another array's values.
#[test]
fn freed_memory_is_not_seen() {
    on_each_backend(|device| {
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for t in 0..4u32 {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut chain = device.full(t, 4096).unwrap();
                    for i in 0..60 {
                        // The one before is dropped while its reader may still be queued.
                        chain = (&chain * 3 + i).eval().unwrap();
                    }
                    let want = (0..60u32).fold(t, |v, i| v.wrapping_mul(3).wrapping_add(i));
                    assert_eq!(values(&chain), vec![want; 4096]);
                });
            }
        });
    });
}

/// `synchronize` waits for everything, and can be called from anywhere.
#[test]
fn synchronize_from_many_threads() {
    on_each_backend(|device| {
        let x = device.full(2.0f32, 10_000).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let y = (&x * &x).eval().unwrap();
                        device.synchronize().wait().unwrap();
                        assert_eq!(y.sum(..).unwrap().item().unwrap(), 40_000.0);
                    }
                });
            }
        });
    });
}
