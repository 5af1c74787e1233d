//! Figures as SVG files.

use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::figures::{Axis, Figure};

const SIZE: (u32, u32) = (1000, 560);
/// What is left of it for the chart; the rest is for the names of curves.
const CHART_WIDTH: u32 = 720;
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 128, 80),
    RGBColor(230, 140, 0),
    RGBColor(120, 60, 160),
    RGBColor(90, 90, 90),
    RGBColor(0, 150, 170),
    RGBColor(150, 100, 60),
];

/// A scale that is linear or counts in powers of ten.
struct Scale {
    start: f64,
    end: f64,
    is_log: bool,
}

impl Scale {
    /// Room for all values; a logarithmic one has none for 0 and less.
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let usable = values.filter(|value| value.is_finite() && (*value > 0.0 || !axis.is_log));
        let (least, most) =
            usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
        let (start, end) = match (least <= most, axis.is_log) {
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
            (true, true) => (10f64.powf(least.log10().floor()), 10f64.powf((most.log10() + 0.01).ceil())),
            (true, false) => (least.min(0.0), if most > 0.0 { most * 1.05 } else { 1.0 }),
        };
        Scale { start, end, is_log: axis.is_log }
    }

    fn has(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || !self.is_log)
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if self.is_log { value.log10() } else { value };
        let part = (place(*value) - place(self.start)) / (place(self.end) - place(self.start));
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if !self.is_log {
            return RangedCoordf64::from(self.start..self.end).key_points(hint);
        }
        let (first, last) = (self.start.log10().round() as i32, self.end.log10().round() as i32);
        (first..=last).map(|power| 10f64.powi(power)).collect()
    }

    fn range(&self) -> Range<f64> {
        self.start..self.end
    }
}

/// A number as an axis shows it.
fn label(value: &f64) -> String {
    match *value {
        value if value.abs() >= 1e6 => format!("{}M", value / 1e6),
        value if value.abs() >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

/// The figure as the text of an SVG file.
pub fn svg(figure: &Figure) -> Result<String, String> {
    let mut text = String::new();
    draw(figure, SVGBackend::with_string(&mut text, SIZE).into_drawing_area())
        .map_err(|error| format!("{}: {error}", figure.name))?;
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(figure: &Figure, area: Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let all = || figure.curves.iter().flat_map(|curve| curve.points.iter());
    let x = Scale::of(&figure.x, all().map(|point| point.0));
    let y = Scale::of(&figure.y, all().map(|point| point.1));
    let is_shown = |point: &(f64, f64)| x.has(point.0) && y.has(point.1);
    let curves: Vec<Vec<(f64, f64)>> =
        figure.curves.iter().map(|curve| curve.points.iter().copied().filter(is_shown).collect()).collect();
    let (chart_area, names_area) = area.split_horizontally(CHART_WIDTH);
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(&figure.title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(figure.x.label)
        .y_desc(figure.y.label)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .draw()?;
    for (index, (curve, points)) in figure.curves.iter().zip(curves).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let style = colour.stroke_width(2);
        if curve.is_papers {
            chart.draw_series(DashedLineSeries::new(points, 6, 5, style))?;
        } else {
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
            chart.draw_series(LineSeries::new(points, style))?;
        }
        let y = 60 + 24 * index as i32;
        let pieces: &[(i32, i32)] = if curve.is_papers { &[(4, 11), (15, 22)] } else { &[(4, 22)] };
        for &(start, end) in pieces {
            names_area.draw(&PathElement::new([(start, y), (end, y)], style))?;
        }
        names_area.draw(&Text::new(curve.name.as_str(), (30, y - 6), ("sans-serif", 13)))?;
    }
    area.present()?;
    Ok(())
}

/// Writes each figure to a file of the directory.
pub fn write(directory: &Path, figures: &[Figure]) -> Result<(), String> {
    let cannot = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(directory).map_err(|error| cannot(directory, error))?;
    for figure in figures {
        let path = directory.join(format!("{}.svg", figure.name));
        fs::write(&path, svg(figure)?).map_err(|error| cannot(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Curve, linear, log};

    fn figure(x: Axis, y: Axis) -> Figure {
        let measured = vec![(4.0, 25.0), (4096.0, 90.0), (409_600.0, 1600.0)];
        Figure {
            name: "figure".to_owned(),
            title: "Checkpoints < 1 ms & more".to_owned(),
            x,
            y,
            curves: vec![
                Curve::measured("checkpoint \"first\"", measured),
                Curve::of_paper("paper", vec![(4.0, 28.0), (409_600.0, 7500.0)]),
            ],
        }
    }

    /// Fails unless each element that begins also ends, in order, and texts and attributes
    /// have no character that would begin another; gives the elements' names.
    fn elements(text: &str) -> Vec<String> {
        let (mut open, mut all) = (Vec::new(), Vec::new());
        let mut pieces = text.split('<');
        assert_eq!(pieces.next(), Some(""), "text before the first element");
        for piece in pieces {
            let (tag, after) = piece.split_once('>').expect("a tag ends");
            assert!(!after.contains('>'), "a tag ends twice: {piece}");
            for entity in piece.split('&').skip(1) {
                let name = entity.split(';').next().expect("a split has a first part");
                assert!(["lt", "gt", "amp", "quot", "apos", "#39"].contains(&name), "no entity: {entity}");
            }
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "{name} ends");
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "an attribute does not end: {tag}");
            let name = tag.split([' ', '/']).next().expect("a split has a first part").to_owned();
            if !tag.ends_with('/') {
                open.push(name.clone());
            }
            all.push(name);
        }
        assert!(open.is_empty(), "not ended: {open:?}");
        all
    }

    #[test]
    fn a_figure_is_well_formed_svg_with_all_of_its_points() {
        for figure in [figure(log("KB"), log("us")), figure(linear("KB"), linear("us"))] {
            let text = svg(&figure).expect("it is drawn");
            let names = elements(&text);
            assert_eq!(names[0], "svg");
            assert_eq!(names.iter().filter(|name| *name == "svg").count(), 1);
            assert_eq!(names.iter().filter(|name| *name == "circle").count(), 3);
            assert!(text.contains("Checkpoints &lt; 1 ms &amp; more"), "{text}");
            assert!(text.contains("paper"));
        }
    }

    #[test]
    fn points_stand_where_their_scale_has_them() {
        let scale = Scale::of(&log("x"), [10.0, 900.0].into_iter());
        assert_eq!((scale.start, scale.end), (10.0, 1000.0));
        assert_eq!(scale.map(&10.0, (0, 200)), 0);
        assert_eq!(scale.map(&100.0, (0, 200)), 100);
        assert_eq!(scale.map(&1000.0, (200, 0)), 0);
        let scale = Scale::of(&linear("x"), [10.0, 100.0].into_iter());
        assert_eq!((scale.start, scale.end), (0.0, 105.0));
    }

    #[test]
    fn nothing_measured_and_nothing_positive_is_drawn_too() {
        let mut figure = figure(log("KB"), log("us"));
        figure.curves[0].points = vec![(1.0, 0.0), (2.0, f64::NAN), (3.0, -1.0)];
        figure.curves[1].points.clear();
        elements(&svg(&figure).expect("it is drawn"));
        figure.curves.clear();
        elements(&svg(&figure).expect("it is drawn"));
    }

    #[test]
    fn files_are_named_for_their_figures() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = folder.path().join("plots");
        write(&inside, &[figure(log("KB"), linear("us"))]).expect("it is written");
        let text = fs::read_to_string(inside.join("figure.svg")).expect("it is there");
        assert_eq!(elements(&text)[0], "svg");
    }
}
