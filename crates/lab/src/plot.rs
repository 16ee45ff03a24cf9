//! Curves as SVG and PNG.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context as _, anyhow, bail};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

/// Size of a plot in pixels.
const SIZE: (u32, u32) = (900, 560);

/// Fonts that can be used, from Debian packages; a plot in pixels cannot leave that to its reader.
const FONTS: &[&str] = &[
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
];

/// Curves with a common pair of axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What the horizontal axis has.
    pub x: Axis,
    /// What the vertical axis has.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

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

    fn scale(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    fn label_of(&self, scaled: f64) -> String {
        let value = if self.is_logarithmic { 10f64.powf(scaled) } else { scaled };
        match value.abs() {
            large if large >= 999_999.5 => format!("{} M", trimmed(value / 1e6)),
            large if large >= 9_999.5 => format!("{} k", trimmed(value / 1e3)),
            _ => trimmed(value),
        }
    }
}

/// Three digits, or all of those before the point.
fn trimmed(value: f64) -> String {
    let n_decimals = match value.abs() {
        large if large >= 100.0 => return format!("{value:.0}"),
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    let digits = format!("{value:.n_decimals$}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A named row of points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// Writes `stem.svg` and `stem.png`.
    pub fn write(&self, stem: &Path) -> anyhow::Result<()> {
        register_a_font()?;
        let [svg, png] = ["svg", "png"].map(|suffix| stem.with_extension(suffix));
        self.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .with_context(|| format!("cannot draw {}", svg.display()))?;
        self.draw(&BitMapBackend::new(&png, SIZE).into_drawing_area())
            .with_context(|| format!("cannot draw {}", png.display()))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> anyhow::Result<()> {
        let failed = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{error}");
        let (x_range, y_range) = self.ranges()?;
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x_range, y_range.clone())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|value| self.x.label_of(*value))
            .y_label_formatter(&|value| self.y.label_of(*value))
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (index, curve) in self.curves.iter().enumerate() {
            let style = Palette99::pick(index).stroke_width(2);
            let scaled = curve.points.iter().map(|&(x, y)| (self.x.scale(x), self.y.scale(y)));
            let visible: Vec<(f64, f64)> = scaled.map(|(x, y)| (x, y.clamp(y_range.start, y_range.end))).collect();
            chart
                .draw_series(LineSeries::new(visible, style))
                .map_err(failed)?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)
    }

    fn ranges(&self) -> anyhow::Result<(std::ops::Range<f64>, std::ops::Range<f64>)> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let range = |axis: &Axis, values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.map(|value| axis.scale(value)).filter(|value| value.is_finite()).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let most = most.min(axis.max.map_or(f64::INFINITY, |max| axis.scale(max)));
            let start = if axis.is_logarithmic { least } else { least.min(0.0) };
            (start.is_finite() && most > start).then_some(start..most)
        };
        let x = range(&self.x, &mut points().map(|point| point.0));
        let y = range(&self.y, &mut points().map(|point| point.1));
        match (x, y) {
            (Some(x), Some(y)) => Ok((x, y)),
            _ => bail!("`{}` has too few points to plot", self.title),
        }
    }
}

/// Once for all plots, because a font stays registered.
fn register_a_font() -> anyhow::Result<()> {
    static REGISTERED: OnceLock<Option<()>> = OnceLock::new();
    let register = || {
        let bytes = FONTS.iter().find_map(|path| fs::read(path).ok())?;
        register_font("sans-serif", FontStyle::Normal, bytes.leak()).ok()
    };
    REGISTERED.get_or_init(register).context("no font to write with; install the package fonts-dejavu-core")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let curves = vec![Curve { name: "a <b>".to_owned(), points }];
        Plot { title: "t".to_owned(), x: Axis::logarithmic("events"), y: Axis::linear("error"), curves }
    }

    #[test]
    fn both_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let stem = dir.path().join("p");
        plot(vec![(1000.0, 0.5), (20_000.0, 0.1)]).write(&stem).unwrap();
        let svg = fs::read_to_string(stem.with_extension("svg")).unwrap();
        assert!(svg.contains("polyline") && svg.contains("events"), "{svg}");
        assert!(fs::read(stem.with_extension("png")).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn nothing_to_plot_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(plot(vec![]).write(&dir.path().join("p")).is_err());
    }

    #[test]
    fn labels_are_short() {
        let axis = Axis::linear("");
        assert_eq!(
            [0.0, 0.25, 1000.0, 12_000.0, 16e6].map(|value| axis.label_of(value)),
            ["0", "0.25", "1000", "12 k", "16 M"]
        );
        assert_eq!([3.0, 4.5, 6.5].map(|scaled| Axis::logarithmic("").label_of(scaled)), ["1000", "31.6 k", "3.16 M"]);
    }
}
