//! The tree of a trace's processes.

use std::collections::HashMap;

use serde_json::{Value, json};
use trace_store::{LaneInfo, NO_PARENT, TraceReader};

use super::facts::{Facts, LaneFacts};
use crate::columns::{Side, lines};
use crate::wording;

/// Widest command in the tree, in characters.
const COMMAND_CHARS_MAX: usize = 60;
/// Deeper than this the tree is not indented further.
const DEPTH_MAX: usize = 24;

/// The tree as text.
pub fn show(trace: &TraceReader, facts: &Facts) -> String {
    let lanes = trace.lanes();
    let header = ["  PID", "COMMAND", "LANE", "EVENTS", "LOG", "END"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for (position, depth) in in_tree_order(lanes) {
        rows.push(row(&lanes[position], &facts.lanes[position], depth, trace.cut().is_some()));
    }
    lines(&[Side::Left, Side::Left, Side::Right, Side::Right, Side::Right, Side::Left], &rows)
}

/// Positions of the lanes with their depth: each after its parent, children in
/// the order of their begin.
pub fn in_tree_order(lanes: &[LaneInfo]) -> Vec<(usize, usize)> {
    let known: HashMap<u32, usize> =
        lanes.iter().enumerate().map(|(position, info)| (info.lane, position)).collect();
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (position, info) in lanes.iter().enumerate() {
        let parent =
            known.get(&info.parent).copied().filter(|&parent| parent != position && info.parent != NO_PARENT);
        children.entry(parent).or_default().push(position);
    }
    let mut order = Vec::with_capacity(lanes.len());
    let mut seen = vec![false; lanes.len()];
    let mut open: Vec<(usize, usize)> =
        children.remove(&None).unwrap_or_default().into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((position, depth)) = open.pop() {
        seen[position] = true;
        order.push((position, depth));
        let below = children.remove(&Some(position)).unwrap_or_default();
        open.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
    }
    // Lanes that call each other parents hang on no root.
    order.extend((0..lanes.len()).filter(|&position| !seen[position]).map(|position| (position, 0)));
    order
}

fn row(info: &LaneInfo, facts: &LaneFacts, depth: usize, is_cut: bool) -> Vec<String> {
    let indent = "  ".repeat(depth.min(DEPTH_MAX) + 1);
    let command = match facts.images.last() {
        Some(image) => wording::command(&image.command()),
        None => "(its parent's image)".to_owned(),
    };
    let end = match (&info.end, &facts.stop) {
        (_, Some(stop)) => format!("not recorded to its end: {stop}"),
        (Some(end), None) => wording::lane_end(*end),
        (None, None) if is_cut => "cut".to_owned(),
        (None, None) => "end unknown".to_owned(),
    };
    vec![
        format!("{indent}{}", info.pid),
        wording::cut(&command, COMMAND_CHARS_MAX),
        info.lane.to_string(),
        wording::count(info.events),
        wording::bytes(info.stored_bytes),
        end,
    ]
}

/// A process as JSON.
pub fn as_json((info, facts): (&LaneInfo, &LaneFacts)) -> Value {
    let command = facts.images.last().map(|image| image.command()).unwrap_or_default();
    json!({
        "lane": info.lane,
        "parent_lane": (info.parent != NO_PARENT).then_some(info.parent),
        "pid": info.pid,
        "command": command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
        "images": facts.images.iter().map(|image| image.path.to_string_lossy()).collect::<Vec<_>>(),
        "events": info.events,
        "raw_bytes": info.raw_bytes,
        "stored_bytes": info.stored_bytes,
        "end": info.end,
        "stop": facts.stop,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(lane: u32, parent: u32) -> LaneInfo {
        LaneInfo { lane, parent, pid: 0, events: 0, chunks: 0, raw_bytes: 0, stored_bytes: 0, end: None }
    }

    #[test]
    fn children_follow_their_parent_and_no_lane_is_lost() {
        let lanes =
            [lane(0, NO_PARENT), lane(1, 0), lane(2, 1), lane(3, 0), lane(4, 5), lane(5, 4), lane(6, 99)];
        let order = in_tree_order(&lanes);
        assert_eq!(order, [(0, 0), (1, 1), (2, 2), (3, 1), (6, 0), (4, 0), (5, 0)]);
    }
}
