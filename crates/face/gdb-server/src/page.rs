//! The recording as a page: a line for each thread, what happened as points on it.

use std::collections::BTreeMap;
use std::fmt::Write;

use events::Kind;
use timeline::{Position, Timeline};

use crate::history::{Shown, for_each, name_of};
use crate::names::escaped;

const WIDTH: u64 = 1000;
const ROW: u64 = 26;
/// Most points of a thread that are drawn.
const POINTS_MAX: usize = 2000;

/// Colours of what is drawn as a point.
fn colour_of(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Signal => "#c60",
        Kind::Fault => "#c00",
        Kind::Preemption => "#888",
        Kind::Exit => "#000",
        Kind::Birth => "#090",
        _ => return None,
    })
}

struct Row {
    /// Columns in which the thread had events.
    busy: Vec<bool>,
    points: Vec<(u64, &'static str, String)>,
}

impl Row {
    fn add(&mut self, at: u64, event: &Shown) {
        self.busy[(at as usize).min(WIDTH as usize - 1)] = true;
        if let Some(colour) = colour_of(event.kind)
            && self.points.len() < POINTS_MAX
            && self.points.last().is_none_or(|(last, of, _)| (*last, *of) != (at, colour))
        {
            self.points.push((at, colour, format!("{}: {}", event.index, name_of(event))));
        }
    }
}

/// The page.
pub(crate) fn page<'a>(timeline: &Timeline, named: impl Iterator<Item = (&'a str, Position)>) -> String {
    let mut total = 0u64;
    let counted = for_each(timeline, &mut |_| total += 1);
    let mut rows: BTreeMap<u16, Row> = BTreeMap::new();
    let column =
        |event: u64| (u128::from(event.min(total)) * u128::from(WIDTH) / (u128::from(total) + 1)) as u64;
    let drawn = for_each(timeline, &mut |event: &Shown| {
        let empty = || Row { busy: vec![false; WIDTH as usize], points: Vec::new() };
        rows.entry(event.thread).or_insert_with(empty).add(column(event.index), event);
    });
    if let Err(error) = counted.and(drawn) {
        return format!("retrovane: {error}\n");
    }
    let height = ROW * (rows.len() as u64 + 2);
    let mut svg = String::new();
    for (line, (thread, row)) in rows.iter().enumerate() {
        draw_row(&mut svg, ROW * (line as u64 + 1), *thread, row);
    }
    for (name, position) in named {
        draw_line(&mut svg, column(position.event), height, "#06c", name, position);
    }
    let stop = timeline.stop();
    let present = Position { event: stop.event, steps: stop.steps };
    draw_line(&mut svg, column(stop.event), height, "#c0c", "present", present);
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Timeline</title>\
         <style>body{{font:14px sans-serif}}text{{font-size:11px}}</style>\n\
         <p>{total} events. Green: an image begins. Orange: a signal. Red: a fault. Grey: a pause. \
         Black: an exit. Lines: marks, and the present.</p>\n\
         <svg viewBox=\"-80 0 {} {height}\" width=\"100%\">\n{svg}</svg>\n",
        WIDTH + 160,
    )
}

fn draw_line(svg: &mut String, x: u64, height: u64, colour: &str, title: &str, position: Position) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{height}\" stroke=\"{colour}\"><title>{}</title></line>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        escaped(&format!("{title}: {position}")),
        x + 3,
        height - 4,
        escaped(title),
    );
}

fn draw_row(svg: &mut String, y: u64, thread: u16, row: &Row) {
    let _ = writeln!(svg, "<text x=\"-76\" y=\"{}\">thread {}</text>", y + 4, thread + 1);
    let mut start = None;
    for (x, &busy) in row.busy.iter().chain([&false]).enumerate() {
        match (busy, start) {
            (true, None) => start = Some(x),
            (false, Some(from)) => {
                let (top, width) = (y - 3, x - from);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from}\" y=\"{top}\" width=\"{width}\" height=\"6\" fill=\"#9bd\"/>"
                );
                start = None;
            }
            _ => {}
        }
    }
    for (x, colour, title) in &row.points {
        let title = escaped(title);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"><title>{title}</title></circle>"
        );
    }
}
