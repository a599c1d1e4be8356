//! The choice of a backend: the best GPU, then the CPU; or what the builder or the environment asks for.

use std::fmt;
use std::path::PathBuf;
#[cfg(any(feature = "cpu", feature = "wgpu"))]
use std::sync::Arc;

use kiln_array::{Device, DeviceInfo, ErrorKind, Result};

use crate::choice::{self, NamedBy};
use crate::settings::{number, switch, variable};
use crate::shared;
#[cfg(not(target_arch = "wasm32"))]
use crate::warm;

/// A kind of backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// Kiln's own CPU backend.
    Cpu,
    /// GPUs through Vulkan, software ones too.
    Vulkan,
    /// Apple's GPUs.
    Metal,
    /// GPUs through Direct3D 12, software ones too.
    Dx12,
    /// The browser's GPU.
    WebGpu,
}

impl Backend {
    pub(crate) const ALL: [Self; 5] = [Self::Cpu, Self::Vulkan, Self::Metal, Self::Dx12, Self::WebGpu];

    /// The word that `KILN_BACKEND` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Dx12 => "dx12",
            Self::WebGpu => "webgpu",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which device to open.
///
/// By default the best GPU (discrete, then integrated, then other), then the CPU backend. A software GPU, such as Mesa's
/// llvmpipe, is taken only when its API or the adapter is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "options open nothing until `open`"]
pub struct Options {
    pub(crate) backend: Option<Backend>,
    pub(crate) adapter: Option<String>,
    /// Which of the two the environment named.
    pub(crate) named_by: NamedBy,
    metal_passthrough: Option<bool>,
    warm_up_threads: Option<usize>,
    cache: CacheChoice,
    from_env: bool,
    separate: bool,
}

/// What the builder and the environment say of the cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct CacheChoice {
    enabled: Option<bool>,
    folder: Option<PathBuf>,
    application: Option<String>,
    max_bytes: Option<u64>,
}

impl Options {
    /// The default choice, whatever the environment says.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the environment asks for: `KILN_BACKEND=cpu|vulkan|metal|dx12|webgpu`; `KILN_ADAPTER`, a part of a device's
    /// name or its number in [`devices_async`]; `KILN_METAL_PASSTHROUGH=1`; `KILN_PREWARM=THREADS`, 0 for none;
    /// `KILN_CACHE=0`, `KILN_CACHE_DIR`, `KILN_CACHE_BYTES`, `KILN_APPLICATION`. What the builder says comes first.
    /// [`open`](crate::open) uses these.
    pub fn from_env() -> Self {
        Self { from_env: true, ..Self::default() }
    }

    /// Only this backend.
    pub fn backend(self, backend: Backend) -> Self {
        Self { backend: Some(backend), ..self }
    }

    /// Only the device whose name contains `adapter`, in any case, or that has this number (of one or two
    /// digits) in [`devices_async`].
    pub fn adapter(self, adapter: impl Into<String>) -> Self {
        Self { adapter: Some(adapter.into()), ..self }
    }

    /// On Metal, hands kernels over as text that asks for safe math, past wgpu's translation, which compiles with fast
    /// math. Nothing changes on other backends. Off by default: no Mac has measured it yet (`docs/metal.md`).
    pub fn metal_passthrough(self, passthrough: bool) -> Self {
        Self { metal_passthrough: Some(passthrough), ..self }
    }

    /// How many threads compile behind the program what it used in earlier processes, from the moment the device is
    /// open: half of the machine's cores, eight at most, unless this or `KILN_PREWARM` says otherwise, and none on a single core. With 0
    /// nothing starts by itself; [`Device::warm_up`](crate::Device::warm_up) still does.
    pub fn prewarm(self, threads: usize) -> Self {
        Self { warm_up_threads: Some(threads), ..self }
    }

    /// Whether compiled kernels are kept for the program's next process. They are, unless this or `KILN_CACHE=0` says
    /// otherwise.
    pub fn cache(mut self, enabled: bool) -> Self {
        self.cache.enabled = Some(enabled);
        self
    }

