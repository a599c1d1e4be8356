//! The tables, and the lines at the end that a program can read.

use crate::child::LATER;
use crate::columns::Column;
use crate::rows::{N, Row};
use crate::samples::Measured;
use crate::statistics::{interval, median, p95};

/// Phases of opening and of the call.
const PHASES: [&str; 11] =
    ["open", "instance", "adapter", "device", "upload", "render", "naga", "pipeline", "record", "dispatch", "readback"];

/// Phases in which kernels are made.
const MADE: [&str; 3] = ["render", "naga", "pipeline"];

/// Ratios of the pairs: what is compared, in which columns, by which figure.
const COMPARED: [(&str, [Column; 2], &str); 5] = [
    ("process, caches / bare", [Column::Both, Column::Bare], "process"),
    ("process, racing / bare", [Column::Racing, Column::Bare], "process"),
    ("call, caches / bare", [Column::Both, Column::Bare], "call"),
    ("call, racing / bare", [Column::Racing, Column::Bare], "call"),
    ("opening, prewarm on / off", [Column::Racing, Column::Both], "open"),
];

/// Prints all tables.
pub(crate) fn print(measured: &Measured) {
    println!("{}; {N} f32; times in ms", measured.device);
    totals(measured);
    phases(measured);
    pairs(measured);
    let worst = prewarmed_to_later(measured);
    let program = measured.rows().contains(&Row::Program).then(|| kernels(measured));
    println!();
    for (later, ratio) in LATER.iter().zip(worst) {
        if let Some(ratio) = ratio {
            say(&format!("prewarmed/{}", later.name), ratio);
        }
    }
    let paired = |[over, under]: [Column; 2], name| {
        let ratios = measured.ratios(Row::Vadd, [over, under], name);
        (!ratios.is_empty()).then(|| median(&ratios))
    };
    if let Some(ratio) = paired([Column::Both, Column::Bare], "process") {
        say("total/bare", ratio);
    }
    if let Some(ratio) = paired([Column::Racing, Column::Bare], "call") {
        say("racing/bare", ratio);
    }
    if let Some((cached, threads)) = program {
        say("cached/cold", cached);
        say("threads8/threads1", threads);
    }
    if let Some(ratio) = paired([Column::Racing, Column::Both], "open") {
        say("opening on/off", ratio);
    }
}

fn say(what: &str, ratio: f64) {
    println!("first_kernel {what} {ratio:.3}");
}

/// Process and call, median and 95th of 100.
fn totals(measured: &Measured) {
    println!(
        "\n{:<8} {:<12} {:>5} {:>10} {:>9} {:>10} {:>9} {:>10} {:>9} {:>9} {:>8} {:>7}",
        "row", "column", "n", "process", "p95", "main", "p95", "call", "p95", "warm-up", "kernels", "cached"
    );
    for row in measured.rows() {
        for column in Column::ALL {
            let samples = measured.of(row, column).len();
            if samples == 0 {
                continue;
            }
            let of = |name: &str| measured.figures(row, column, name);
            let line = format!("{:<8} {:<13} {samples:>4}", row.name(), column.name());
            let times = ["process", "main", "call"].map(|name| two(&of(name)));
            println!(
                "{line} {} {} {}",
                times.join(" "),
                one(&of("warm"), 9, 3),
                format_args!("{} {}", one(&of("kernels"), 8, 0), one(&of("cached"), 7, 0))
            );
            if column == Column::Prewarmed {
                let none = two(&[]);
                for later in LATER {
                    let calls = two(&of(&format!("{}.call", later.name)));
                    println!("{:<8} {:<13} {samples:>4} {none} {none} {calls}", row.name(), later.name);
                }
            }
        }
    }
}

