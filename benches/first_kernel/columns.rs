//! How a child runs: which caches it has, and what it waits for before the call that is timed.

use std::path::Path;
use std::process::Command;

/// A way to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Column {
    /// No cache at all.
    Cold,
    /// Kiln's cache alone.
    Kiln,
    /// Kiln's cache and the driver's.
    Both,
    /// Both caches, and the warm-up is waited for before the call.
    Prewarmed,
    /// Both caches, while the warm-up runs.
    Racing,
    /// The same by hand on wgpu, with the driver's cache.
    Bare,
    /// No cache; the whole program is rehearsed on one thread.
    OneThread,
    /// As `OneThread`, on eight.
    EightThreads,
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Self::Cold,
        Self::Kiln,
        Self::Both,
        Self::Prewarmed,
        Self::Racing,
        Self::Bare,
        Self::OneThread,
        Self::EightThreads,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Kiln => "kiln",
            Self::Both => "kiln+driver",
            Self::Prewarmed => "prewarmed",
            Self::Racing => "racing",
            Self::Bare => "bare",
            Self::OneThread => "1-thread",
            Self::EightThreads => "8-threads",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Whether other threads compile during the call, so that the log of compiles is not the call's alone.
    pub(crate) const fn warms(self) -> bool {
        matches!(self, Self::Prewarmed | Self::Racing)
    }

    /// Whether it needs caches that an earlier child filled.
    pub(crate) const fn needs_files(self) -> bool {
        !matches!(self, Self::Cold | Self::OneThread | Self::EightThreads)
    }

    /// The folder of its caches: columns with the same ones share it. Nothing is in it where there are none.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Cold | Self::OneThread | Self::EightThreads => "none",
            Self::Kiln => "kiln",
            Self::Both | Self::Prewarmed | Self::Racing => "both",
            Self::Bare => "bare",
        }
    }

    /// Sets the environment of a child whose caches are in `folder`.
    pub(crate) fn environment(self, command: &mut Command, folder: &Path) {
        let on = |switch: bool| if switch { "1" } else { "0" };
        let kiln = matches!(self, Self::Kiln | Self::Both | Self::Prewarmed | Self::Racing);
        let driver = matches!(self, Self::Both | Self::Prewarmed | Self::Racing | Self::Bare);
        command.env_remove("KILN_CACHE_BYTES");
        command.env("KILN_CACHE", on(kiln));
        command.env("KILN_CACHE_DIR", folder.join("kiln"));
        match self {
            // As it is by default.
            Self::Prewarmed | Self::Racing => command.env_remove("KILN_PREWARM"),
            Self::OneThread => command.env("KILN_PREWARM", "1"),
            Self::EightThreads => command.env("KILN_PREWARM", "8"),
            Self::Cold | Self::Kiln | Self::Both | Self::Bare => command.env("KILN_PREWARM", "0"),
        };
        // Mesa's cache and NVIDIA's.
        command.env("MESA_SHADER_CACHE_DISABLE", if driver { "false" } else { "true" });
        command.env("MESA_SHADER_CACHE_DIR", folder.join("mesa"));
        command.env("__GL_SHADER_DISK_CACHE", on(driver));
        command.env("__GL_SHADER_DISK_CACHE_PATH", folder.join("nvidia"));
    }
}
