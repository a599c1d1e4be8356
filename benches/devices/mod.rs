//! The command line of the benches: which devices to measure, one after the other.

use std::error::Error;
use std::process::ExitCode;

use kiln::{Backend, Device, DeviceKind, Options};
use lexopt::{Arg::Long, ValueExt as _};

/// What the command line asks for.
struct Asked {
    /// The devices named, or the one that Kiln opens and the CPU.
    devices: Vec<Device>,
    /// Elements of an array.
    n: Option<usize>,
}

/// What `bench` does: measures each device, with so many elements if some are asked for.
pub(crate) fn run(bench: &str, measure: impl Fn(&Device, Option<usize>) -> Result<(), Box<dyn Error>>) -> ExitCode {
    let all = || -> Result<(), Box<dyn Error>> {
        let Some(asked) = asked()? else { return Ok(()) };
        asked.devices.iter().try_for_each(|gpu| measure(gpu, asked.n))
    };
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{bench}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line. `None` unless `cargo bench` runs the program: there is nothing to test.
fn asked() -> Result<Option<Asked>, String> {
    const USAGE: &str = "there are --n ELEMENTS and --backend cpu|vulkan|metal|dx12";
    let (mut devices, mut n, mut measured) = (Vec::new(), None, false);
    let mut args = lexopt::Parser::from_env();
    let mut read = || -> Result<(), lexopt::Error> {
        while let Some(arg) = args.next()? {
            match arg {
                Long("bench") => measured = true,
                Long("n") => n = Some(args.value()?.parse()?),
                Long("backend") => devices.push(args.value()?.parse_with(open)?),
                _ => return Err(arg.unexpected()),
            }
        }
        Ok(())
    };
    read().map_err(|error| format!("{error}; {USAGE}"))?;
    if !measured {
        println!("not measured: run it with `cargo bench`");
        return Ok(None);
    }
    if devices.is_empty() {
        let best = kiln::open().map_err(|error| error.to_string())?;
        if best.info().kind != DeviceKind::Cpu {
            devices.extend(Options::new().backend(Backend::Cpu).open());
        }
        devices.insert(0, best);
    }
    Ok(Some(Asked { devices, n }))
}

/// The best device of the backend of that name.
fn open(name: &str) -> Result<Device, String> {
    let all = [Backend::Cpu, Backend::Vulkan, Backend::Metal, Backend::Dx12];
    let known = all.into_iter().find(|backend| backend.name() == name);
    let backend = known.ok_or("no such backend")?;
    Options::new().backend(backend).open().map_err(|error| error.to_string())
}
