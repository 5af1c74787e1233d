//! Response and run times of each period, as the paper's figures 7 to 12 show them.

use std::path::Path;

use plotters::prelude::*;

use crate::task::Sample;

const SIZE: (u32, u32) = (900, 420);
/// Periods that are drawn.
const SHOWN_MAX: usize = 2000;

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
