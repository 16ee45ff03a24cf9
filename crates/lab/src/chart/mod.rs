//! Plots as SVG: bars by program with a line at the target, and [`curves`].
//!
//! A plot is text without scripts, fonts or links, so that it can be put into a page, a document or
//! a repository. Colours are readable on light and dark ground. [`save`] writes it as a picture,
//! too.

mod curves;

use std::fmt::Write as _;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
pub use curves::{Axis, Curve, curves};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 70.0;
const COLOURS: [&str; 6] = ["#3b7dd8", "#d8733b", "#3ba55d", "#a05bd0", "#c0a020", "#808080"];

/// Pixels of a picture for each unit of a plot.
const ZOOM: &str = "1.5";

/// Writes a plot to `stem` with `.svg`, and with `.png` on white ground.
pub fn save(stem: &Path, svg: &str) -> anyhow::Result<()> {
    let [plot, picture] = ["svg", "png"].map(|extension| {
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        std::path::PathBuf::from(path)
    });
    std::fs::write(&plot, svg).with_context(|| format!("cannot write {}", plot.display()))?;
    let status = Command::new("rsvg-convert")
        .args(["--zoom", ZOOM, "--background-color", "white", "--output"])
        .args([&picture, &plot])
        .status()
        .context("cannot run rsvg-convert; install the package librsvg2-bin")?;
    ensure!(status.success(), "rsvg-convert cannot draw {}", plot.display());
    Ok(())
}

/// The frame of a plot: where figures are drawn.
struct Canvas {
    svg: String,
    low: f64,
    high: f64,
}

impl Canvas {
    fn new(title: &str, low: f64, high: f64) -> Canvas {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\" \
             fill=\"#808080\">\n<text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{}</text>\n",
            escaped(title)
        );
        let high = if high > low { high } else { low + 1.0 };
        let canvas = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (value - low) / (high - low));
        const N_LINES: usize = 5;
        for index in 0..=N_LINES {
            let value = low + (high - low) * index as f64 / N_LINES as f64;
            let y = canvas(value);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#808080\" stroke-opacity=\"0.3\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value)
            );
        }
        Canvas { svg, low, high }
    }

    fn y(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (value - self.low) / (self.high - self.low))
    }

    fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let _ = writeln!(self.svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escaped(text));
    }

    fn legend(&mut self, names: &[&str]) {
        let mut x = WIDTH - RIGHT;
        for (index, name) in names.iter().enumerate().rev() {
            let colour = COLOURS[index % COLOURS.len()];
            self.text(x, 16.0, &format!("text-anchor=\"end\" fill=\"{colour}\""), name);
            x -= 7.0 * name.chars().count() as f64 + 14.0;
        }
    }

    fn target(&mut self, target: Option<f64>) {
        let Some(target) = target else { return };
        let y = self.y(target);
        let _ = writeln!(
            self.svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#c02020\" stroke-dasharray=\"5 3\"/>",
            WIDTH - RIGHT
        );
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// Bars side by side: for each label one of each series. The vertical axis goes from `low` to the
/// largest value.
#[must_use]
pub fn bars(title: &str, labels: &[String], series: &[(&str, Vec<f64>)], low: f64, target: Option<f64>) -> String {
    let values = series.iter().flat_map(|(_, values)| values.iter().copied()).chain(target);
    let mut canvas = Canvas::new(title, low, values.fold(low, f64::max));
    let slot = (WIDTH - LEFT - RIGHT) / labels.len().max(1) as f64;
    let width = 0.8 * slot / series.len().max(1) as f64;
    for (index, (_, values)) in series.iter().enumerate() {
        for (position, &value) in values.iter().enumerate() {
            let x = LEFT + slot * (position as f64 + 0.1) + width * index as f64;
            let y = canvas.y(value);
            let colour = COLOURS[index % COLOURS.len()];
            let height = (canvas.y(low) - y).max(0.0);
            let _ = writeln!(
                canvas.svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
            );
        }
    }
    for (position, label) in labels.iter().enumerate() {
        let (x, y) = (LEFT + slot * (position as f64 + 0.5), HEIGHT - BOTTOM + 12.0);
        let turned = format!("text-anchor=\"end\" transform=\"rotate(-40 {x:.1} {y:.1})\"");
        canvas.text(x, y, &turned, label);
    }
    canvas.target(target);
    canvas.legend(&series.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    canvas.finish()
}

/// Text that may stand in a page.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number of few digits.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 999_999.5 => format!("{} M", trimmed(value / 1e6)),
        large if large >= 9_999.5 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let n_decimals = if value != 0.0 && value.abs() < 0.1 { 3 } else { 2 };
    let text = format!("{value:.n_decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bar_and_every_label_is_there() {
        let labels = ["gzip", "a<b"].map(str::to_owned);
        let svg = bars("T", &labels, &[("x", vec![1.0, 2.0]), ("y", vec![0.5, 9.0])], 0.0, Some(1.5));
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("a&lt;b") && svg.contains("stroke-dasharray"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn bars_of_nothing_are_an_empty_frame() {
        assert!(!bars("T", &[], &[], 0.0, None).contains("NaN"));
    }

    #[test]
    fn numbers_lose_their_zeros() {
        let values = [0.0, 0.025, 1.5, 98.25, 1000.0, 12_000.0, 16e6];
        assert_eq!(values.map(short), ["0", "0.025", "1.5", "98.25", "1000", "12 k", "16 M"]);
    }
}
