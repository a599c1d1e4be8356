//! The backend: recordings dispatched to compiled kernels, with the slots that wgpu gives them on Metal.
//!
//! Work runs at once, on the caller's thread. Callers on several threads run beside each other: a buffer is written by
//! the one dispatch that makes its contents, before anybody else can know of it.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use kiln_array::backend::{Backend, Caps, DeviceInfo, DeviceKind, Pending};
use kiln_array::kernel::{KernelKey, KernelSpec};
use kiln_array::recording::{BufferId, Dispatch as Work, Recording};
use kiln_array::warm::{Origin, Report, WarmUp, WarmedKernel};
use kiln_array::{Dtype, ErrorKind, HostBytes, Result};
use kiln_shaders::{Binding, GROUP_SIZE, Target, bindings};

use crate::compiler::Build;
use crate::library::{Argument, Dispatch, Host, Kernel};
use crate::translate::translate;

/// Bytes of the largest array: enough for every test, and small enough to meet the limit in one.
const MAX_BYTES: u64 = 256 << 20;

/// Workgroups in one dimension of a dispatch.
const MAX_GROUPS: u64 = 65_535;

/// How the host runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How they are compiled.
    pub build: Build,
    /// Threads of a SIMD group, 1 to 64.
    pub simd_width: u32,
    /// Takes the text that is edited for passthrough.
    pub passthrough: bool,
}

impl Default for Options {
    /// Strict, with Apple's width.
    fn default() -> Self {
        Self { build: Build::Strict, simd_width: 32, passthrough: false }
    }
}

impl FromStr for Options {
    type Err = String;

    /// Words with commas between: `strict`, `fast` or `checked`; a SIMD width; `passthrough`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut options = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match (word, word.parse()) {
                ("strict", _) => options.build = Build::Strict,
                ("fast", _) => options.build = Build::Fast,
                ("checked", _) => options.build = Build::Checked,
                ("passthrough", _) => options.passthrough = true,
                (_, Ok(width @ 1..=64)) => options.simd_width = width,
                _ => return Err(format!("KILN_METAL has `{word}`: strict, fast, checked, passthrough or 1 to 64")),
            }
        }
        Ok(options)
    }
}

type Cell = Arc<OnceLock<std::result::Result<Kernel, String>>>;

/// The MSL of kernels, run on the CPU.
pub struct Metal {
    host: Arc<Host>,
    options: Options,
    info: DeviceInfo,
    caps: Caps,
    buffers: Mutex<HashMap<BufferId, Arc<Memory>>>,
    kernels: Mutex<HashMap<KernelKey, Cell>>,
    next: AtomicU64,
}

impl Metal {
    /// A device.
    ///
    /// # Errors
    /// No C++ compiler, or it does not compile the runtime.
    pub fn new(options: Options) -> std::result::Result<Self, String> {
        let host = Host::load()?;
        let text = if options.passthrough { "passthrough text" } else { "naga's text" };
        let info = DeviceInfo {
            name: format!("MSL on the CPU, {}, SIMD width {}, {text}", options.build.name(), options.simd_width),
            backend: "metal",
            kind: DeviceKind::SoftwareGpu,
            driver: host.compiler().version().to_owned(),
        };
        let caps = Caps {
            dtypes: vec![Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F32],
            max_array_bytes: MAX_BYTES,
            max_operands: 29,
            max_groups: MAX_GROUPS * MAX_GROUPS,
            log_slots: Target::default().log_slots,
            busy_groups: 8,
            serial_groups: false,
        };
        let (buffers, kernels) = (Mutex::default(), Mutex::default());
        Ok(Self { host, options, info, caps, buffers, kernels, next: AtomicU64::new(1) })
    }

    /// What `KILN_METAL` asks for; see [`Options::from_str`].
    ///
    /// # Errors
    /// As [`new`](Self::new), or the variable has unknown words.
    pub fn from_env() -> std::result::Result<Self, String> {
        Self::new(std::env::var("KILN_METAL").unwrap_or_default().parse()?)
    }

