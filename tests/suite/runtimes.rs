//! Futures of reads under a runtime with timers, and while the device is busy. Case I06.
//!
//! In children, where nothing else touches the library.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use kiln::prelude::*;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::harness::{child, line, on_each_backend, report, values, within};
use crate::waiting::park_until_ready;

/// How late a future may be.
const LIMIT: Duration = Duration::from_secs(5);

/// How long the device is kept busy.
const BUSY: Duration = Duration::from_secs(1);

const TICK: Duration = Duration::from_millis(5);

/// Whether a device works on after a call has returned.
#[cfg(feature = "wgpu")]
fn works_behind(device: &Device) -> bool {
    kiln::wgpu::backend(device).is_some()
}

#[cfg(not(feature = "wgpu"))]
fn works_behind(_: &Device) -> bool {
    false
}

/// Hands the device work for about so long, where it works behind the caller.
fn occupy(device: &Device, long: Duration) {
    const MOST: usize = 1 << 17;
    if !works_behind(device) {
        return;
    }
    let row = device.full(1.0f32, 1 << 15).unwrap();
    let column = device.full(1.0f32, [MOST, 1]).unwrap();
    let step = |rows: usize| {
        let product = &row * &column.slice(s![..rows]).unwrap();
        (0..4).fold(product, |value, _| value.tanh()).sum(0).unwrap()
    };
    let took = |rows| {
        let start = Instant::now();
        step(rows);
        device.synchronize().wait().unwrap();
        start.elapsed()
    };
    let mut rows = 16;
    // The first compiles.
    took(rows);
    while took(rows) * 8 < long && rows < MOST {
        rows *= 2;
    }
    let times = long.as_secs_f64() / took(rows).min(took(rows)).as_secs_f64();
    let start = Instant::now();
    for _ in 0..times.ceil() as usize {
        step(rows);
    }
    println!("i06: {times} steps of {rows} rows, handed over in {:?}", start.elapsed());
}

/// A runtime on this thread alone.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// What comes first: the value, or a tick of the timer.
async fn value_or_tick<T>(mut future: Pin<&mut impl Future<Output = T>>, ticks: &mut Interval) -> Option<T> {
    let first = |cx: &mut std::task::Context<'_>| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => ticks.poll_tick(cx).map(|_| None),
    };
    poll_fn(first).await
}

/// A future, and how often it is polled.
fn counted<'a, T>(future: impl Future<Output = T> + 'a, polls: &'a Cell<usize>) -> impl Future<Output = T> + 'a {
    let mut future = Box::pin(future);
    poll_fn(move |cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
}

/// The processor's time of this thread and of the library's that waits; `None` where nothing tells it.
fn own_time() -> Option<Duration> {
    let here = std::fs::read_link("/proc/thread-self").ok()?;
    let mut ticks = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        // A thread may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { continue };
        let (name, numbers) = stat.rsplit_once(')')?;
        if Some(thread.file_name().as_os_str()) == here.file_name() || name.ends_with("(kiln-wgpu-wait") {
            let numbers = numbers.split_whitespace().skip(11).take(2);
            ticks += numbers.map(|number| number.parse::<u64>().expect("a number of ticks")).sum::<u64>();
        }
    }
    // A hundredth of a second each, on every Linux.
    Some(Duration::from_millis(ticks * 10))
}

/// Asserts that nothing spun while somebody waited.
fn assert_idle(before: Option<Duration>, waited: Duration) {
    let (Some(before), Some(now)) = (before, own_time()) else {
        return report("not run: case I06, the processor's time of a wait (nothing here tells it)");
    };
    let used = now - before;
    assert!(used * 5 < waited, "{used:?} of the processor's time in {waited:?}");
}