/// The median of each phase.
fn phases(measured: &Measured) {
    print!("\n{:<8} {:<13}", "row", "column");
    PHASES.iter().for_each(|name| print!(" {name:>9}"));
    println!();
    for row in measured.rows() {
        for column in Column::ALL {
            if measured.figures(row, column, "open").is_empty() {
                continue;
            }
            print!("{:<8} {:<13}", row.name(), column.name());
            PHASES.iter().for_each(|name| print!(" {}", one(&measured.figures(row, column, name), 9, 3)));
            println!();
            if column == Column::Prewarmed {
                for later in LATER {
                    print!("{:<8} {:<13}", row.name(), later.name);
                    let of = |name: &str| measured.figures(row, column, &format!("{}.{name}", later.name));
                    PHASES.iter().for_each(|name| print!(" {}", one(&of(name), 9, 3)));
                    println!();
                }
            }
        }
    }
}

/// Ratios pair by pair.
fn pairs(measured: &Measured) {
    let rows: Vec<Row> = measured.rows().into_iter().filter(|row| row.has_bare()).collect();
    if rows.is_empty() {
        return;
    }
    println!(
        "\n{:<8} {:<26} {:>5} {:>10} {:>10} {:>8}  {:<16}",
        "row", "pairs", "n", "over", "under", "ratio", "95 % of medians"
    );
    for row in rows {
        for (what, [over, under], name) in COMPARED {
            let ratios = measured.ratios(row, [over, under], name);
            let (low, high) = interval(&ratios);
            println!(
                "{:<8} {what:<26} {:>5} {:>10.3} {:>10.3} {:>8.3}  {low:.3} to {high:.3}",
                row.name(),
                ratios.len(),
                median(&measured.figures(row, over, name)),
                median(&measured.figures(row, under, name)),
                median(&ratios),
            );
        }
    }
}

/// How long the kernels of the program take to make; the ratios cached to cold, and eight threads to one.
fn kernels(measured: &Measured) -> (f64, f64) {
    let late = measured.software;
    let phases: Vec<&str> = MADE.into_iter().chain(late.then_some("dispatch")).collect();
    println!("\nkernels of the program: {}", phases.join(" + "));
    let made = |column| {
        let samples = measured.of(Row::Program, column).iter();
        let times: Vec<f64> = samples.filter_map(|figures| figures.sum(&phases)).collect();
        println!("{:<12} {}", Column::name(column), two(&times));
        median(&times)
    };
    let [cold, kiln, both] = [Column::Cold, Column::Kiln, Column::Both].map(made);
    println!("ratios to cold: {:.3} with Kiln's cache, {:.3} with the driver's too", kiln / cold, both / cold);
    println!("\nkernels of the program, rehearsed without caches");
    let [one, eight] = [Column::OneThread, Column::EightThreads].map(|column| {
        let times = measured.figures(Row::Program, column, "warm");
        println!("{:<12} {}", Column::name(column), two(&times));
        median(&times)
    });
    // Where the driver keeps nothing for Kiln, its own files are part of the cache.
    (if late { both } else { kiln } / cold, eight / one)
}

/// The first call after a warm-up to later ones of each kind, row by row; returns the worst of each.
fn prewarmed_to_later(measured: &Measured) -> [Option<f64>; LATER.len()] {
    print!("\n{:<8}", "row");
    LATER.iter().for_each(|later| print!(" {:>24}", format!("prewarmed/{}", later.name)));
    println!();
    let mut worst = [None; LATER.len()];
    for row in measured.rows() {
        print!("{:<8}", row.name());
        let of = |name: &str| median(&measured.figures(row, Column::Prewarmed, name));
        for (later, worst) in LATER.iter().zip(&mut worst) {
            let ratio = of("call") / of(&format!("{}.call", later.name));
            print!(" {ratio:>24.3}");
            *worst = Some(worst.map_or(ratio, |known: f64| known.max(ratio)));
        }
        println!();
    }
    worst
}

/// Median and 95th of 100; dashes where there is nothing.
fn two(times: &[f64]) -> String {
    if times.is_empty() {
        format!("{:>10} {:>9}", "-", "-")
    } else {
        format!("{:>10.3} {:>9.3}", median(times), p95(times))
    }
}

/// The median; a dash where there is nothing.
fn one(figures: &[f64], width: usize, digits: usize) -> String {
    if figures.is_empty() { format!("{:>width$}", "-") } else { format!("{:>width$.digits$}", median(figures)) }
}