    fn kernel(&self, spec: &KernelSpec) -> Result<Kernel> {
        let cell = lock(&self.kernels).entry(spec.key()).or_default().clone();
        let compiled = cell.get_or_init(|| self.compile(spec));
        compiled.clone().map_err(|message| ErrorKind::Kernel { kernel: spec.label(), message }.into())
    }

    fn compile(&self, spec: &KernelSpec) -> std::result::Result<Kernel, String> {
        let wgsl = kiln_shaders::render(spec, Target { log_slots: self.caps.log_slots, ..Target::default() })
            .map_err(|e| e.to_string())?;
        let lower = if self.options.passthrough { kiln_shaders::metal_passthrough } else { kiln_shaders::metal };
        let msl = lower(spec, &wgsl).map_err(|error| error.to_string())?;
        let edited = if self.options.passthrough { "p" } else { "" };
        let name = format!("{edited}kernel_{}", spec.key());
        let kernels = [(name.clone(), translate(&msl.text, &name)?)];
        self.host.compile(&kernels, self.options.build)?.pop().ok_or_else(|| "no kernel".to_owned())
    }

    fn dispatch(&self, work: &Work) -> Result<()> {
        let kernel = self.kernel(&work.kernel)?;
        let mut params = Vec::new();
        work.param_words(&mut params);
        let params = Memory::of(bytes_of(&params));
        let inputs = work.inputs.iter().map(|operand| operand.buffer);
        let outputs = work.outputs.iter().map(|operand| operand.buffer);
        let arrays: Vec<BufferId> = inputs.chain(outputs).chain(work.totals_in).chain(work.totals_out).collect();
        let kinds = bindings(&work.kernel);
        let memories = arrays.iter().map(|&id| self.memory(id)).collect::<Result<Vec<_>>>()?;
        // Lengths in bytes of the arrays, which end in slots after all others; unchecked kernels never read them.
        let lengths: Vec<u32> = memories.iter().map(|memory| u32::try_from(memory.bytes).unwrap_or(u32::MAX)).collect();
        let lengths = Memory::of(bytes_of(&lengths));
        let mut arguments = vec![params.argument(false)];
        arguments.extend(memories.iter().zip(&kinds).map(|(memory, kind)| memory.argument(*kind == Binding::Write)));
        if !self.options.passthrough {
            arguments.push(lengths.argument(false));
        }
        let groups = work.groups as u64;
        let y = groups.div_ceil(MAX_GROUPS).max(1);
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let dispatch = Dispatch {
            arguments: &arguments,
            threads: GROUP_SIZE,
            groups: (narrow(groups.div_ceil(y)), narrow(y)),
            simd_width: self.options.simd_width,
        };
        // SAFETY: the memories live until the end of this function. Nobody else writes to them, as the module says.
        // Planners keep kernels within their operands; where they did not, guards around the memory tell below.
        let ran = unsafe { kernel.run(&dispatch) };
        let outside = memories.iter().position(|memory| !memory.is_intact());
        let fault = match (ran, outside) {
            (Err(report), _) => report,
            (Ok(()), Some(slot)) => format!("written outside of array {slot}"),
            (Ok(()), None) => return Ok(()),
        };
        let message = format!("{}: {fault}", work.kernel.label());
        Err(ErrorKind::Backend { op: "metal", message }.into())
    }

    fn memory(&self, id: BufferId) -> Result<Arc<Memory>> {
        let known = lock(&self.buffers).get(&id).cloned();
        known.ok_or_else(|| ErrorKind::Backend { op: "metal", message: format!("buffer {id:?} is not there") }.into())
    }

    fn keep(&self, memory: Memory) -> BufferId {
        let id = BufferId(self.next.fetch_add(1, Ordering::Relaxed));
        lock(&self.buffers).insert(id, Arc::new(memory));
        id
    }
}

