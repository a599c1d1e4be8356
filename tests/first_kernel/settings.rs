//! What the environment says, and a machine without an adapter: case I01.

use crate::files::{self, Scratch};
use crate::process::{Job, device, not_run};

#[test]
fn i01_no_adapter() {
    let Some((device, _turn)) = device("I01") else { return };
    if !cfg!(target_os = "linux") {
        return not_run("I01", "the adapters of this system cannot be hidden");
    }
    let scratch = Scratch::new("i01");
    let job = Job::new("no adapter", &device, scratch.path());
    let job = job.with("VK_DRIVER_FILES", "/dev/null").with("VK_ICD_FILENAMES", "/dev/null").without("DISPLAY");
    for prewarm in ["0", "1"] {
        let job = job.clone().with("KILN_PREWARM", prewarm);
        for backend in ["vulkan", "metal", "dx12", "cpu"] {
            assert_eq!(job.clone().with("KILN_BACKEND", backend).run().warnings(), 0);
        }
        // Nobody asked for the CPU: that is said once, however often it is opened.
        assert_eq!(job.without("KILN_BACKEND").run().warnings(), 1);
    }
    assert!(files::entries(scratch.path()).is_empty());
}

#[test]
fn i01_unknown_words_are_errors_that_name_them() {
    let Some((device, _turn)) = device("I01") else { return };
    let scratch = Scratch::new("words");
    for (name, word) in [
        ("KILN_CACHE", "yes"),
        ("KILN_CACHE", "2"),
        ("KILN_CACHE_BYTES", "256MiB"),
        ("KILN_CACHE_BYTES", "-1"),
        ("KILN_CACHE_BYTES", "99999999999999999999999"),
        ("KILN_PREWARM", "all"),
        ("KILN_PREWARM", "1.5"),
        ("KILN_BACKEND", "cuda"),
        ("KILN_METAL_PASSTHROUGH", "on"),
    ] {
        let done = Job::new("settings", &device, scratch.path()).with(name, word).run();
        let line = format!("{name}={word}");
        let said = done.output();
        assert!(said.lines().any(|it| it.starts_with("not opened: ") && it.contains(&line)), "{line}: {said}");
        assert_eq!(done.warnings(), 0);
    }
    // Empty is as good as not set.
    for name in ["KILN_CACHE", "KILN_CACHE_BYTES", "KILN_PREWARM"] {
        let done = Job::new("settings", &device, scratch.path()).with(name, "").run();
        assert!(!done.output().contains("not opened: "), "{}", done.output());
    }
}

#[test]
fn h04_the_cache_can_be_turned_off() {
    let Some((device, _turn)) = device("H04") else { return };
    let scratch = Scratch::new("off");
    for prewarm in ["0", "1"] {
        let job = Job::new("settings", &device, scratch.path()).with("KILN_CACHE", "0").with("KILN_PREWARM", prewarm);
        assert_eq!(job.run().fact("keeps"), 0);
    }
    assert!(files::all(scratch.path()).is_empty() && files::environments(scratch.path()).is_empty());
}

#[test]
fn h13_any_number_of_threads_warms_up() {
    let Some((device, _turn)) = device("H13") else { return };
    let scratch = Scratch::new("threads");
    let job = Job::new("kernels", &device, scratch.path()).with("JOB_KERNELS", "0..5,s1");
    job.run();
    for threads in ["0", "1", "8", "64", "1000000"] {
        // Asked for, a warm-up comes with no threads of its own, too.
        let done = job.clone().with("KILN_PREWARM", threads).with("JOB_WARM", "1").run();
        assert!(done.fact("warmed") > 6, "{}", done.output());
        assert_eq!((done.fact("warmed_badly"), done.fact("cancelled"), done.warnings()), (0, 0, 0));
        assert_eq!(done.fact("kernels_compiled"), done.fact("compiled_by_warm_up"));
    }
}
