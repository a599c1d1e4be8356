//! Futures of reads: under an executor that only parks its thread, many at once, dropped unfinished. Case I06.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use kiln::prelude::*;

use crate::harness::{line, on_each_backend, values};

/// What a future may take, the work of other tests on the device before it.
const LIMIT: Duration = Duration::from_secs(60);

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread. Between polls it sleeps: nobody but the library can move things on.
pub(crate) fn park_until_ready<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        let left = LIMIT.saturating_sub(start.elapsed());
        assert!(!left.is_zero(), "the future has not woken its executor in {LIMIT:?}");
        std::thread::park_timeout(left);
    }
}

#[test]
fn i06_reads_under_a_minimal_executor() {
    on_each_backend(|device| {
        let x = line(device, &[1.0f32, 2.0, 3.0]);
        let host = park_until_ready(async { (&x * 2.0).eval()?.read().await }).unwrap();
        assert_eq!(host.as_slice(), [2.0, 4.0, 6.0]);
        let sum = park_until_ready(async { x.sum(..)?.read_item().await });
        assert_eq!(sum.unwrap(), 6.0);
        park_until_ready(device.synchronize()).unwrap();
        let view = x.slice(s![..;-1]).unwrap();
        assert_eq!(park_until_ready(view.read()).unwrap().as_slice(), [3.0, 2.0, 1.0]);
        let empty = device.zeros::<f32>(0).unwrap();
        assert_eq!(park_until_ready(empty.read()).unwrap().shape(), [0]);
        assert!(park_until_ready(x.read_item()).is_err());
    });
}

#[test]
fn i06_reads_under_pollster() {
    on_each_backend(|device| {
        let x = line(device, &(0..1000).collect::<Vec<i32>>());
        let host = pollster::block_on(x.read()).unwrap();
        assert_eq!(host.as_slice()[999], 999);
        let total = pollster::block_on(async { x.sum(..)?.read_item().await });
        assert_eq!(total.unwrap(), 499_500);
    });
}

/// A hundred reads at once, on one thread.
#[test]
fn i06_a_hundred_reads_at_once() {
    on_each_backend(|device| {
        let arrays: Vec<Array<u32>> = (0..100).map(|i| (device.full(i, 100).unwrap() + 1).eval().unwrap()).collect();
        let mut reads: Vec<_> = arrays.iter().map(|x| Some(x.read())).collect();
        let mut done = 0;
        park_until_ready(std::future::poll_fn(|context| {
            for (i, read) in reads.iter_mut().enumerate() {
                let Some(pending) = read else { continue };
                if let Poll::Ready(host) = Pin::new(pending).poll(context) {
                    assert_eq!(host.unwrap().into_vec(), vec![i as u32 + 1; 100]);
                    *read = None;
                    done += 1;
                }
            }
            if done == 100 { Poll::Ready(()) } else { Poll::Pending }
        }));
    });
}

/// A read started before later work gives the values of its time; one that is dropped does no harm.
#[test]
fn reads_are_started_when_asked() {
    on_each_backend(|device| {
        let x = line(device, &[1, 2, 3]);
        let early = x.read();
        let y = (&x * 10).eval().unwrap();
        drop(x);
        drop(y.read());
        let late = y.read();
        drop(y);
        assert_eq!(late.wait().unwrap().as_slice(), [10, 20, 30]);
        assert_eq!(early.wait().unwrap().as_slice(), [1, 2, 3]);
        let z = line(device, &[4]);
        assert_eq!(values(&z), [4]);
    });
}

/// The async way in gives the same device as the other.
#[test]
fn devices_open_without_blocking() {
    let cpu = kiln::Options::new().backend(kiln::Backend::Cpu);
    let device = park_until_ready(cpu.open_async()).unwrap();
    assert_eq!(device.info().backend, "cpu");
    let listed = park_until_ready(kiln::devices_async());
    assert_eq!(listed, kiln::devices());
}
