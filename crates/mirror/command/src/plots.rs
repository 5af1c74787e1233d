//! Response and run times of each period, as the paper's figures 7 to 12 show them.

use std::path::Path;

use plotters::prelude::*;

use crate::task::Sample;

const SIZE: (u32, u32) = (900, 420);
/// Periods that are drawn.
const SHOWN_MAX: usize = 2000;

/// Parts of the periods that took no longer, as they are shown together.
pub const SHARES: [(f64, &str); 5] =
    [(0.5, "half"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (1.0, "the worst")];

/// What the periods of one scheme took, in microseconds, for each of [`SHARES`].
pub type Shares = (&'static str, [f64; SHARES.len()]);

/// Draws all schemes together: how long the periods are that each delays most.
pub fn draw_together(folder: &Path, title: &str, schemes: &[Shares]) -> Result<(), String> {
    const COLOURS: [RGBColor; 5] = [
        RGBColor(0, 90, 181),
        RGBColor(220, 50, 32),
        RGBColor(230, 160, 0),
        RGBColor(0, 140, 90),
        RGBColor(120, 70, 150),
    ];
    let path = folder.join("mirror-pauses.svg");
    let failed = |error: &dyn std::fmt::Display| format!("{} cannot be drawn: {error}", path.display());
    let values = || schemes.iter().flat_map(|(_, values)| *values);
    let (low, high) = (values().fold(f64::MAX, f64::min) / 1.5, values().fold(0.0, f64::max) * 2.0);
    let root = SVGBackend::new(&path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(80)
        .build_cartesian_2d(-0.2..SHARES.len() as f64 - 0.8, (low..high).log_scale())
        .map_err(|error| failed(&error))?;
    let label = |x: &f64| {
        let is_whole = (x - x.round()).abs() < 0.01;
        let share = SHARES.get(x.round().max(0.0) as usize).filter(|_| is_whole);
        share.map_or(String::new(), |share| share.1.into())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(SHARES.len() + 1)
        .x_label_formatter(&label)
        .x_desc("of the periods took at most")
        .y_desc("microseconds")
        .draw()
        .map_err(|error| failed(&error))?;
    for ((name, values), colour) in schemes.iter().zip(COLOURS) {
        let points = values.iter().enumerate().map(|(index, value)| (index as f64, *value));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))
            .map_err(|error| failed(&error))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
        .map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))
}

/// A curve: its name, its colour, and what it shows of a period.
type Curve = (&'static str, RGBColor, fn(Sample) -> f64);

/// Draws one run: two curves over its periods.
pub fn draw(folder: &Path, name: &str, title: &str, samples: &[Sample]) -> Result<(), String> {
    let path = folder.join(format!("mirror-{name}.svg"));
    let failed = |error: &dyn std::fmt::Display| format!("{} cannot be drawn: {error}", path.display());
    let shown = &samples[..samples.len().min(SHOWN_MAX)];
    let top = shown.iter().map(|sample| sample.total()).fold(100.0, f64::max) * 1.05;
    let root = SVGBackend::new(&path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(70)
        .build_cartesian_2d(0..shown.len(), 0.0..top)
        .map_err(|error| failed(&error))?;
    chart.configure_mesh().x_desc("period").y_desc("microseconds").draw().map_err(|error| failed(&error))?;
    let curves: [Curve; 2] = [
        ("response", RGBColor(0, 90, 181), |sample| sample.response),
        ("run", RGBColor(220, 50, 32), |sample| sample.run),
    ];
    for (label, colour, value) in curves {
        let points = shown.iter().enumerate().map(|(index, sample)| (index, value(*sample)));
        chart
            .draw_series(LineSeries::new(points, colour))
            .map_err(|error| failed(&error))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    chart.configure_series_labels().border_style(BLACK).draw().map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))
}
