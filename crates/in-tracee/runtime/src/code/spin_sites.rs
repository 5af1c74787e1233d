//! Places where a thread says by itself that it waits in a loop, from where on passes count: see `spins`.

use crate::code::sites;
use crate::state::block::session;

/// The process makes a thread, or has some when the log begins, or joins others: from now on passes
/// count.
pub fn begin_counting() {
    if session().live == 0 || session().rewriting_off == 0 {
        sites::replace_spins();
    }
}
