//! How far a command goes, and how long it is waited for.

use lane_protocol::NONE;

/// How far a command goes.
#[derive(Clone, Copy)]
pub struct Limits {
    pub until_event: u64,
    pub until_thread: u64,
    pub steps_max: u64,
    pub hits_max: u64,
    /// Stop where code was mapped.
    pub stops_at_code: bool,
}

impl Limits {
    /// To the first hit.
    pub const FIRST_HIT: Limits =
        Limits { until_event: NONE, until_thread: NONE, steps_max: NONE, hits_max: 1, stops_at_code: false };
    /// Past all hits.
    pub const ALL_HITS: Limits = Limits { hits_max: NONE, ..Limits::FIRST_HIT };
}

/// What is to become of a movement that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    Wait,
    /// Let it stop at its next event.
    NextEvent,
    /// Let it stop.
    Enough,
}

/// Asked again and again while something takes long.
pub type AskPatience<'a> = &'a dyn Fn() -> Patience;

pub(crate) fn wait_unless(give_up: bool) -> Patience {
    if give_up { Patience::Enough } else { Patience::Wait }
}
