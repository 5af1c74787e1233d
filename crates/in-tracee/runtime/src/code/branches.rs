//! The branch at the end of a loop that waits (see the recipes of `sites`): where it leads, and whether it
//! is taken. Only rounds that go on are passes.

use lane_protocol::site_kind;
use runtime_logic::branches::Branch;

use crate::state::patched_code::Site;

impl Site {
    /// The branch that stands there, if one does.
    pub fn branch(&self) -> Option<Branch> {
        let is_loop = self.kind == site_kind::IDLE_LOOP;
        is_loop.then(|| Branch::of(self.address, [self.own[0], self.own[1]])).flatten()
    }

    /// Where the program goes on with these flags; `None`: a branch that stands there is not taken.
    pub fn next_round(&self, flags: u64) -> Option<u64> {
        match self.branch() {
            Some(branch) => branch.is_taken(flags).then_some(branch.target),
            None => Some(self.behind()),
        }
    }
}
