//! Many threads, first operations during a warm-up, and long compiles: cases H11, H13 and H15.

use crate::files::Scratch;
use crate::process::{Job, device};

#[test]
fn h11_many_threads_compile_each_kernel_once() {
    let Some((device, _turn)) = device("H11") else { return };
    let scratch = Scratch::new("h11");
    let mut joined = 0;
    for from in [0, 16, 32] {
        // The second time everything comes from the cache; still once.
        for _ in 0..2 {
            let job = Job::new("threads", &device, scratch.path()).with("JOB_THREADS", "64");
            let done = job.with("JOB_KERNELS", format!("{from}..{}", from + 16)).run();
            assert_eq!(done.fact("kernels_compiled"), 16);
            assert_eq!(done.warnings(), 0);
            joined += done.fact("kernels_joined");
        }
    }
    println!("h11: 6 processes of 64 threads, {joined} joins");
    assert!(joined > 0, "threads met");
}

#[test]
fn h13_the_first_operation_during_a_warm_up() {
    let Some((device, _turn)) = device("H13") else { return };
    for threads in ["0", "8"] {
        let scratch = Scratch::new("h13");
        let job = Job::new("first", &device, scratch.path()).with("KILN_PREWARM", threads).with("JOB_OTHER", "1000");
        let done = job.with("JOB_KERNELS", "0..31").run();
        let fact = |name: &str| done.fact(name);
        assert_eq!(fact("kernels_compiled"), 32 + fact("usual"), "each once\n{}", done.output());
        assert_eq!((fact("warmed"), fact("warmed_badly"), fact("cancelled")), (31, 0, 0));
        let (start, listed, other, list) =
            (fact("start_micros"), fact("listed_micros"), fact("other_micros"), fact("list_micros"));
        println!("h13: {threads} threads: started in {start}, first {listed}, other {other}, list {list} µs");
        assert!(fact("done_by_then") < fact("all"), "the list was still being compiled\n{}", done.output());
        assert!(start < 200_000 && other < list, "{}", done.output());
    }
}

#[test]
fn h15_a_long_compile_holds_nobody_up() {
    let Some((device, _turn)) = device("H15") else { return };
    let scratch = Scratch::new("h15");
    let done = Job::new("large", &device, scratch.path()).with("JOB_OPERATORS", "3000").run();
    let fact = |name: &str| done.fact(name);
    let (compile, launches) = (fact("compile_micros"), fact("launches"));
    let (idle, busy, most) = (fact("idle_p99_micros"), fact("busy_p99_micros"), fact("busy_max_micros"));
    println!("h15: {launches} launches in a compile of {compile} µs: p99 {busy} µs, most {most}; idle {idle}");
    println!(
        "h15: 64 kernels by 8 threads in {} µs, the sum of their compiles {}",
        fact("together_micros"),
        fact("apart_micros")
    );
    assert!(launches >= 10, "{}", done.output());
    // Few cores and other work: a launch may wait for its turn, not for the compile.
    assert!(busy < idle + 100_000 || busy < compile / 2, "{}", done.output());
}
