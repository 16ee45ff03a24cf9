//! Plots as SVG: bars by program with a line at the target, and curves.
//!
//! A plot is text without scripts, fonts or links, so that it can be put into a page, a document or a repository. Colours are readable on
//! light and dark ground.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 70.0;
const COLOURS: [&str; 6] = ["#3b7dd8", "#d8733b", "#3ba55d", "#a05bd0", "#c0a020", "#808080"];

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

/// Bars side by side: for each label one of each series. The vertical axis goes from `low` to the largest value.
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

/// Curves over a logarithmic horizontal axis.
#[must_use]
pub fn curves(title: &str, x_label: &str, series: &[(&str, Vec<(f64, f64)>)], low: f64, target: Option<f64>) -> String {
    let points = || series.iter().flat_map(|(_, points)| points.iter().copied());
    let mut canvas = Canvas::new(title, low, points().map(|(_, y)| y).chain(target).fold(low, f64::max));
    let (first, last) =
        points().fold((f64::INFINITY, 1.0), |(first, last): (f64, f64), (x, _)| (first.min(x), last.max(x)));
    let (first, last) = (first.max(f64::MIN_POSITIVE).ln(), last.ln());
    let across = |x: f64| {
        let share = if last > first { (x.max(f64::MIN_POSITIVE).ln() - first) / (last - first) } else { 0.5 };
        LEFT + (WIDTH - LEFT - RIGHT) * (0.03 + 0.94 * share)
    };
    for (index, (_, points)) in series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line: Vec<String> = points.iter().map(|&(x, y)| format!("{:.1},{:.1}", across(x), canvas.y(y))).collect();
        let _ = writeln!(
            canvas.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for &(x, y) in points {
            let (x, y) = (across(x), canvas.y(y));
            let _ = writeln!(canvas.svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
    let mut marks: Vec<f64> = points().map(|(x, _)| x).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    for x in marks {
        canvas.text(across(x), HEIGHT - BOTTOM + 16.0, "text-anchor=\"middle\"", &short(x));
    }
    canvas.text(LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - BOTTOM + 36.0, "text-anchor=\"middle\"", x_label);
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
    let text = format!("{value:.2}");
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
    fn curves_of_one_point_or_none_are_drawn() {
        let svg = curves("T", "samples", &[("x", vec![(16.0, 0.5)]), ("none", vec![])], 0.0, None);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!bars("T", &[], &[], 0.0, None).contains("NaN"));
    }

    #[test]
    fn numbers_lose_their_zeros() {
        assert_eq!([0.0, 1.5, 98.25, 1000.0].map(short), ["0", "1.5", "98.25", "1000"]);
    }
}
