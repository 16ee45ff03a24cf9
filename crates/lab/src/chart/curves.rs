//! Curves with a common pair of axes.

use std::fmt::Write as _;

use super::{BOTTOM, COLOURS, Canvas, HEIGHT, LEFT, RIGHT, TOP, WIDTH, short};

/// What the legend beside the curves takes.
const LEGEND_WIDTH: f64 = 130.0;
const LEGEND_LINE: f64 = 15.0;
/// With more points than that, a curve has no marks.
const MAX_MARKS: usize = 12;
/// Numbers along the horizontal axis, at least.
const N_NUMBERS: usize = 4;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its label.
    pub label: String,
    /// Whether equal distances are equal factors.
    pub is_logarithmic: bool,
    /// Where it ends at the latest, if not with the data.
    pub max: Option<f64>,
}

impl Axis {
    /// A linear axis as long as the data.
    #[must_use]
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), is_logarithmic: false, max: None }
    }

    /// A logarithmic axis as long as the data.
    #[must_use]
    pub fn logarithmic(label: &str) -> Axis {
        Axis { is_logarithmic: true, ..Axis::linear(label) }
    }

    /// The same axis, cut.
    #[must_use]
    pub fn up_to(self, max: f64) -> Axis {
        Axis { max: Some(max), ..self }
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    /// Round values between two.
    fn numbers(&self, low: f64, high: f64) -> Vec<f64> {
        let steps = |step: f64| (0..).map(move |n| (low / step).ceil() * step + f64::from(n) * step);
        let within = |step: f64| steps(step).take_while(|&value| value <= high * (1.0 + 1e-9)).collect::<Vec<f64>>();
        if self.is_logarithmic {
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let decades = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
            let all: Vec<f64> = decades.filter(|value| (low..=high).contains(value)).collect();
            let is_power = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
            let powers: Vec<f64> = all.iter().copied().filter(is_power).collect();
            return if powers.len() >= N_NUMBERS { powers } else { all };
        }
        let step = 10f64.powf((high - low).log10().floor());
        let candidates = [step, step / 2.0, step / 5.0].map(within);
        candidates.into_iter().find(|numbers| numbers.len() >= N_NUMBERS).unwrap_or_default()
    }
}

/// A named row of points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Curves, the vertical axis from 0.
#[must_use]
pub fn curves(title: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let highest = points().map(|(_, value)| value).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let mut canvas = Canvas::new(title, 0.0, highest.min(y.max.unwrap_or(f64::INFINITY)));
    let extremes = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (first, last) = points().map(|(value, _)| value).fold((f64::INFINITY, f64::NEG_INFINITY), extremes);
    let right = WIDTH - RIGHT - LEGEND_WIDTH;
    let across = |value: f64| {
        let (low, high) = (x.scaled(first), x.scaled(last));
        let share = if high > low { (x.scaled(value) - low) / (high - low) } else { 0.5 };
        LEFT + (right - LEFT) * (0.03 + 0.94 * share)
    };
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let dashes = if index < COLOURS.len() { "" } else { " stroke-dasharray=\"6 3\"" };
        let line: Vec<String> =
            curve.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", across(x), canvas.y(y))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            canvas.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            line.join(" ")
        );
        for &(x, y) in curve.points.iter().filter(|_| curve.points.len() <= MAX_MARKS) {
            let (x, y) = (across(x), canvas.y(y));
            let _ = writeln!(canvas.svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let name_y = TOP + LEGEND_LINE * (index as f64 + 0.5);
        let _ = writeln!(
            canvas.svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{name_y:.1}\" y2=\"{name_y:.1}\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            right + 6.0,
            right + 26.0
        );
        canvas.text(right + 30.0, name_y + 4.0, "", &curve.name);
    }
    if last > first {
        for number in x.numbers(first, last) {
            canvas.text(across(number), HEIGHT - BOTTOM + 16.0, "text-anchor=\"middle\"", &short(number));
        }
    }
    canvas.text(LEFT + (right - LEFT) / 2.0, HEIGHT - BOTTOM + 36.0, "text-anchor=\"middle\"", &x.label);
    canvas.text(LEFT, TOP - 6.0, "text-anchor=\"start\"", &y.label);
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: Vec<(f64, f64)>) -> Curve {
        Curve { name: "a <b>".to_owned(), points }
    }

    #[test]
    fn curves_of_one_point_or_none_are_drawn() {
        let (x, y) = (Axis::logarithmic("samples"), Axis::linear("error"));
        let svg = curves("T", &x, &y, &[curve(vec![(16.0, 0.5)]), curve(vec![])]);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.contains("a &lt;b&gt;") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!curves("T", &x, &y, &[]).contains("NaN"));
    }

    #[test]
    fn what_is_beyond_a_cut_axis_is_at_its_end() {
        let cut = Axis::linear("error").up_to(30.0);
        let svg = curves("T", &Axis::linear("events"), &cut, &[curve(vec![(1.0, 10.0), (2.0, 500.0)])]);
        assert!(svg.contains(">30<") && !svg.contains(">500<"), "{svg}");
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(Axis::linear("").numbers(1000.0, 4000.0), [1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(Axis::linear("").numbers(0.0, 1.5), [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(Axis::logarithmic("").numbers(1.0, 1e4), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(Axis::logarithmic("").numbers(16.0, 1024.0), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }
}
