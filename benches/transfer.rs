//! Bytes per second from the host to the device and back, by size, beside plain wgpu and a copy on the host.
//!
//! `cargo bench --bench transfer [-- --backend NAME]... [--n ELEMENTS]`; README.md says how to read it.

mod devices;
mod plain;
mod timing;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kiln::DeviceKind;
use kiln::prelude::*;
use kiln::wgpu;

/// Elements of the arrays, unless some are asked for: 4 KiB to 256 MiB.
const SIZES: [usize; 7] = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];

fn main() -> ExitCode {
    devices::run("transfer", |gpu, n| measure(gpu, &n.map_or(SIZES.to_vec(), |n| vec![n])))
}

fn measure(gpu: &Device, sizes: &[usize]) -> Result<(), Box<dyn Error>> {
    let info = gpu.info();
    println!("{info}; driver {}; f32", info.driver);
    println!(
        "{:>10} {:>12} {:>8} {:>10} {:>12} {:>8} {:>10} {:>12}",
        "n", "upload, ms", "GB/s", "of plain", "read, ms", "GB/s", "of plain", "host, GB/s"
    );
    // The kernels that a warm-up compiles would take their share of the time.
    let _ = gpu.warm_up().wait();
    let plain = if info.kind == DeviceKind::Cpu { None } else { Some(plain::open(info)?) };
    for &n in sizes.iter().filter(|&&n| n as u64 * 4 <= gpu.caps().max_array_bytes) {
        let values: Vec<f32> = (0..1000u16).cycle().take(n).map(f32::from).collect();
        let rate = |seconds: f64| n as f64 * 4.0 / seconds / 1e9;
        let ours = Ours { gpu, values: &values, array: gpu.array(&values, n)? };
        if ours.array.to_host()?.as_slice() != values {
            return Err(format!("{n} values came back as others").into());
        }
        let plain = plain.as_ref().map(|(device, queue)| Plain::new(device, queue, &values));
        let upload = against(|count| ours.uploads(count), plain.as_ref().map(|plain| |count| plain.uploads(count)))?;
        let read = against(|count| ours.reads(count), plain.as_ref().map(|plain| |count| plain.reads(count)))?;
        let host = timing::seconds(|count| {
            (0..count).for_each(|_| drop(std::hint::black_box(values.clone())));
            Ok::<_, String>(())
        })?;
        print!("{n:>10}");
        for (seconds, ratio) in [upload, read] {
            let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            print!(" {:>12.3} {:>8.2} {ratio:>10}", seconds * 1e3, rate(seconds));
        }
        println!(" {:>12.2}", rate(host));
    }
    after_a_pause(gpu)?;
    if info.kind != DeviceKind::Cpu {
        beside_work(gpu)?;
    }
    println!();
    Ok(())
}

/// How much longer an upload takes that comes after a pause, and a copy on the host, which knows of no device.
fn after_a_pause(gpu: &Device) -> kiln::Result<()> {
    const PAUSE: Duration = Duration::from_millis(30);
    const TIMES: usize = 30;
    let values = vec![1f32; 1 << 20];
    let mut copy = vec![0f32; values.len()];
    let mut upload = || {
        let start = Instant::now();
        let array = gpu.array(&values, values.len())?;
        let taken = start.elapsed();
        drop(array);
        gpu.synchronize().wait().map(|()| taken)
    };
    let mut on_host = || {
        let start = Instant::now();
        copy.copy_from_slice(std::hint::black_box(&values));
        std::hint::black_box(&copy);
        Ok(start.elapsed())
    };
    let one_by_one = |what: &mut dyn FnMut() -> kiln::Result<Duration>, pause: Duration| {
        let times = (0..TIMES).map(|_| {
            std::thread::sleep(pause);
            what()
        });
        times
            .collect::<kiln::Result<Vec<_>>>()
            .map(|times| timing::median(times.iter().map(Duration::as_secs_f64).collect()))
    };
    for (name, what) in [("an upload", &mut upload as &mut dyn FnMut() -> _), ("a copy on the host", &mut on_host)] {
        let (at_once, paused) = (one_by_one(what, Duration::ZERO)?, one_by_one(what, PAUSE)?);
        let (at_once, paused) = (Duration::from_secs_f64(at_once), Duration::from_secs_f64(paused));
        println!("{name} of 4 MiB: {at_once:.0?} one after the other, {paused:.0?} after a pause of {PAUSE:?} each");
    }
    Ok(())
}

