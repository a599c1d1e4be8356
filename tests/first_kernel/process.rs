//! Children: how they are started, ended and read, and which device they use.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kiln::{Backend, DeviceKind, Options};

use crate::child;

/// A child that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What the children compute on.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    backend: &'static str,
}

/// The device of the children while no other case runs: times and moments need the machine. `None`, after a line that says
/// why, where there is no such device, or nothing of its kernels is kept.
pub(crate) fn device(case: &'static str) -> Option<(Device, Turn)> {
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match DEVICE.get_or_init(find) {
        Ok(device) => Some((device.clone(), Turn { case, start: Instant::now(), _turn: turn })),
        Err(reason) => {
            let required = std::env::var("KILN_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|word| word.trim() == "wgpu"), "wgpu is required, but {reason}");
            not_run(case, reason);
            None
        }
    }
}

/// A case while no other runs; says how long it took.
pub(crate) struct Turn {
    case: &'static str,
    start: Instant,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let thread = std::thread::current();
        println!("{}, {}: {:.1} s", self.case, thread.name().unwrap_or_default(), self.start.elapsed().as_secs_f32());
    }
}

/// The adapter that `KILN_ADAPTER` names, or the best GPU, or a software one.
fn find() -> Result<Device, String> {
    let adapter = std::env::var("KILN_ADAPTER").ok().filter(|adapter| !adapter.is_empty());
    let start = || adapter.iter().fold(Options::new(), |options, adapter| options.adapter(adapter));
    let apis = [Backend::Vulkan, Backend::Metal, Backend::Dx12];
    let choices = std::iter::once(start()).chain(apis.map(|api| start().backend(api)));
    let mut reasons = Vec::new();
    for options in choices {
        match options.prewarm(0).cache(false).open() {
            Ok(device) if device.info().kind != DeviceKind::Cpu => {
                let device = Device { backend: device.info().backend };
                let folder = crate::files::Scratch::new("probe");
                let probe = Job::new("kernels", &device, folder.path()).with("JOB_KERNELS", "0").run();
                let kept = probe.fact("text_misses") + probe.fact("driver_misses") > 0;
                return kept.then_some(device).ok_or_else(|| "wgpu keeps nothing of its kernels".to_owned());
            }
            Ok(_) => reasons.push("no GPU".to_owned()),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; ").split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Says that a case, or a part of it, did not run. To standard error, past the harness, and to the suite's report.
pub(crate) fn not_run(case: &str, reason: &str) {
    let line = format!("not run: case {case} ({reason})\n");
    // Nothing can be done where the line cannot be written.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    if let Some(path) = std::env::var_os("KILN_TEST_REPORT").filter(|path| !path.is_empty()) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()));
    }
}

/// How often a random case is repeated.
pub(crate) fn rounds(usual: usize, long: usize) -> usize {
    let asked = std::env::var("KILN_TEST_LONG").is_ok_and(|word| !word.is_empty() && word != "0");
    if asked { long } else { usual }
}

/// A child that is to be started.
#[derive(Clone)]
pub(crate) struct Job {
    name: String,
    /// This program, unless it is another build of it.
    program: Option<PathBuf>,
    /// This user, unless it is another.
    #[cfg_attr(not(unix), expect(dead_code, reason = "users have no numbers there"))]
    user: Option<u32>,
    variables: Vec<(String, Option<OsString>)>,
}

impl Job {
    /// A job of `child` with this folder as its cache.
    pub(crate) fn new(name: &str, device: &Device, folder: &Path) -> Self {
        let job = Self { name: name.to_owned(), program: None, user: None, variables: Vec::new() };
        job.with("KILN_BACKEND", device.backend)
            .with("KILN_CACHE_DIR", folder)
            .with("KILN_PREWARM", "0")
            .without("KILN_CACHE")
            .without("KILN_CACHE_BYTES")
            .without("KILN_TEST_REPORT")
            // The driver's own cache would hide compiles.
            .with("MESA_SHADER_CACHE_DISABLE", "true")
            // Software Vulkan need not do its best: these kernels run once.
            .with("GALLIVM_PERF", "nopt")
    }

    pub(crate) fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), None));
        self
    }

    /// The same by another build of this program.
    pub(crate) fn by(self, program: impl Into<PathBuf>) -> Self {
        Self { program: Some(program.into()), ..self }
    }

    /// The same by another user, as root may.
    #[cfg(unix)]
    pub(crate) fn by_user(self, user: u32) -> Self {
        Self { user: Some(user), ..self }
    }

    #[cfg(unix)]
    pub(crate) fn is_by_another_user(&self) -> bool {
        self.user.is_some()
    }

    pub(crate) fn start(&self) -> Running {
        let own = || std::env::current_exe().expect("the test's own path");
        let program = self.program.clone().unwrap_or_else(own);
        let mut command = Command::new(program);
        command.args(["--exact", child::TEST, "--nocapture", "--test-threads=1"]).env(child::MARK, &self.name);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        #[cfg(unix)]
        if let Some(user) = self.user {
            use std::os::unix::process::CommandExt;
            command.uid(user).gid(user);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running { name: self.name.clone(), child: child.expect("the test starts itself") }
    }

    /// Runs it to its end, which must be a good one.
    #[track_caller]
    pub(crate) fn run(&self) -> Done {
        let done = self.start().wait();
        done.assert_success();
        done
    }
}