    /// The folder in which compiled kernels are kept, instead of `KILN_CACHE_DIR` or the system's folder for caches. It
    /// must be the user's alone.
    pub fn cache_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache.folder = Some(folder.into());
        self
    }

    /// Bytes of all compiled kernels that are kept, of all programs, at most; those used longest ago go first. 256 MiB
    /// unless this or `KILN_CACHE_BYTES` says otherwise.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache.max_bytes = Some(bytes);
        self
    }

    /// The name under which the kernels that this program uses are remembered: that of its executable unless this or
    /// `KILN_APPLICATION` says otherwise.
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.cache.application = Some(name.into());
        self
    }

    /// A device of its own, even where one of the same options is open.
    pub fn separate(self) -> Self {
        Self { separate: true, ..self }
    }

    /// Opens the device; blocks until it is there.
    ///
    /// Says by the `log` crate which device it is and why: at `info`, and at `warn` where it is the CPU for want of a
    /// GPU. `RUST_LOG=kiln=info` shows that and all other lines of Kiln's crates, and of nobody else, in loggers that
    /// compare the beginning of a target, such as `env_logger` and `tracing_subscriber`. The targets begin with `kiln`
    /// and `kiln_wgpu`.
    ///
    /// Where a device of the same options is open, this is another handle on it, whoever opened it; unless it was lost,
    /// or [`separate`](Self::separate) asks for another. What the environment says counts among the options. A device
    /// is closed when the last handle and the last array of it are dropped.
    ///
    /// # Errors
    /// No device does what was asked: the error lists what exists. A variable of the environment has a word that it
    /// does not take.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(self) -> Result<Device> {
        pollster::block_on(self.open_async())
    }

    /// [`open`](Self::open) without blocking.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_async(self) -> Result<Device> {
        let this = if self.from_env { self.with_env()? } else { self };
        if this.separate {
            return this.open_new().await;
        }
        // Equal options are equal, wherever they come from.
        let key = Self { named_by: NamedBy::default(), ..this.clone() };
        shared::device(&key, this.open_new()).await
    }

    /// Opens another device; says which and why.
    async fn open_new(&self) -> Result<Device> {
        match self.choose().await {
            Ok((device, without_gpu)) => {
                choice::log(self, &device, without_gpu.as_ref());
                Ok(device)
            }
            Err(error) => Err(choice::refusal(self, error).await),
        }
    }

    /// Another device; with why it is no GPU, where one would have been taken.
    async fn choose(&self) -> Result<(Device, Option<kiln_array::Error>)> {
        let device = match (self.backend, &self.adapter) {
            (None, None) => match gpu(self).await {
                Err(error) if cfg!(feature = "cpu") => return Ok((cpu()?, Some(error))),
                opened => opened,
            },
            (Some(Backend::Cpu), None) => cpu(),
            // The CPU is a device like others: by its name, or by its number, after all the others.
            (None | Some(Backend::Cpu), Some(adapter)) if self.means_cpu(adapter).await => cpu(),
            (Some(Backend::Cpu), Some(_)) => {
                let reason = "the CPU backend has another name and number".to_string();
                Err(ErrorKind::NoDevice { wanted: self.to_string(), reason }.into())
            }
            // What was asked for is an error where it is not there.
            _ => gpu(self).await,
        }?;
        Ok((device, None))
    }

    /// Whether a part of a name, or a number in [`devices`], is the CPU backend's, and no other device's.
    async fn means_cpu(&self, adapter: &str) -> bool {
        let all = devices_async().await;
        match number_of(adapter) {
            Some(number) => all.get(number).is_some_and(|info| info.backend == "cpu"),
            None => {
                let adapter = adapter.to_lowercase();
                let found = all.iter().find(|info| {
                    (self.backend.is_none() || info.backend == "cpu") && info.name.to_lowercase().contains(&adapter)
                });
                found.is_some_and(|info| info.backend == "cpu")
            }
        }
    }

    fn with_env(mut self) -> Result<Self> {
        self.from_env = false;
        if self.backend.is_none()
            && let Some(word) = variable("KILN_BACKEND")?
        {
            let known = Backend::ALL.into_iter().find(|backend| backend.name().eq_ignore_ascii_case(&word));
            let words = Backend::ALL.map(Backend::name).join(", ");
            let reason = format!("there is no such backend; KILN_BACKEND takes {words}");
            let wanted = format!("KILN_BACKEND={word}");
            self.backend = Some(known.ok_or(ErrorKind::NoDevice { wanted, reason })?);
            self.named_by.backend = true;
        }
        if self.adapter.is_none() {
            self.adapter = variable("KILN_ADAPTER")?;
            self.named_by.adapter = self.adapter.is_some();
        }
        if self.warm_up_threads.is_none() {
            // 0: none. 1 and more: so many threads.
            let threads = number("KILN_PREWARM")?;
            self.warm_up_threads = threads.map(|threads| usize::try_from(threads).unwrap_or(usize::MAX).min(64));
        }
        if self.cache.enabled.is_none() {
            self.cache.enabled = switch("KILN_CACHE")?;
        }
        if self.cache.max_bytes.is_none() {
            self.cache.max_bytes = number("KILN_CACHE_BYTES")?;
        }
        if self.cache.application.is_none() {
            self.cache.application = variable("KILN_APPLICATION")?;
        }
        if self.cache.folder.is_none() {
            // Any bytes that the system takes for a path.
            self.cache.folder = std::env::var_os("KILN_CACHE_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        }
        if self.metal_passthrough.is_none() {
            self.metal_passthrough = switch("KILN_METAL_PASSTHROUGH")?;
        }
        Ok(self)
    }
}

#[cfg(feature = "wgpu")]
impl Options {
    /// Computes on a wgpu device that the program has opened itself, as [`wgpu::from_device`](crate::wgpu::from_device)
    /// does, and keeps and warms up kernels as on a device of Kiln's own, unless these options say otherwise. Which
    /// backend or adapter they name does not matter.
    ///
    /// On Vulkan, kernels can be kept where the device has wgpu's feature `PIPELINE_CACHE`, their text where it has
    /// `PASSTHROUGH_SHADERS` and `SUBGROUP`. Everywhere the list of kernels that the program used is kept.
    ///
    /// ```no_run
    /// # fn f(device: kiln::wgpu::Device, queue: kiln::wgpu::Queue) -> kiln::Result<()> {
    /// let gpu = kiln::Options::from_env().application("my-library").open_on(device, queue)?;
    /// # let _ = gpu; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The device's limits are too low for Kiln's kernels, these options ask for something that it was not opened with, or a
    /// variable of the environment has a word that it should not have.
    pub fn open_on(self, device: crate::wgpu::Device, queue: crate::wgpu::Queue) -> Result<Device> {
        let this = if self.from_env { self.with_env()? } else { self };
        let backend = kiln_wgpu::open_on(device, queue, &this.backend_options())?;
        Ok(Device::new(Arc::new(backend)))
    }

    /// What the backend needs to know, whichever device it is.
    fn backend_options(&self) -> kiln_wgpu::Options {
        let mut wanted = kiln_wgpu::Options::new();
        wanted.metal_passthrough = self.metal_passthrough.unwrap_or(false);
        wanted.warm_up_threads = self.warm_up_threads;
        #[cfg(not(target_arch = "wasm32"))]
        {
            wanted.cache = self.cache_options();
        }
        wanted
    }
}

#[cfg(all(feature = "wgpu", not(target_arch = "wasm32")))]
impl Options {
    /// Where and whether these options keep compiled kernels.
    pub(crate) fn cache_options(&self) -> kiln_wgpu::cache::CacheOptions {
        let usual = kiln_wgpu::cache::CacheOptions::default();
        kiln_wgpu::cache::CacheOptions {
            enabled: self.cache.enabled.unwrap_or(usual.enabled),
            folder: self.cache.folder.clone(),
            application: self.cache.application.clone(),
            max_bytes: self.cache.max_bytes.unwrap_or(usual.max_bytes),
        }
    }

    /// As [`cache_options`](Self::cache_options), with what the environment says where the builder says nothing.
    pub(crate) fn cache_options_with_env(self) -> Result<kiln_wgpu::cache::CacheOptions> {
        let this = if self.from_env { self.with_env()? } else { self };
        Ok(this.cache_options())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.backend.map(|backend| match self.named_by.backend {
            true => format!("KILN_BACKEND={backend}"),
            false => format!("backend {backend}"),
        });
        let adapter = self.adapter.as_ref().map(|adapter| match self.named_by.adapter {
            true => format!("KILN_ADAPTER={adapter}"),
            false => format!("adapter {adapter}"),
        });
        match (backend, adapter) {
            (None, None) => f.write_str("any device"),
            (Some(one), None) | (None, Some(one)) => f.write_str(&one),
            (Some(backend), Some(adapter)) => write!(f, "{backend} and {adapter}"),
        }
    }
}

/// An adapter's number in the list of devices; longer numbers are parts of names, as in "RTX 4090".
pub(crate) fn number_of(adapter: &str) -> Option<usize> {
    if adapter.len() <= 2 { adapter.parse().ok() } else { None }
}

/// Opens the best device: a GPU, or the CPU where there is none. `KILN_BACKEND` and `KILN_ADAPTER` choose another.
///
/// A second call gives another handle on the same device, as long as it is open: see [`Options::open`].
///
/// After [`warm_up`](crate::warm_up) it takes the device that is being opened since then, as the environment was then.
///
/// # Errors
/// The environment asks for a device that is not there.
#[cfg(not(target_arch = "wasm32"))]
pub fn open() -> Result<Device> {
    warm::take().unwrap_or_else(|| Options::from_env().open())
}

/// [`open`](crate::open) without blocking; the only way in a browser.
///
/// # Errors
/// As [`open`](crate::open).
pub async fn open_async() -> Result<Device> {
    #[cfg(not(target_arch = "wasm32"))]
    if let Some(taken) = warm::take_async().await {
        return taken;
    }
    Options::from_env().open_async().await
}

/// The devices of this machine, the CPU last. `KILN_ADAPTER` takes their numbers.
#[cfg(not(target_arch = "wasm32"))]
#[must_use]
pub fn devices() -> Vec<DeviceInfo> {
    pollster::block_on(devices_async())
}

/// The devices of this machine, the CPU last, without blocking. `KILN_ADAPTER` takes their numbers.
pub async fn devices_async() -> Vec<DeviceInfo> {
    #[cfg(feature = "wgpu")]
    let gpus = kiln_wgpu::devices().await;
    #[cfg(not(feature = "wgpu"))]
    let gpus: [DeviceInfo; 0] = [];
    #[cfg(feature = "cpu")]
    let cpu = Some(kiln_array::Backend::info(&kiln_cpu::Cpu::new()).clone());
    #[cfg(not(feature = "cpu"))]
    let cpu = None;
    gpus.into_iter().chain(cpu).collect()
}

#[cfg(feature = "cpu")]
fn cpu() -> Result<Device> {
    Ok(Device::new(Arc::new(kiln_cpu::Cpu::new())))
}

#[cfg(not(feature = "cpu"))]
fn cpu() -> Result<Device> {
    Err(without("cpu"))
}

#[cfg(feature = "wgpu")]
async fn gpu(options: &Options) -> Result<Device> {
    use kiln_wgpu::wgpu::Backends;
    let mut wanted = options.backend_options().allow_software(options.backend.is_some());
    // A number counts the devices of all backends, so none is left out of the count.
    let numbered = options.adapter.as_deref().and_then(number_of).is_some();
    if let Some(backend) = options.backend
        && !numbered
    {
        wanted = wanted.backends(match backend {
            Backend::Vulkan => Backends::VULKAN,
            Backend::Metal => Backends::METAL,
            Backend::Dx12 => Backends::DX12,
            Backend::WebGpu => Backends::BROWSER_WEBGPU,
            Backend::Cpu => Backends::empty(),
        });
    }
    if let Some(adapter) = &options.adapter {
        wanted = wanted.adapter(adapter);
    }
    let device = Device::new(Arc::new(kiln_wgpu::open(&wanted).await?));
    match options.backend {
        Some(backend) if device.info().backend != backend.name() => {
            let reason = format!("that adapter is {}", device.info());
            Err(ErrorKind::NoDevice { wanted: options.to_string(), reason }.into())
        }
        _ => Ok(device),
    }
}

#[cfg(not(feature = "wgpu"))]
#[expect(clippy::unused_async, reason = "as the function that opens a GPU")]
async fn gpu(_: &Options) -> Result<Device> {
    Err(without("wgpu"))
}

#[cfg(not(all(feature = "cpu", feature = "wgpu")))]
fn without(feature: &str) -> kiln_array::Error {
    let reason = format!("kiln was built without the feature `{feature}`");
    ErrorKind::NoDevice { wanted: feature.to_string(), reason }.into()
}
