//! The chart of docs/first-call.md: bars of a row each, without caches, with them, and after a warm-up.

use std::fmt::Write;

use crate::columns::Column;
use crate::rows::Row;
use crate::samples::Measured;
use crate::statistics::median;

/// What a bar shows.
struct Kind {
    column: Column,
    figure: &'static str,
    words: &'static str,
    colour: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        column: Column::Bare,
        figure: "process",
        words: "by hand with wgpu, the driver's cache on",
        colour: "#888888",
    },
    Kind { column: Column::Cold, figure: "process", words: "process, caches off", colour: "#c9622b" },
    Kind { column: Column::Both, figure: "process", words: "process, caches on", colour: "#2b7bc9" },
    Kind { column: Column::Prewarmed, figure: "call", words: "the call alone, after a warm-up", colour: "#2e8b57" },
];

/// Pixels.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 78.0;
const BAR: f64 = 14.0;
const GAP: f64 = 8.0;

/// The chart as SVG.
pub(crate) fn draw(measured: &Measured) -> String {
    let bars = bars(measured);
    // A compile that takes much longer than everything else is cut off.
    let cached = bars.iter().filter(|bar| bar.kind.column != Column::Cold).map(|bar| bar.ms).fold(1.0, f64::max);
    let longest = bars.iter().map(|bar| bar.ms).fold(1.0, f64::max);
    let end = longest.min((cached * 3.0 / 50.0).ceil() * 50.0);
    let scale = (WIDTH - LEFT - RIGHT) / end;
    let height = TOP + bars.len() as f64 * BAR + measured.rows().len() as f64 * GAP + 34.0;
    let mut svg = String::new();
    let mut lines = Lines(&mut svg);
    lines.head(height, measured.device.split(';').next().unwrap_or_default());
    let (mut at, mut row) = (TOP - GAP, None);
    for bar in &bars {
        if row != Some(bar.row) {
            row = Some(bar.row);
            at += GAP;
            lines.text(LEFT - 8.0, at + 11.0, "end", bar.row.name());
        }
        let long = bar.ms.min(end) * scale;
        lines.bar(LEFT, at, long.max(1.0), bar.kind.colour);
        if bar.ms > end {
            let (x, y) = (LEFT + long - 20.0, at + 16.0);
            lines.add(format_args!(r##"<path d="M{x:.1} {y:.1} l6 -20" stroke="#ffffff" stroke-width="3"/>"##));
        }
        lines.text(LEFT + long + 6.0, at + 10.5, "start", &figure(bar.ms));
        at += BAR;
    }
    // Of the row where it took least: rows may be measured one after the other, on machines that are not equally fast.
    let opened = measured.rows().into_iter().map(|row| measured.figures(row, Column::Both, "open"));
    let opened = opened.filter(|times| !times.is_empty()).map(|times| median(&times)).reduce(f64::min);
    if let Some(opened) = opened {
        let (x, foot) = (LEFT + opened * scale, at + 8.0);
        lines.add(format_args!(
            r##"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{foot:.1}" stroke="#333333" stroke-dasharray="4 3"/>"##
        ));
        let words = format!("{}: loading the driver and opening the device", figure(opened));
        lines.text(x.clamp(180.0, WIDTH - 180.0), at + 22.0, "middle", &words);
    }
    lines.add(format_args!("</svg>"));
    svg
}

struct Bar {
    row: Row,
    kind: &'static Kind,
    ms: f64,
}

/// The bars of which there are samples, from top to bottom.
fn bars(measured: &Measured) -> Vec<Bar> {
    let of = |row: Row| {
        KINDS.iter().filter_map(move |kind| {
            let figures = measured.figures(row, kind.column, kind.figure);
            (!figures.is_empty()).then(|| Bar { row, kind, ms: median(&figures) })
        })
    };
    measured.rows().into_iter().flat_map(of).collect()
}

/// Milliseconds, whole ones from ten on.
fn figure(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;")
}

/// The text that grows.
struct Lines<'a>(&'a mut String);

impl Lines<'_> {
    /// What stands above the bars.
    fn head(&mut self, height: f64, device: &str) {
        let title = format!("Process start to first result in ms, {}", escaped(device));
        self.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
        ));
        self.add(format_args!("<title>{title}</title>"));
        self.add(format_args!(r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##));
        self.text(16.0, 22.0, "start", &title);
        for (kind, place) in KINDS.iter().zip(0..) {
            let (x, y) = (16.0 + f64::from(place % 2) * 330.0, 34.0 + f64::from(place / 2) * 17.0);
            self.bar(x, y, 12.0, kind.colour);
            self.text(x + 18.0, y + 10.5, "start", &escaped(kind.words));
        }
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        // A `String` refuses nothing.
        let _ = writeln!(self.0, "{line}");
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, words: &str) {
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#));
    }

    fn bar(&mut self, x: f64, y: f64, width: f64, colour: &str) {
        let height = BAR - 2.0;
        self.add(format_args!(r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" fill="{colour}"/>"#));
    }
}
