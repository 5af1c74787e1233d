//! A thread that computes without a call keeps all of its lab from going on (docs/adr/0059): that is said.

use std::time::Duration;

/// How long a thread may compute before it is said.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Told the number of a node that stops all others.
pub type SilenceNotice = Box<dyn FnMut(usize) + Send>;

/// Who is told, and of which nodes it was.
#[derive(Default)]
pub struct Silence {
    notice: Option<SilenceNotice>,
    told: Vec<usize>,
}

impl Silence {
    pub fn new(notice: Option<SilenceNotice>) -> Silence {
        Silence { notice, told: Vec::new() }
    }

    /// A thread of this node has computed for [`SILENCE`]: said once of each node.
    pub fn tell(&mut self, node: usize) {
        if let Some(notice) = &mut self.notice
            && !self.told.contains(&node)
        {
            self.told.push(node);
            notice(node);
        }
    }
}
