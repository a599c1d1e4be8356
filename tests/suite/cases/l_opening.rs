//! L09, L14: refusals that say what there is; equal options open one device for the whole process; what is logged.

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

/// What a refusal says under these variables: the kind, and the text with all devices in it where it is of devices.
fn refusal(name: &str, variables: &[(&str, &str)], words: &[&str], of_devices: bool) {
    let clean = [("KILN_BACKEND", ""), ("KILN_ADAPTER", ""), ("KILN_CACHE", "0"), ("KILN_PREWARM", "0")];
    child(name, &[&clean, variables].concat(), || {
        let error = kiln::open().unwrap_err();
        assert_eq!(matches!(error.kind(), ErrorKind::NoDevice { .. }), of_devices, "{error}");
        assert_eq!(matches!(error.kind(), ErrorKind::BadSetting { .. }), !of_devices, "{error}");
        let text = error.to_string();
        let listed = kiln::devices().iter().enumerate().map(|(at, info)| format!("{at}: {info}")).collect::<Vec<_>>();
        assert!(listed.last().is_some_and(|last| last.contains("(cpu, CPU)")), "{listed:?}");
        for word in words.iter().copied().chain(listed.iter().filter(|_| of_devices).map(String::as_str)) {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
        assert_eq!(text.contains("device"), of_devices, "{text}");
    });
}

#[test]
fn l09_a_number_that_no_device_has() {
    let words = ["KILN_ADAPTER=99:", "no device has that number", "KILN_ADAPTER may be a number or a part of a name"];
    refusal("cases::l_opening::l09_a_number_that_no_device_has", &[("KILN_ADAPTER", "99")], &words, true);
}

#[test]
fn l09_a_backend_for_an_adapter() {
    let words =
        ["KILN_ADAPTER=cpu:", "no device has that name", "KILN_ADAPTER may be", "cpu is a backend, for KILN_BACKEND"];
    refusal("cases::l_opening::l09_a_backend_for_an_adapter", &[("KILN_ADAPTER", "cpu")], &words, true);
}

#[test]
fn l09_a_backend_of_another_system() {
    let word = if cfg!(target_vendor = "apple") { "dx12" } else { "metal" };
    let line = format!("KILN_BACKEND={word}:");
    let words = [line.as_str(), "KILN_BACKEND may be cpu", "here"];
    refusal("cases::l_opening::l09_a_backend_of_another_system", &[("KILN_BACKEND", word)], &words, true);
}

#[test]
fn l09_a_backend_with_an_adapter_of_another() {
    let words = ["KILN_BACKEND=cpu and KILN_ADAPTER=no such:", "KILN_BACKEND may be", "KILN_ADAPTER may be"];
    let variables = [("KILN_BACKEND", "cpu"), ("KILN_ADAPTER", "no such")];
    refusal("cases::l_opening::l09_a_backend_with_an_adapter_of_another", &variables, &words, true);
}

#[test]
fn l09_a_cache_that_is_no_matter_of_devices() {
    let name = "cases::l_opening::l09_a_cache_that_is_no_matter_of_devices";
    refusal(name, &[("KILN_CACHE", "yes")], &["KILN_CACHE=yes: it takes 0 or 1"], false);
}

#[test]
fn l09_a_number_of_bytes_that_is_none() {
    let name = "cases::l_opening::l09_a_number_of_bytes_that_is_none";
    refusal(name, &[("KILN_CACHE_BYTES", "256MiB")], &["KILN_CACHE_BYTES=256MiB: it takes a whole number"], false);
}

/// What the builder asks for is not laid to the environment.
#[test]
fn l09_a_refusal_of_the_builders_words() {
    let error = Options::new().adapter("no such").open().unwrap_err().to_string();
    assert!(
        error.starts_with("no device for adapter no such: no device has that name; the devices are 0: "),
        "{error}"
    );
    assert!(!error.contains("KILN_"), "{error}");
}

/// What a logger of the usual kind writes under the `RUST_LOG` of this process.
#[derive(Clone, Default)]
struct Logged(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    fn begin() -> Self {
        let logged = Self::default();
        let target = env_logger::Target::Pipe(Box::new(logged.clone()));
        env_logger::Builder::from_default_env().target(target).init();
        logged
    }

    /// The lines so far, all of which must be Kiln's.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.contains("] kiln: ")), "{text}");
        lines
    }
}

/// The choice is told once, for each device that is opened, with its reason.
#[test]
fn l14_what_is_chosen_is_logged() {
    let name = "cases::l_opening::l14_what_is_chosen_is_logged";
    let variables = [("RUST_LOG", "kiln=info"), ("KILN_BACKEND", "cpu"), ("KILN_ADAPTER", ""), ("KILN_CACHE", "0")];
    child(name, &variables, || {
        let logged = Logged::begin();
        let device = kiln::open().unwrap();
        assert_eq!(kiln::open().unwrap(), device);
        let lines = logged.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let driver = &device.info().driver;
        for word in ["INFO", &device.info().to_string(), driver, "asked for by KILN_BACKEND=cpu"] {
            assert!(lines[0].contains(word), "{word:?} is not in {lines:?}");
        }
        for (at, info) in kiln::devices().iter().enumerate().filter(|(_, info)| info.backend != "cpu") {
            let number = at.to_string();
            let before = logged.lines().len();
            let gpu = Options::new().adapter(number.as_str()).prewarm(0).cache(false).open().unwrap();
            let line = logged.lines()[before..].join("\n");
            assert!(line.contains(&info.to_string()) && line.contains(&format!("by adapter {at}")), "{line}");
            assert_eq!(gpu.info(), info);
        }
    });
}

/// The CPU that nobody asked for is a warning, with what became of each GPU.
#[test]
fn l14_the_cpu_for_want_of_a_gpu_is_a_warning() {
    let name = "cases::l_opening::l14_the_cpu_for_want_of_a_gpu_is_a_warning";
    let nothing = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let drivers = [("VK_ICD_FILENAMES", nothing), ("VK_DRIVER_FILES", nothing)];
    let clean = [("RUST_LOG", "kiln=info"), ("KILN_BACKEND", ""), ("KILN_ADAPTER", ""), ("KILN_CACHE", "0")];
    child(name, &[&drivers[..], &clean].concat(), || {
        let logged = Logged::begin();
        let device = kiln::open().unwrap();
        let lines = logged.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0].contains("WARN"), device.info().backend == "cpu", "{lines:?}");
        if cfg!(all(target_os = "linux", feature = "wgpu")) {
            let words = ["computing on the CPU", "for want of a GPU", "no adapter"];
            assert!(words.iter().all(|word| lines[0].contains(word)), "{lines:?}");
        }
    });
}

/// One filter shows the lines of all of Kiln's crates, and of nobody else.
#[cfg(feature = "wgpu")]
#[test]
fn l14_one_filter_shows_all_of_kilns_lines() {
    let name = "cases::l_opening::l14_one_filter_shows_all_of_kilns_lines";
    let variables = [("RUST_LOG", "kiln=debug"), ("KILN_BACKEND", "vulkan"), ("KILN_ADAPTER", ""), ("KILN_CACHE", "0")];
    child(name, &variables, || {
        let logged = Logged::begin();
        let Ok(device) = kiln::open() else { return };
        assert_eq!(line(&device, &[1, 2]).sum(..).unwrap().item().unwrap(), 3);
        let lines = logged.lines();
        for target in [" kiln]", " kiln_wgpu::"] {
            assert!(lines.iter().any(|line| line.contains(target)), "{target:?} is not in {lines:?}");
        }
    });
}
