//! Group (l): devices that are lost.
#![cfg(feature = "wgpu")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::prelude::*;
use kiln::wgpu;
use kiln::{ErrorKind, Options};

use crate::harness::{backends, line};
use crate::own_device;

/// A device, its owner's handle on it, and how many errors reached the owner.
type Opened = (Device, wgpu::Device, Arc<AtomicUsize>);

/// One that the program has opened.
fn owners() -> Option<Opened> {
    let (device, queue) = own_device::open(|limits| limits)?;
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    device.on_uncaptured_error(Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    Some((wgpu::from_device(device.clone(), queue).unwrap(), device, heard))
}

/// One that Kiln has opened on the adapter of the suite.
fn kilns() -> Option<Opened> {
    let suites = backends().iter().find(|tested| tested.name == "wgpu")?.device.as_ref().ok()?;
    // Equal options open one device, which no other test may lose.
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let own = format!("l03 {}", OPENED.fetch_add(1, Ordering::Relaxed));
    let options = Options::new().adapter(&suites.info().name).prewarm(0).cache(false).application(own);
    let kiln = options.open().unwrap();
    let device = wgpu::backend(&kiln).expect("it is a GPU").device().clone();
    Some((kiln, device, Arc::default()))
}

#[track_caller]
fn assert_lost<T>(result: kiln::Result<T>, what: &str) {
    let Err(error) = result else { panic!("{what}: there is no device any more") };
    let ErrorKind::DeviceLost { device, reason } = error.kind() else { panic!("{what}: {error}") };
    assert!(!device.is_empty() && reason.len() > 5, "{what}: {error}");
}

type Call = fn(&Device, &Array<f32>) -> kiln::Result<()>;

/// Each is the first call on a device that is gone.
const CALLS: [(&str, Call); 14] = [
    ("array", |device, _| device.array(&[1.0f32; 100], 100).map(drop)),
    ("a large array", |device, _| device.array(&vec![1.0f32; 3 << 20], 3 << 20).map(drop)),
    ("full", |device, _| device.full(1.0f32, 100).map(drop)),
    ("synchronize, wait", |device, _| device.synchronize().wait()),
    ("synchronize, await", |device, _| pollster::block_on(device.synchronize())),
    ("eval", |_, x| (x + x).eval().map(drop)),
    ("a new kernel", |_, x| (x * 3.0 - x).eval().map(drop)),
    ("sum", |_, x| x.sum(..).map(drop)),
    ("cumsum", |_, x| x.cumsum(0).map(drop)),
    ("item", |_, x| x.slice(s![7]).and_then(|one| one.item()).map(drop)),
    ("to_host", |_, x| x.to_host().map(drop)),
    ("read, await", |_, x| pollster::block_on(x.read()).map(drop)),
    ("trim", |device, _| device.trim()),
    ("submit", |device, _| wgpu::backend(device).expect("it is a GPU").submit()),
];

/// Work that takes a while, and work that is recorded and not submitted.
fn busy(x: &Array<f32>) -> Vec<Array<f32>> {
    (0..40u8).map(|i| (x * f32::from(i)).cumsum(0).unwrap()).collect()
}

#[test]
fn l03_every_call_on_a_destroyed_device_says_so() {
    for open in [owners, kilns] {
        for in_flight in [false, true] {
            for (name, call) in CALLS {
                let Some((kiln, device, heard)) = open() else { return };
                let x = line(&kiln, &vec![1.5f32; 100_000]);
                // The kernel of the last call is there, and memory is in the pool.
                assert_eq!((&x + &x).eval().unwrap().max(..).unwrap().item().unwrap(), 3.0);
                let work = if in_flight { busy(&x) } else { Vec::new() };
                assert!(!kiln.backend().is_lost());
                device.destroy();
                assert_lost(call(&kiln, &x), name);
                assert!(kiln.backend().is_lost());
                for (again, call) in CALLS {
                    assert_lost(call(&kiln, &x), &format!("{again} after {name}"));
                }
                drop((work, x, kiln));
                assert_eq!(heard.load(Ordering::SeqCst), 0, "{name}: an error of Kiln's reached the owner");
            }
        }
    }
}

#[test]
fn l03_reads_that_are_pending_when_the_device_goes() {
    for open in [owners, kilns] {
        for in_flight in [false, true] {
            for awaited in [false, true] {
                let Some((kiln, device, heard)) = open() else { return };
                let x = line(&kiln, &vec![1.5f32; 100_000]);
                let _work = if in_flight { busy(&x) } else { Vec::new() };
                let (first, second, end) = (x.read(), (&x + 1.0).eval().unwrap().read(), kiln.synchronize());
                device.destroy();
                let what = format!("in flight {in_flight}, awaited {awaited}");
                if awaited {
                    assert_lost(pollster::block_on(first), &what);
                    assert_lost(pollster::block_on(second), &what);
                    assert_lost(pollster::block_on(end), &what);
                } else {
                    assert_lost(first.wait(), &what);
                    assert_lost(second.wait(), &what);
                    assert_lost(end.wait(), &what);
                }
                assert_eq!(heard.load(Ordering::SeqCst), 0, "{what}: an error of Kiln's reached the owner");
            }
        }
    }
}

/// A device may go while threads compute on it; and one that is gone may be handed to Kiln.
#[test]
fn l03_a_device_that_goes_under_threads() {
    for open in [owners, kilns] {
        let Some((kiln, device, heard)) = open() else { return };
        let x = line(&kiln, &vec![1.5f32; 10_000]);
        let (began, begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (x, kiln, began) = (&x, &kiln, began.clone());
                scope.spawn(move || {
                    let end = loop {
                        let y = x * f32::from(thread);
                        let computed = match thread {
                            0 => y.sum(..).and_then(|sum| sum.item()).map(drop),
                            1 => y.eval().and_then(|y| pollster::block_on(y.read())).map(drop),
                            2 => kiln.array(&[1.0f32; 5000], 5000).map(drop),
                            _ => y.cumsum(0).and_then(|_| kiln.synchronize().wait()),
                        };
                        if computed.is_err() {
                            break computed;
                        }
                        let _ = began.send(());
                    };
                    assert_lost(end, &format!("thread {thread}"));
                });
            }
            for _ in 0..20 {
                begun.recv().unwrap();
            }
            device.destroy();
        });
        assert_eq!(heard.load(Ordering::SeqCst), 0, "an error of Kiln's reached the owner");
        let again = wgpu::from_device(device, wgpu::backend(&kiln).unwrap().queue().clone());
        let again = again.inspect(|again| assert!(again.backend().is_lost()));
        assert_lost(again.and_then(|again| again.full(1.0f32, 10)), "a device that is gone");
    }
}
