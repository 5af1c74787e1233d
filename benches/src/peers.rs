//! Other tools on the same work: one run each, because most of them are slow
//! enough that a round of theirs would outlast all of ours.
//!
//! Deliberately absent: gdb's own `record`. It knows no `rdtscp`, which the vDSO's clock_gettime(2) has, and with
//! that call every micro row measures itself; larger programs use vector instructions that it does not know.

use std::ffi::OsString;

use serde::Serialize;

use crate::limited::PEER_TIME_MAX;
use crate::rows::{Row, Work};
use crate::session::{Ready, Session, is_installed};

#[derive(Debug, Serialize)]
pub struct PeerResult {
    pub peer: &'static str,
    /// Times the native run, or why there is none.
    pub ratio: Result<f64, String>,
}

struct Peer {
    name: &'static str,
    program: &'static str,
    before: &'static [&'static str],
}

const PEERS: &[Peer] = &[
    Peer { name: "strace -f", program: "strace", before: &["-f", "-o", "/dev/null"] },
    Peer { name: "rr record", program: "rr", before: &["record", "-n"] },
    Peer { name: "valgrind none", program: "valgrind", before: &["-q", "--tool=none"] },
];

pub fn measure_peers(session: &Session, row: &Row, ready: &Ready, native_s: f64) -> Vec<PeerResult> {
    PEERS
        .iter()
        .filter(|peer| is_installed(peer.program))
        .filter(|_| !matches!(row.work, Work::Server(_)))
        .map(|peer| PeerResult { peer: peer.name, ratio: ratio(session, row, ready, native_s, peer) })
        .collect()
}

fn ratio(session: &Session, row: &Row, ready: &Ready, native_s: f64, peer: &Peer) -> Result<f64, String> {
    let mut argv: Vec<OsString> = vec![peer.program.into()];
    argv.extend(peer.before.iter().map(OsString::from));
    match row.work {
        Work::Micro { count, quick_count, peer_count, .. } => {
            let own_count = if session.quick { quick_count } else { count };
            argv.extend([ready.argv[0].clone(), peer_count.to_string().into()]);
            let taken = session.timed_within(ready, &argv, PEER_TIME_MAX)?;
            if own_count == 1 {
                return Ok(taken.wall.as_secs_f64() / native_s);
            }
            let inner = taken.inner.ok_or("the program did not end normally")?;
            Ok((inner.as_secs_f64() / peer_count as f64) / (native_s / own_count as f64))
        }
        Work::Shell { .. } | Work::Server(_) => {
            argv.extend(ready.argv.iter().cloned());
            Ok(session.timed_within(ready, &argv, PEER_TIME_MAX)?.wall.as_secs_f64() / native_s)
        }
    }
}
