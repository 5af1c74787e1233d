//! Other tools on the same work: one run each, because most of them are slow
//! enough that a round of theirs would outlast all of ours.

use std::ffi::OsString;

use serde::Serialize;

use crate::rows::{Row, Work};
use crate::session::{Ready, Session, is_installed};

/// Iterations that gdb's recorder can bear.
const GDB_COUNT: u64 = 20;

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
    /// Only micro rows, with a handful of iterations.
    tiny_only: bool,
}

const PEERS: &[Peer] = &[
    Peer { name: "strace -f", program: "strace", before: &["-f", "-o", "/dev/null"], tiny_only: false },
    Peer {
        name: "gdb record",
        program: "gdb",
        before: &[
            "-q",
            "-batch",
            "-ex",
            "break main",
            "-ex",
            "run",
            "-ex",
            "record",
            "-ex",
            "continue",
            "--args",
        ],
        tiny_only: true,
    },
    Peer { name: "rr record", program: "rr", before: &["record", "-n"], tiny_only: false },
    Peer { name: "valgrind none", program: "valgrind", before: &["-q", "--tool=none"], tiny_only: false },
];

pub fn measure_peers(session: &Session, row: &Row, ready: &Ready, native_s: f64) -> Vec<PeerResult> {
    PEERS
        .iter()
        .filter(|peer| is_installed(peer.program))
        .filter(|_| !matches!(row.work, Work::Server(_)))
        .filter(|peer| !peer.tiny_only || matches!(row.work, Work::Micro { .. }))
        .map(|peer| PeerResult { peer: peer.name, ratio: ratio(session, row, ready, native_s, peer) })
        .collect()
}

fn ratio(session: &Session, row: &Row, ready: &Ready, native_s: f64, peer: &Peer) -> Result<f64, String> {
    let mut argv: Vec<OsString> = vec![peer.program.into()];
    argv.extend(peer.before.iter().map(OsString::from));
    match row.work {
        Work::Micro { count, quick_count, peer_count, .. } => {
            let own_count = if session.quick { quick_count } else { count };
            let count = if peer.tiny_only { peer_count.min(GDB_COUNT) } else { peer_count };
            argv.extend([ready.argv[0].clone(), count.to_string().into()]);
            let taken = session.timed(ready, &argv)?;
            if own_count == 1 {
                return Ok(taken.wall.as_secs_f64() / native_s);
            }
            let inner = taken.inner.ok_or("the program did not end normally")?;
            Ok((inner.as_secs_f64() / count as f64) / (native_s / own_count as f64))
        }
        Work::Shell { .. } | Work::Server(_) => {
            argv.extend(ready.argv.iter().cloned());
            Ok(session.timed(ready, &argv)?.wall.as_secs_f64() / native_s)
        }
    }
}
