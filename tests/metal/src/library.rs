//! Loaded libraries: the runtime, and kernels. All foreign calls are here.

use std::ffi::{c_char, c_uint, c_ulong, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::compiler::{Build, Compiler};
use crate::translate::Translated;

// As host.h has them.
#[repr(C)]
struct RawKernel {
    entry: *const c_void,
    memory_bytes: *const c_ulong,
    memories: c_uint,
}

#[repr(C)]
struct RawBuffer {
    at: *mut c_void,
    bytes: c_ulong,
    writable: c_uint,
}

#[repr(C)]
struct RawDispatch {
    kernel: *const RawKernel,
    threads: c_uint,
    groups: [c_uint; 2],
    simd_width: c_uint,
    mode: c_uint,
    seed: c_ulong,
    buffers: *const RawBuffer,
    buffer_count: c_uint,
}

type Run = unsafe extern "C" fn(*const RawDispatch, *mut c_char, c_ulong) -> c_ulong;

const CHECK: c_uint = 1;
const FLUSH: c_uint = 2;

/// The most lanes that a SIMD group may have.
const MAX_SIMD: u32 = 64;

/// Bytes of threadgroup memory that every Metal device has.
const MAX_THREADGROUP_BYTES: u64 = 32 << 10;

/// The runtime, loaded.
#[derive(Debug)]
pub struct Host {
    compiler: Compiler,
    // Keeps `run` valid. Never unloaded before kernels, which call into it: they hold an `Arc` of this.
    _library: Library,
    run: Run,
    dispatches: AtomicU64,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    host: Arc<Host>,
    // Keeps `raw` valid.
    _library: Arc<Library>,
    path: PathBuf,
    raw: *const RawKernel,
    build: Build,
    slots: Vec<u32>,
}

// SAFETY: `raw` points to a constant of the library, which this value keeps loaded.
unsafe impl Send for Kernel {}
// SAFETY: as above; nothing is ever written there.
unsafe impl Sync for Kernel {}

/// Memory bound to a buffer slot.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Where it begins, aligned to 16 bytes.
    pub at: *mut u8,
    /// Its length.
    pub bytes: usize,
    /// Whether the kernel may write to it.
    pub writable: bool,
}

/// A kernel's work.
#[derive(Clone, Debug)]
pub struct Dispatch<'a> {
    /// Memory of buffer slots 0, 1, 2, ….
    pub arguments: &'a [Argument],
    /// Threads of a threadgroup.
    pub threads: u32,
    /// Threadgroups in two dimensions.
    pub groups: (u32, u32),
    /// Threads of a SIMD group.
    pub simd_width: u32,
}

impl Host {
    /// Compiles and loads the runtime.
    ///
    /// # Errors
    /// No compiler, or it fails.
    pub fn load() -> Result<Arc<Self>, String> {
        let compiler = Compiler::find()?;
        let path = compiler.runtime()?;
        // SAFETY: the library is ours, and its constructors do nothing.
        let library =
            unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| error.to_string())?;
        // SAFETY: host.h declares the function so.
        let run: Run = unsafe { *library.get::<Run>(b"kiln_run\0").map_err(|error| error.to_string())? };
        Ok(Arc::new(Self { compiler, _library: library, run, dispatches: AtomicU64::new(1) }))
    }

    /// The compiler.
    #[must_use]
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Compiles kernels as one library and loads them. Each has the name that it was translated with.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn compile(self: &Arc<Self>, kernels: &[(String, Translated)], build: Build) -> Result<Vec<Kernel>, String> {
        let text: String = kernels.iter().map(|(_, kernel)| kernel.text.as_str()).collect();
        let path = self.compiler.kernels(&text, build)?;
        // SAFETY: the library has constants and functions, and no constructors but the sanitizer's, which we define.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW) }.map_err(|error| error.to_string())?;
        let library = Arc::new(library);
        let load = |(name, kernel): &(String, Translated)| {
            let symbol = format!("{name}\0");
            // SAFETY: the symbol is a `kiln_kernel` of host.h: `translate` wrote its definition.
            let found = unsafe { library.get::<*const RawKernel>(symbol.as_bytes()) };
            let raw: *const RawKernel = found.map_err(|error| error.to_string())?.into_raw().cast();
            // SAFETY: the constant lives as long as the library.
            let bytes = unsafe { (*raw).total_bytes() };
            if bytes > MAX_THREADGROUP_BYTES {
                return Err(format!("{bytes} bytes of threadgroup memory; Metal has {MAX_THREADGROUP_BYTES}"));
            }
            Ok(Kernel {
                host: Arc::clone(self),
                _library: Arc::clone(&library),
                path: path.clone(),
                raw,
                build,
                slots: kernel.slots.clone(),
            })
        };
        let loaded = kernels.iter().map(load).collect::<Result<Vec<_>, String>>()?;
        kernels.iter().for_each(|(name, _)| note(name, build));
        Ok(loaded)
    }
}