/// A child that runs.
pub(crate) struct Running {
    name: String,
    child: Child,
}

impl Running {
    /// Ends it where it is, as if by the system.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child ends");
    }

    #[track_caller]
    pub(crate) fn wait(mut self) -> Done {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if start.elapsed() > LIMIT {
                let name = self.name.clone();
                self.kill();
                panic!("the job {name} hangs");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut text = [String::new(), String::new()];
        let pipes: [Option<Box<dyn Read>>; 2] = [
            self.child.stdout.take().map(|pipe| Box::new(pipe) as _),
            self.child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        for (pipe, text) in pipes.into_iter().zip(&mut text) {
            let mut bytes = Vec::new();
            pipe.expect("it is piped").read_to_end(&mut bytes).expect("it can be read");
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        let fact = |line: &str| {
            let (name, value) = line.strip_prefix("fact ")?.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let facts = text[0].lines().filter_map(fact).collect();
        Done { name: self.name, code: status.code(), text, facts }
    }
}

/// A child that has ended.
pub(crate) struct Done {
    name: String,
    /// `None` after a signal.
    pub(crate) code: Option<i32>,
    text: [String; 2],
    facts: HashMap<String, u64>,
}

impl Done {
    #[track_caller]
    pub(crate) fn assert_success(&self) {
        let whole = self.facts.contains_key("done");
        assert!(self.code == Some(0) && whole, "the job {} ended with {:?}\n{}", self.name, self.code, self.output());
    }

    /// A number that the child printed.
    #[track_caller]
    pub(crate) fn fact(&self, name: &str) -> u64 {
        let fact = self.facts.get(name);
        *fact.unwrap_or_else(|| panic!("the job {} says nothing of {name}\n{}", self.name, self.output()))
    }

    /// Lines that Kiln logged as warnings or errors.
    pub(crate) fn warnings(&self) -> usize {
        self.text[1].lines().filter(|line| line.contains(child::LOGGED)).count()
    }

    /// At most one warning, as for a cache that is not what it should be.
    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        assert!(self.warnings() <= 1, "{} warnings\n{}", self.warnings(), self.output());
    }

    /// All that it printed.
    pub(crate) fn output(&self) -> String {
        self.text.join("\n")
    }
}

/// Numbers that look random and are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let limit = u64::try_from(limit.max(1)).expect("it is 64 bits at most");
        usize::try_from((self.0 >> 11) % limit).expect("it is below the limit")
    }
}