/// A read behind a second of work: a runtime's timers go on, and no thread spins.
#[test]
fn i06_timers_go_on_while_a_read_is_pending() {
    child("runtimes::i06_timers_go_on_while_a_read_is_pending", &[], || {
        on_each_backend(|device| {
            let x = line(device, &[1, 2, 3]);
            runtime().block_on(async {
                // What is compiled and started for a first read is not what is measured.
                let first = (&x + 1).eval().unwrap().read().await.unwrap();
                assert_eq!(first.as_slice(), [2, 3, 4]);
                occupy(device, BUSY);
                let y = (&x + 1).eval().unwrap();
                let polls = Cell::new(0);
                let mut read = pin!(counted(y.read(), &polls));
                let (start, before, mut ticks, mut ticked) = (Instant::now(), own_time(), ticks(), 0);
                let host = loop {
                    match value_or_tick(read.as_mut(), &mut ticks).await {
                        Some(host) => break host.unwrap(),
                        None => ticked += 1,
                    }
                };
                let waited = start.elapsed();
                assert_eq!(host.as_slice(), [2, 3, 4]);
                if works_behind(device) {
                    println!("i06: {ticked} ticks in {waited:?}");
                    assert!(waited > BUSY / 4, "the device was busy for {waited:?} only");
                    assert!(waited < BUSY + LIMIT, "{waited:?}");
                    assert!(ticked as f64 > waited.as_secs_f64() / TICK.as_secs_f64() / 5.0, "{ticked} in {waited:?}");
                    // Once for each tick, and when it is woken.
                    assert!(polls.get() <= 2 * ticked + 20, "{} polls, {ticked} ticks", polls.get());
                    assert_idle(before, waited);
                }
            });
        });
    });
}

/// The same under an executor that only parks its thread.
#[test]
fn i06_a_parked_thread_is_woken_and_nothing_spins() {
    child("runtimes::i06_a_parked_thread_is_woken_and_nothing_spins", &[], || {
        on_each_backend(|device| {
            let x = line(device, &[1, 2, 3]);
            assert_eq!(park_until_ready(x.read()).unwrap().as_slice(), [1, 2, 3]);
            occupy(device, BUSY);
            let total = x.sum(..).unwrap();
            let (start, before) = (Instant::now(), own_time());
            let polls = Cell::new(0);
            assert_eq!(park_until_ready(counted(total.read_item(), &polls)).unwrap(), 6);
            if works_behind(device) {
                let waited = start.elapsed();
                assert!(waited > BUSY / 4 && waited < BUSY + LIMIT, "{waited:?}");
                assert!(polls.get() <= 20, "{} polls", polls.get());
                assert_idle(before, waited);
            }
        });
    });
}

/// A hundred tasks of one thread, each with a read and a timer.
#[test]
fn i06_a_hundred_tasks_read_at_once() {
    child("runtimes::i06_a_hundred_tasks_read_at_once", &[], || {
        on_each_backend(|device| {
            let array = |i: u32| (device.full(i, 1000).unwrap() + 1).eval().unwrap();
            assert_eq!(values(&array(7)), [8; 1000]);
            occupy(device, BUSY / 5);
            let arrays: Vec<Array<u32>> = (0..100).map(array).collect();
            within(BUSY + LIMIT, || {
                runtime().block_on(async {
                    let task = |array: Array<u32>| async move {
                        let (mut read, mut ticks) = (pin!(array.read()), ticks());
                        loop {
                            if let Some(host) = value_or_tick(read.as_mut(), &mut ticks).await {
                                break host.unwrap().into_vec();
                            }
                        }
                    };
                    let tasks: Vec<_> = arrays.into_iter().map(|array| tokio::spawn(task(array))).collect();
                    for (i, task) in (1..).zip(tasks) {
                        assert_eq!(task.await.unwrap(), [i; 1000]);
                    }
                });
            });
        });
    });
}

/// A read that one task has begun to await may be awaited by another: who asked last is woken.
#[test]
fn i06_a_pending_read_changes_hands() {
    child("runtimes::i06_a_pending_read_changes_hands", &[], || {
        on_each_backend(|device| {
            let x = line(device, &[1, 2, 3]);
            occupy(device, BUSY / 5);
            let (mut read, mut end) = (x.read(), device.synchronize());
            within(BUSY + LIMIT, || {
                let early = runtime().block_on(async {
                    let mut ticks = ticks();
                    // The first tick comes at once.
                    let read = value_or_tick(Pin::new(&mut read), &mut ticks).await;
                    (read, value_or_tick(Pin::new(&mut end), &mut ticks).await)
                });
                if works_behind(device) {
                    assert!(early.0.is_none() && early.1.is_none(), "the device is busy");
                    // Another executor, which sleeps until it is woken.
                    park_until_ready(end).unwrap();
                    assert_eq!(park_until_ready(read).unwrap().as_slice(), [1, 2, 3]);
                }
            });
        });
    });
}
