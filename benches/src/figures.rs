//! Curves to be drawn, each figure beside one of the paper's (Flashback, USENIX ATC 2004).
//!
//! The paper's text gives numbers for some figures only: these are curves of their own.

use serde::Serialize;

/// What an axis counts, and whether each of its steps is ten times the one before.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    pub label: &'static str,
    pub is_log: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// The paper's, or a limit of its machine.
    pub is_papers: bool,
}

impl Curve {
    pub fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.into(), points, is_papers: false }
    }

    pub fn of_paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.into(), points, is_papers: true }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Of the file, without its ending.
    pub name: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
}

pub const fn linear(label: &'static str) -> Axis {
    Axis { label, is_log: false }
}

pub const fn log(label: &'static str) -> Axis {
    Axis { label, is_log: true }
}
