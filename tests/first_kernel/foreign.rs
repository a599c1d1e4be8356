//! Entries and lists of other devices, drivers and versions: case H05.

use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::files::{self, Scratch};
use crate::process::{Device, Done, Job, device, not_run};

const KERNELS: &str = "0..4,s1";

fn job(device: &Device, folder: &Path) -> Job {
    Job::new("kernels", device, folder).with("JOB_KERNELS", KERNELS)
}

fn misses(done: &Done) -> u64 {
    done.fact("text_misses").max(done.fact("driver_misses"))
}

/// Misses beyond the kernels that a warm-up adds to the list, which many programs begin with.
fn misses_of_ours(done: &Done) -> u64 {
    misses(done).saturating_sub(done.fact("warmed") - done.fact("manifest_kernels"))
}

/// Copies a folder's files.
fn copy(from: &Path, to: &Path) {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(to).expect("a folder");
    for path in files::all(from) {
        fs::copy(&path, to.join(path.file_name().expect("a file"))).expect("it can be copied");
    }
}

/// Makes the environment's folder that of another version; returns its path.
fn of_another_version(environment: &Path) -> std::path::PathBuf {
    let description = String::from_utf8(files::read(&environment.join("device.txt"))).expect("it is text");
    let version = description.lines().next().expect("a line").to_owned();
    let description = description.replacen(&version, "kiln: 0.0.9", 1);
    let other = environment.with_file_name(format!("{:032x}", xxh3_128(description.as_bytes())));
    fs::rename(environment, &other).expect("it can be renamed");
    files::write(&other.join("device.txt"), description.as_bytes());
    other
}

#[test]
fn h05_another_versions_entries_are_misses_and_stay_beside_ours() {
    let Some((device, _turn)) = device("H05") else { return };
    let scratch = Scratch::new("h05");
    let first = job(&device, scratch.path()).run();
    let other = of_another_version(&files::environment(scratch.path()));
    let theirs: Vec<_> = files::all(&other).iter().map(|path| files::read(path)).collect();
    // The last environment is theirs, as after an update of Kiln or a driver.
    for last in files::with_ending(scratch.path(), "last") {
        files::write(&last, other.file_name().expect("a name").to_string_lossy().as_bytes());
    }
    let done = job(&device, scratch.path()).run();
    assert_eq!((misses(&done), done.fact("manifest_kernels")), (misses(&first), 0));
    assert_eq!((done.fact("text_hits"), done.fact("rejected"), done.warnings()), (0, 0, 0));
    assert_eq!(files::environments(scratch.path()).len(), 2);
    let done = job(&device, scratch.path()).run();
    assert_eq!((misses(&done), done.warnings()), (0, 0));
    assert_eq!(files::all(&other).iter().map(|path| files::read(path)).collect::<Vec<_>>(), theirs);
    let listed = kiln::cache::list(kiln::Options::new().cache_folder(scratch.path())).expect("it can be listed");
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().all(|stored| stored.kernels > 0 && stored.applications.len() == 1), "{listed:?}");
}

