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
    beside_work(gpu)?;
    println!();
    Ok(())
}

/// How long an upload takes that comes behind queued work, and how long that work goes on.
fn beside_work(gpu: &Device) -> kiln::Result<()> {
    const WORK: Duration = Duration::from_millis(20);
    let values = vec![1f32; 1 << 24];
    let x = gpu.array(&values, values.len())?;
    let queue = |times: u32| (0..times).try_for_each(|_| (&x + 1.0).eval().map(drop));
    let timed = |work: &dyn Fn() -> kiln::Result<()>| {
        let start = Instant::now();
        work().map(|()| start.elapsed())
    };
    let whole = |times| timed(&|| queue(times).and_then(|()| gpu.synchronize().wait()));
    whole(1)?;
    let mut times = 1;
    while times < 1 << 12 && whole(times)? < WORK {
        times *= 2;
    }
    let alone = timed(&|| gpu.array(&values, values.len()).map(drop))?;
    gpu.synchronize().wait()?;
    queue(times)?;
    let work = gpu.synchronize();
    let upload = timed(&|| gpu.array(&values, values.len()).map(drop))?;
    let start = Instant::now();
    work.wait()?;
    let rest = start.elapsed();
    println!("an upload of 64 MiB: {alone:.1?}; behind queued work: {upload:.1?}, the work after that: {rest:.1?}");
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

/// The same by hand: one buffer on the device, one for reads, made once.
struct Plain<'a> {
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    bytes: Vec<u8>,
    buffer: wgpu::Buffer,
    staging: wgpu::Buffer,
}

impl<'a> Plain<'a> {
    fn new(device: &'a wgpu::Device, queue: &'a wgpu::Queue, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let buffer = |usage| {
            let size = bytes.len() as u64;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let (to, from) = (wgpu::BufferUsages::COPY_DST, wgpu::BufferUsages::COPY_SRC);
        let (buffer, staging) =
            (buffer(wgpu::BufferUsages::STORAGE | to | from), buffer(wgpu::BufferUsages::MAP_READ | to));
        queue.write_buffer(&buffer, 0, &bytes);
        Self { device, queue, bytes, buffer, staging }
    }

    fn wait(&self) -> Result<(), String> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map(drop).map_err(|error| error.to_string())
    }

    fn uploads(&self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.queue.write_buffer(&self.buffer, 0, &self.bytes);
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
            let values: Vec<f32> =
                view.chunks_exact(4).map(|word| word.try_into().map_or(0.0, f32::from_le_bytes)).collect();
            std::hint::black_box(values);
            drop(view);
            self.staging.unmap();
        }
        Ok(())
    }
}