impl Backend for Metal {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        Ok(self.keep(Memory::new(fitting("allocate", bytes)?)))
    }

    fn upload(&self, data: &[u8]) -> Result<BufferId> {
        fitting("upload", data.len() as u64)?;
        Ok(self.keep(Memory::of(data)))
    }

    fn release(&self, buffer: BufferId) {
        lock(&self.buffers).remove(&buffer);
    }

    fn run(&self, recording: &Recording) -> Result<()> {
        recording.dispatches.iter().try_for_each(|work| self.dispatch(work))
    }

    fn read(&self, buffer: BufferId, bytes: u64) -> Pending<HostBytes> {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        Pending::ready(self.memory(buffer).and_then(|memory| match memory.read(wanted) {
            Some(bytes) => bytes,
            None => {
                let message = format!("{bytes} bytes of a buffer of {}", memory.bytes);
                Err(ErrorKind::Backend { op: "read", message }.into())
            }
        }))
    }

    fn synchronize(&self) -> Pending<()> {
        Pending::ready(Ok(()))
    }

    /// Nothing: the host keeps no list of kernels.
    fn warm_up(&self) -> WarmUp {
        WarmUp::done(Report::default())
    }

    /// Compiles at once.
    fn warm(&self, kernels: Vec<Arc<KernelSpec>>) -> WarmUp {
        let warmed = |spec: &Arc<KernelSpec>| {
            let start = Instant::now();
            let error = self.kernel(spec).err();
            let origin = if error.is_some() { Origin::Failed } else { Origin::Compiled };
            WarmedKernel { kernel: spec.label(), origin, time: start.elapsed(), error }
        };
        WarmUp::done(Report { kernels: kernels.iter().map(warmed).collect(), ..Report::default() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps are changed by single calls, so a panic leaves them whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fitting(op: &'static str, bytes: u64) -> Result<usize> {
    let device = || "MSL on the CPU".to_owned();
    let what = "bytes of one array";
    let limit = || ErrorKind::Limit { op, what, needed: bytes, limit: MAX_BYTES, device: device() };
    usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES).ok_or_else(|| limit().into())
}

fn bytes_of(words: &[u32]) -> &[u8] {
    // SAFETY: every byte of a word is a byte, and the slice covers the words exactly.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// A buffer: bytes from an address that is a multiple of 16, and a guard of known contents on both sides.
struct Memory {
    // In units of 16 bytes.
    all: UnsafeCell<Box<[u128]>>,
    bytes: usize,
}

const GUARD: usize = 16;
const GUARD_WORD: u128 = 0x6b69_6c6e_7fc0_dead_6b69_6c6e_7fc0_beef;
/// What new memory holds: a NaN, and no likely result.
const NOISE: u128 = 0x7fc1_2345_7fc1_2345_7fc1_2345_7fc1_2345;

// SAFETY: writes happen in `dispatch` alone, to memory that no other thread reads or writes at the time, as the
// module's head says.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(16).max(1);
        let mut all = vec![GUARD_WORD; units + 2 * GUARD].into_boxed_slice();
        all[GUARD..GUARD + units].fill(NOISE);
        Self { all: UnsafeCell::new(all), bytes: units * 16 }
    }

    fn of(data: &[u8]) -> Self {
        let memory = Self::new(data.len());
        // SAFETY: the memory is new, at least as long as the data, and nobody else knows of it.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), memory.at(), data.len()) };
        memory
    }

    fn at(&self) -> *mut u8 {
        // SAFETY: the guard lies within the allocation; no reference to it is made.
        unsafe { (*self.all.get()).as_mut_ptr().add(GUARD).cast() }
    }

    fn argument(&self, writable: bool) -> Argument {
        Argument { at: self.at(), bytes: self.bytes, writable }
    }

    fn read(&self, bytes: usize) -> Option<Result<HostBytes>> {
        // SAFETY: within the memory, which no dispatch writes now: it ran before its array was known to anybody.
        (bytes <= self.bytes).then(|| HostBytes::copy_of(unsafe { std::slice::from_raw_parts(self.at(), bytes) }))
    }

    /// Whether the guards are as they were.
    fn is_intact(&self) -> bool {
        // SAFETY: guards are written by `new` alone, or by a kernel that has ended.
        let all = unsafe { &*self.all.get() };
        let end = all.len() - GUARD;
        all[..GUARD].iter().chain(&all[end..]).all(|&word| word == GUARD_WORD)
    }
}