/// How long an upload takes that comes behind queued work, with what is left of that work without an upload and after it.
fn beside_work(gpu: &Device) -> kiln::Result<()> {
    const WORK: Duration = Duration::from_millis(20);
    let values = vec![1f32; 1 << 24];
    let x = gpu.array(&values, values.len())?;
    let queue = |times: u32| (0..times).try_for_each(|_| (&x + 1.0).eval().map(drop)).map(|()| gpu.synchronize());
    let timed = |work: &dyn Fn() -> kiln::Result<()>| {
        let start = Instant::now();
        work().map(|()| start.elapsed())
    };
    let upload = || timed(&|| gpu.array(&values, values.len()).map(drop));
    let left_of = |work: kiln::Pending<()>| {
        let start = Instant::now();
        work.wait().map(|()| start.elapsed())
    };
    left_of(queue(1)?)?;
    // A device takes so much and makes the host wait for the rest.
    let (mut times, mut left) = (1, Duration::ZERO);
    while times < 1 << 12 && left < WORK {
        times *= 2;
        left = left_of(queue(times)?)?;
    }
    let alone = upload()?;
    gpu.synchronize().wait()?;
    let work = queue(times)?;
    let behind = upload()?;
    let after = left_of(work)?;
    println!(
        "an upload of 64 MiB: {alone:.1?}; behind {left:.1?} of queued work: {behind:.1?}, {after:.1?} of it then left"
    );
    Ok(())
}

/// Our seconds, and how many times theirs are as long: rounds take turns.
fn against(
    mut ours: impl FnMut(usize) -> Result<(), String>,
    theirs: Option<impl FnMut(usize) -> Result<(), String>>,
) -> Result<(f64, Option<f64>), String> {
    let Some(mut theirs) = theirs else { return Ok((timing::seconds(ours)?, None)) };
    let counts = (timing::warm_up(&mut ours)?, timing::warm_up(&mut theirs)?);
    let (mut seconds, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..timing::ROUNDS {
        let (our, their) = (timing::round(&mut ours, counts.0)?, timing::round(&mut theirs, counts.1)?);
        seconds.push(our);
        ratios.push(their / our);
    }
    Ok((timing::median(seconds), Some(timing::median(ratios))))
}

struct Ours<'a> {
    gpu: &'a Device,
    values: &'a [f32],
    array: Array<f32>,
}

impl Ours<'_> {
    /// New arrays, dropped at once; waits at the end.
    fn uploads(&self, count: usize) -> Result<(), String> {
        let upload = |_| self.gpu.array(self.values, self.values.len()).map(drop);
        let uploaded = (0..count).try_for_each(upload).and_then(|()| self.gpu.synchronize().wait());
        uploaded.map_err(|error| error.to_string())
    }

    fn reads(&self, count: usize) -> Result<(), String> {
        (0..count).try_for_each(|_| self.array.to_host().map(drop)).map_err(|error| error.to_string())
    }
}

/// The same by hand, from the same memory: one buffer on the device, one for reads, made once.
struct Plain<'a> {
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    bytes: &'a [u8],
    buffer: wgpu::Buffer,
    staging: wgpu::Buffer,
}

impl<'a> Plain<'a> {
    fn new(device: &'a wgpu::Device, queue: &'a wgpu::Queue, values: &'a [f32]) -> Self {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let buffer = |usage| {
            let size = bytes.len() as u64;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let (to, from) = (wgpu::BufferUsages::COPY_DST, wgpu::BufferUsages::COPY_SRC);
        let (buffer, staging) =
            (buffer(wgpu::BufferUsages::STORAGE | to | from), buffer(wgpu::BufferUsages::MAP_READ | to));
        queue.write_buffer(&buffer, 0, bytes);
        Self { device, queue, bytes, buffer, staging }
    }

    fn wait(&self) -> Result<(), String> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map(drop).map_err(|error| error.to_string())
    }

    fn uploads(&self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.queue.write_buffer(&self.buffer, 0, self.bytes);
            self.queue.submit([]);
            // What was copied is free again.
            self.device.poll(wgpu::PollType::Poll).map_err(|error| error.to_string())?;
        }
        self.wait()
    }

    fn reads(&self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&self.buffer, 0, &self.staging, 0, self.staging.size());
            self.queue.submit([encoder.finish()]);
            self.staging.map_async(wgpu::MapMode::Read, .., |_| {});
            self.wait()?;
            let view = self.staging.get_mapped_range(..).map_err(|error| error.to_string())?;
            let values: &[f32] = bytemuck::try_cast_slice(&view).map_err(|error| error.to_string())?;
            std::hint::black_box(values.to_vec());
            drop(view);
            self.staging.unmap();
        }
        Ok(())
    }
}
