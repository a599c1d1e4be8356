//! Rehearsals that come late, panic or are cancelled.

use crate::files::Scratch;
use crate::process::{Job, device};

#[test]
fn h13_a_rehearsal_during_another_is_not_lost() {
    let Some((device, _turn)) = device("H13") else { return };
    for done_before in ["0", "1", "10", "20"] {
        let scratch = Scratch::new("rehearsals");
        let done = Job::new("rehearsals", &device, scratch.path()).with("JOB_DONE", done_before).run();
        assert!(done.fact("warmed") >= 25, "after {done_before}: {}", done.output());
        assert_eq!((done.fact("left"), done.fact("compiled_later")), (0, 0), "after {done_before}");
    }
}

#[test]
fn h12_a_rehearsal_that_panics_is_reported() {
    let Some((device, _turn)) = device("H12") else { return };
    let scratch = Scratch::new("panic");
    let done = Job::new("rehearsed panic", &device, scratch.path()).run();
    assert_eq!(done.fact("told"), 1, "{}", done.output());
}

#[test]
fn h12_a_warm_up_cancelled_before_the_device_is_open_stops() {
    let Some((device, _turn)) = device("H12") else { return };
    let scratch = Scratch::new("early");
    Job::new("kernels", &device, scratch.path()).with("JOB_UNREAD", "0..40").run();
    for prewarm in ["0", "1"] {
        let done = Job::new("cancelled early", &device, scratch.path()).with("KILN_PREWARM", prewarm).run();
        assert_eq!(done.fact("cancelled"), 1);
        // Those under way were finished before the wait was over.
        assert_eq!(done.fact("compiled_afterwards"), 0, "{}", done.output());
    }
}