#[test]
fn h05_entries_under_other_names_are_rejected() {
    let Some((device, _turn)) = device("H05") else { return };
    let scratch = Scratch::new("h05-names");
    job(&device, scratch.path()).run();
    // Another environment's files under this one's names: as if somebody had copied a folder.
    let environment = files::environment(scratch.path());
    let other = environment.with_file_name("0123456789abcdef0123456789abcdef");
    copy(&environment, &other);
    let forged = files::entries(&environment).len() as u64;
    for path in files::entries(&environment) {
        // The environment in the head, with a checksum that fits.
        let mut bytes = files::read(&path);
        bytes[8] ^= 1;
        let body = bytes.len() - 16;
        let sum = xxh3_128(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        files::write(&path, &bytes);
    }
    let done = job(&device, scratch.path()).run();
    assert_eq!((done.fact("rejected"), misses(&done), done.warnings()), (forged, forged, 0));
    // Each entry under the name of the next, where keys are in the head.
    let paths = files::entries(&environment);
    let away: Vec<_> = paths.iter().map(|path| path.with_extension("away")).collect();
    paths.iter().zip(&away).for_each(|(path, away)| fs::rename(path, away).expect("it can be renamed"));
    for (at, away) in away.iter().enumerate() {
        fs::rename(away, &paths[(at + 1) % paths.len()]).expect("it can be renamed");
    }
    let done = job(&device, scratch.path()).run();
    assert_eq!((done.fact("rejected"), misses(&done), done.warnings()), (forged, forged, 0));
    assert_eq!(misses(&job(&device, scratch.path()).run()), 0);
}

/// Changes the driver's form in an entry; lengths and checksum fit.
fn replace_blob(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = files::read(path);
    let text = u32::from_le_bytes(bytes[40..44].try_into().expect("four bytes")) as usize;
    bytes.truncate(bytes.len() - 16);
    let mut blob = bytes.split_off(48 + text);
    change(&mut blob);
    bytes[44..48].copy_from_slice(&u32::try_from(blob.len()).expect("it is small").to_le_bytes());
    bytes.extend(blob);
    let sum = xxh3_128(&bytes).to_le_bytes();
    bytes.extend(sum);
    files::write(path, &bytes);
}

type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn h05_a_blob_that_the_driver_refuses_is_made_again() {
    let Some((device, _turn)) = device("H05") else { return };
    let scratch = Scratch::new("h05-blob");
    let job = job(&device, scratch.path()).with("JOB_KERNELS", "0,1");
    let first = job.run();
    if first.fact("driver_misses") == 0 {
        return not_run("H05", "a driver that refuses its blob: wgpu cannot ask this one for any");
    }
    let refused = files::entries(scratch.path()).len() as u64;
    let flip = |at: usize| move |blob: &mut Vec<u8>| blob[at] ^= 1;
    let faults: [(&str, Change<'_>); 8] = [
        ("noise", &|blob| blob.fill(0xa5)),
        ("one byte", &|blob| blob.truncate(1)),
        ("the first half", &|blob| blob.truncate(blob.len() / 2)),
        ("a byte more", &|blob| blob.push(0)),
        // The head: a form, its version, the adapter's API, vendor and device, the driver's own key.
        ("another form", &flip(0)),
        ("another API", &flip(16)),
        ("another device", &flip(22)),
        ("another driver", &flip(33)),
    ];
    for (what, change) in faults {
        let entries = files::entries(scratch.path());
        entries.iter().for_each(|path| replace_blob(path, change));
        let bad: Vec<_> = entries.iter().map(|path| files::read(path)).collect();
        // The files are whole: who refuses them is the driver, or wgpu for it. The results were read and are right.
        files::assert_good(scratch.path());
        let done = job.run();
        let facts = ["driver_misses", "driver_hits", "rejected", "text_misses"].map(|name| done.fact(name));
        assert_eq!((facts, done.warnings()), ([refused, 0, 0, 0], 0), "{what}\n{}", done.output());
        assert_eq!(done.fact("checked"), 2, "{what}");
        // What it made of them instead is kept.
        assert!(entries.iter().zip(&bad).all(|(path, bad)| files::read(path) != *bad), "{what}");
        let done = job.run();
        assert_eq!((done.fact("driver_hits"), misses(&done), done.warnings()), (refused, 0, 0), "{what}");
    }
}

/// Puts a list in the place of a folder's list, with a sum that fits.
fn replace_list(folder: &Path, edit: impl Fn(Vec<String>) -> Vec<String>) {
    let path = files::with_ending(folder, "kernels").remove(0);
    let text = String::from_utf8(files::read(&path)).expect("it is text");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let body = edit(lines[..lines.len() - 1].to_vec()).join("\n");
    files::write(&path, format!("{body}\nsum {:032x}\n", xxh3_128(body.as_bytes())).as_bytes());
}

#[test]
fn h05_a_list_of_kernels_that_no_longer_exist_is_skipped() {
    let Some((device, _turn)) = device("H05") else { return };
    let scratch = Scratch::new("h05-list");
    job(&device, scratch.path()).run();
    // Words that this version does not know.
    replace_list(scratch.path(), |mut lines| {
        let line = lines[1].clone();
        lines.push(line.replacen(" map ", " convolve ", 1).replacen(" reduce ", " convolve ", 1));
        lines.push("1 2 3 no kernel".to_owned());
        lines.push(String::new());
        lines.push(line.replace("kept=", "held="));
        lines
    });
    let done = job(&device, scratch.path()).with("JOB_WARM", "1").run();
    assert_eq!((done.warnings(), done.fact("warmed_badly"), misses_of_ours(&done)), (0, 0, 0));
    assert!(done.fact("compiled_by_warm_up") >= done.fact("manifest_kernels"));
    files::assert_good(scratch.path());
}

/// Kernels that can be read but not compiled.
const BAD: [&str; 12] = [
    "map kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in7; -> v0}",
    "map kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in0; v1:i32=neg(v0); -> v1}",
    "map kept=0 walked=1 a:f32:quad o:f32:quad map{ -> }",
    "map kept=0 walked=1 a:f32:quad map{v0:f32=in0; -> v0}",
    "map kept=0 walked=1 a:f32:quad o:f32:quad",
    "map kept=200 walked=200 a:f32:strided o:f32:quad map{v0:f32=in0; -> v0}",
    "map kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in0; v1:f32=bitand(v0,v0); -> v1}",
    "reduce kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in0; -> v0}",
    "reduce kept=0 walked=1 map{ -> } combine{ -> } finish{ -> }",
    "scan kept=0 walked=1 a:f32:quad o:f32:quad map{v0:f32=in0; -> v0} combine{v0:f32=in0; -> v0 v0 v0}",
    "spine kept=0 walked=0",
    "map kept=0 walked=0 map{v0:bool=const0; -> v0 v0 v0}",
];

#[test]
fn h05_a_list_of_kernels_that_do_not_compile_is_reported() {
    let Some((device, _turn)) = device("H05") else { return };
    let scratch = Scratch::new("h05-bad");
    job(&device, scratch.path()).run();
    let readable: Vec<_> = BAD.iter().filter(|text| text.parse::<kiln_array::kernel::KernelSpec>().is_ok()).collect();
    assert!(readable.len() >= 8, "{readable:?}");
    replace_list(scratch.path(), |mut lines| {
        // Before all others: their day is far ahead.
        readable.iter().for_each(|text| lines.insert(1, format!("9 99999 {:032x} {text}", 7)));
        lines
    });
    for threads in ["1", "4"] {
        let done = job(&device, scratch.path()).with("JOB_WARM", "1").with("KILN_PREWARM", threads).run();
        let (all, bad) = (done.fact("manifest_kernels"), done.fact("warmed_badly"));
        println!("h05: of {} odd kernels {bad} fail", readable.len());
        assert!(bad >= readable.len() as u64 / 2, "{}", done.output());
        assert!(done.fact("warmed") >= all, "all are dealt with\n{}", done.output());
        assert_eq!((done.fact("cancelled"), done.warnings(), misses_of_ours(&done)), (0, 0, 0), "{}", done.output());
    }
}
