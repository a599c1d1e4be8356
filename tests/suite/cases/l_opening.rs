//! L14: equal options open one device for the whole process.

use std::sync::Barrier;

use kiln::prelude::*;
use kiln::{Backend, ErrorKind, Options};

use crate::harness::{child, line, values};

fn cpu() -> Options {
    Options::new().backend(Backend::Cpu)
}

#[test]
fn l14_opening_twice_gives_one_device() {
    let (first, second) = (kiln::open().unwrap(), kiln::open().unwrap());
    assert_eq!(first, second);
    let awaited = pollster::block_on(kiln::open_async()).unwrap();
    let built = Options::from_env().open().unwrap();
    assert!(first == awaited && first == built);
    let sum = line(&first, &[1, 2]) + line(&second, &[10, 20]) + line(&built, &[100, 200]);
    assert_eq!(values(&sum.eval().unwrap()), [111, 222]);
}

#[test]
fn l14_options_tell_devices_apart() {
    let one = cpu().open().unwrap();
    assert_eq!(one, cpu().open().unwrap());
    let others =
        [cpu().prewarm(3), cpu().cache_bytes(77), cpu().cache(false), cpu().application("l14"), cpu().separate()];
    for options in others {
        let other = options.clone().open().unwrap();
        assert_ne!(one, other, "{options:?}");
        // The usual options still give the first, and a separate device is nobody else's.
        assert_eq!(one, cpu().open().unwrap());
        let again = options.clone().open().unwrap();
        assert_eq!(again == other, !format!("{options:?}").contains("separate: true"), "{options:?}");
    }
}

/// Handles on two devices of one name are told apart, by the same numbers every time.
#[test]
fn l14_the_error_numbers_devices_of_one_name() {
    let (one, two) = (cpu().separate().open().unwrap(), cpu().separate().open().unwrap());
    let (x, y) = (line(&one, &[1, 2]), line(&two, &[3, 4]));
    let error = (&x + &y).eval().unwrap_err();
    let ErrorKind::DeviceMismatch { op, lhs, rhs } = error.kind() else { panic!("{error}") };
    assert_eq!(*op, "add");
    assert_ne!(lhs, rhs, "{error}");
    let ErrorKind::DeviceMismatch { lhs: again, .. } = (&x * &y).eval().unwrap_err().kind().clone() else { panic!() };
    assert_eq!(*lhs, again);
    let text = error.to_string();
    for word in [lhs.as_str(), rhs.as_str(), "two devices", "clones of one `Device`", "to_host", "Device::array"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    // What it says works.
    let moved = one.array(y.to_host().unwrap().as_slice(), 2).unwrap();
    assert_eq!(values(&(&x + &moved).eval().unwrap()), [4, 6]);
}

/// Whether a device is open under options of which no other test has any.
fn opened_as(name: &str) -> Device {
    cpu().application(name).open().unwrap()
}

#[test]
fn l14_the_last_handle_closes_and_arrays_are_handles() {
    let device = opened_as("l14 closes");
    let watch = std::sync::Arc::downgrade(device.backend());
    let x = line(&device, &[1, 2, 3]);
    drop(device);
    // An array keeps it open.
    let same = opened_as("l14 closes");
    assert_eq!(same, *x.device());
    let scheduled = same.with_schedule(kiln::Schedule::default());
    assert_eq!(scheduled, same);
    drop((x, same));
    assert!(watch.upgrade().is_some(), "a handle with a schedule keeps it open");
    drop(scheduled);
    assert!(watch.upgrade().is_none(), "nothing keeps it open");
    let new = opened_as("l14 closes");
    assert_eq!(line(&new, &[4, 5]).sum(..).unwrap().item().unwrap(), 9);
}

#[test]
fn l14_threads_that_open_at_once_have_one_device() {
    for round in 0..20 {
        let (name, barrier) = (format!("l14 round {round}"), Barrier::new(8));
        let devices: Vec<Device> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                opened_as(&name)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(devices.iter().all(|device| *device == devices[0]), "round {round}");
    }
}

/// The default device, from many threads, while it is warmed up before anybody asks for it, and after all have gone.
#[test]
fn l14_warm_up_and_reopening() {
    let name = "cases::l_opening::l14_warm_up_and_reopening";
    child(name, &[("KILN_BACKEND", ""), ("KILN_ADAPTER", ""), ("KILN_CACHE", "0")], || {
        let warming = kiln::warm_up();
        let devices: Vec<Device> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| kiln::open().unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(devices.iter().all(|device| *device == devices[0]));
        assert!(warming.wait().error.is_none());
        // One that comes later warms what is open.
        assert!(kiln::warm_up().wait().error.is_none());
        assert_eq!(kiln::open().unwrap(), devices[0]);
        let watch = std::sync::Arc::downgrade(devices[0].backend());
        drop(devices);
        assert!(watch.upgrade().is_none(), "nothing keeps it open");
        assert_eq!(line(&kiln::open().unwrap(), &[1, 2]).sum(..).unwrap().item().unwrap(), 3);
    });
}

/// A lost device is not given again.
#[cfg(feature = "wgpu")]
#[test]
fn l14_a_lost_device_is_replaced() {
    let options = Options::new().backend(Backend::Vulkan).prewarm(0).cache(false).application("l14 lost");
    let Ok(device) = options.clone().open() else { return };
    assert_eq!(device, options.clone().open().unwrap());
    let x = line(&device, &[1, 2, 3]);
    kiln::wgpu::backend(&device).expect("a GPU").device().destroy();
    let lost = |error: kiln::Error| matches!(error.kind(), ErrorKind::DeviceLost { .. });
    assert!((0..10).any(|_| x.to_host().is_err_and(lost)), "it is known to be lost");
    let other = options.clone().open().unwrap();
    assert_ne!(device, other);
    assert_eq!(line(&other, &[1, 2]).sum(..).unwrap().item().unwrap(), 3);
    drop((x, device));
    assert_eq!(other, options.open().unwrap());
}
