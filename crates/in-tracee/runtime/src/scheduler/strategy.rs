//! What one recording with chaos does more of, and what less: drawn from its seed, for the whole
//! recording, so that each try of a hunt looks in another way.
//!
//! Most known concurrency bugs need one to three preemptions at the right places (Burckhardt et al., A
//! randomized scheduler with probabilistic guarantees of finding bugs, ASPLOS 2010). Where these are,
//! nobody knows: in the code (a place is drawn, `sampled_places`), at or behind a boundary (one is
//! drawn), or at a time (slices). What is drawn for one of them is often nothing: then the others
//! are not disturbed by it, and a try is soon over.
//!
//! All processes of a recording have the same strategy.

use crate::ground::owned::Owned;
use crate::scheduler::{chaos, own_token};

/// A choice of chance: one time in so many; 0: never.
#[derive(Clone, Copy, Default)]
pub struct OneIn(u64);

impl OneIn {
    /// Draws whether it is now.
    pub fn is_now(self) -> bool {
        self.0 != 0 && chaos::below(self.0) == 0
    }
}

#[derive(Clone, Copy, Default)]
pub struct Strategy {
    is_drawn: bool,
    /// Places in the code that are looked at, at a time.
    pub places: usize,
    /// How often a thread is preempted at these.
    pub preemptions: u32,
    /// Visits of a place that are let pass before one is not: fewer than two to this.
    pub visits_doublings: u64,
    /// At boundaries: others hold the token; for long; some steps on.
    pub yields: OneIn,
    pub stays_away: OneIn,
    pub goes_aside: OneIn,
    /// So many steps: up to 8, or twice that, and so on, so many times.
    pub aside_doublings: u64,
    /// Threads that wait end the slices of those that compute soon.
    pub slices: bool,
    /// Who was preempted comes back when nobody else runs; else after a time.
    pub until_quiet: bool,
    /// That time: fewer nanoseconds than two to this.
    pub away_doublings: u64,
    /// A new thread goes first, before the one that made it is back from the call: what it needs may be set behind.
    /// Every other try of a hunt does so.
    pub newborn_first: bool,
    /// A process that shares no memory waits at boundaries, so that others come first.
    pub delays: OneIn,
}

static STRATEGY: Owned<Strategy> = Owned::new(Strategy {
    is_drawn: false,
    places: 0,
    preemptions: 0,
    visits_doublings: 0,
    yields: OneIn(0),
    stays_away: OneIn(0),
    goes_aside: OneIn(0),
    aside_doublings: 0,
    slices: false,
    until_quiet: false,
    away_doublings: 0,
    newborn_first: false,
    delays: OneIn(0),
});

/// The recording's strategy.
pub fn strategy() -> &'static Strategy {
    // SAFETY: one thread at a time draws it, and all draw the same.
    let strategy = unsafe { &mut *STRATEGY.get() };
    if !strategy.is_drawn {
        *strategy = draw();
    }
    strategy
}

/// Nothing is left to chance but what the schedule says.
const SCHEDULED: Strategy = Strategy {
    is_drawn: true,
    places: 0,
    preemptions: u32::MAX,
    visits_doublings: 0,
    yields: OneIn(0),
    stays_away: OneIn(0),
    goes_aside: OneIn(0),
    aside_doublings: 1,
    slices: false,
    until_quiet: true,
    away_doublings: 14,
    newborn_first: false,
    delays: OneIn(0),
};

fn draw() -> Strategy {
    if own_token::is_scheduled() {
        return SCHEDULED;
    }
    let mut drawn = 0;
    let mut below = |n: u64| {
        drawn += 1;
        chaos::of_recording(drawn, n)
    };
    let one_in = |choices: &[u64], drawn: u64| OneIn(choices[drawn as usize % choices.len()]);
    // Both kinds, or one of them.
    let (by_place, by_boundary) =
        [(true, false), (true, false), (true, true), (false, true)][below(4) as usize];
    let places = if by_place { 2 << below(5) } else { 0 };
    let rarely = if by_boundary { 0 } else { 2 };
    Strategy {
        is_drawn: true,
        places,
        preemptions: 4 << below(4),
        visits_doublings: below(9),
        yields: one_in(&[2, 4, 8, 32, 64, 0], rarely + below(4)),
        stays_away: one_in(&[2, 4, 16, 32, 128, 0], rarely + below(4)),
        goes_aside: one_in(&[2, 4, 16, 64, 0, 0], rarely + below(4)),
        aside_doublings: 1 + below(9),
        slices: below(2) == 0,
        until_quiet: below(3) != 0,
        away_doublings: 14 + below(9),
        newborn_first: chaos::is_seed_odd(),
        delays: one_in(&[0, 4, 16, 64], below(4)),
    }
}