/// Appends a compiled kernel to the file that `KILN_METAL_LOG` names.
fn note(name: &str, build: Build) {
    if let Some(path) = std::env::var_os("KILN_METAL_LOG").filter(|path| !path.is_empty()) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{} {name}", build.name())) {
            eprintln!("KILN_METAL_LOG: {error}");
        }
    }
}

impl RawKernel {
    /// Bytes of all threadgroup variables, each rounded up to 16 as wgpu does.
    unsafe fn total_bytes(&self) -> u64 {
        // SAFETY: the kernel's table has so many entries.
        let sizes = unsafe { std::slice::from_raw_parts(self.memory_bytes, self.memories as usize) };
        sizes.iter().map(|bytes| bytes.next_multiple_of(16)).sum()
    }
}

impl Kernel {
    /// Runs a dispatch.
    ///
    /// # Errors
    /// What the runtime saw go wrong, a line for each fault; or arguments that do not fit the kernel.
    ///
    /// # Safety
    /// The arguments' memory is valid for reads, and for writes where it is writable, until this returns, and nobody
    /// else writes to it meanwhile. A kernel that is not checked must keep within it.
    pub unsafe fn run(&self, dispatch: &Dispatch<'_>) -> Result<(), String> {
        if let Some(slot) = self.slots.iter().find(|&&slot| slot as usize >= dispatch.arguments.len()) {
            return Err(format!("buffer slot {slot} of {} bound", dispatch.arguments.len()));
        }
        if !(1..=MAX_SIMD).contains(&dispatch.simd_width) || !(1..=1024).contains(&dispatch.threads) {
            return Err(format!("{} threads in SIMD groups of {}", dispatch.threads, dispatch.simd_width));
        }
        let buffers: Vec<RawBuffer> = dispatch
            .arguments
            .iter()
            .map(|argument| RawBuffer {
                at: argument.at.cast(),
                bytes: argument.bytes as c_ulong,
                writable: argument.writable.into(),
            })
            .collect();
        let mode = match self.build {
            Build::Strict => 0,
            Build::Fast => FLUSH,
            Build::Checked => CHECK,
        };
        let raw = RawDispatch {
            kernel: self.raw,
            threads: dispatch.threads,
            groups: [dispatch.groups.0, dispatch.groups.1],
            simd_width: dispatch.simd_width,
            mode,
            seed: self.host.dispatches.fetch_add(1, Ordering::Relaxed),
            buffers: buffers.as_ptr(),
            buffer_count: u32::try_from(buffers.len()).unwrap_or(u32::MAX),
        };
        let mut report = vec![0u8; 16 << 10];
        // SAFETY: the structures are host.h's, and live until the call returns; the caller answers for the memory.
        let length = unsafe { (self.host.run)(&raw, report.as_mut_ptr().cast(), report.len() as c_ulong) };
        if length == 0 {
            return Ok(());
        }
        let length = usize::try_from(length).unwrap_or(report.len()).min(report.len());
        Err(self.with_lines(&String::from_utf8_lossy(&report[..length])))
    }

    /// `<library+0x123>` in a report becomes the MSL's line, where binutils can tell.
    fn with_lines(&self, report: &str) -> String {
        let marker = format!("<{}+", self.path.display());
        let mut out = String::new();
        let mut rest = report;
        while let Some(at) = rest.find(&marker) {
            out.push_str(&rest[..at]);
            let after = &rest[at + marker.len()..];
            let Some(end) = after.find('>') else { break };
            out.push_str(&line_of(&self.path, &after[..end]));
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        out
    }
}

fn line_of(library: &Path, offset: &str) -> String {
    let output = Command::new("addr2line").arg("-e").arg(library).arg(offset).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    match text.rsplit_once(':') {
        Some((_, line)) if !line.starts_with(['?', '0']) => format!("line {line}"),
        _ => format!("at {offset}"),
    }
}
