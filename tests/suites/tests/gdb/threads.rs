//! Programs with threads: places that are gone to in any order, through copies of the
//! process with all of its threads.

use super::Session;

const EQUAL: &[&str] = &["forwards 1", "differences 0", "exits with 0 here"];

pub const SESSIONS: &[Session] = &[
    Session {
        name: "threads_stand_the_same_in_any_order",
        source: "threads",
        flags: &["-O1", "-pthread"],
        options: &["--batch"],
        commands: &["source SCRIPTS/all_turns.py", "continue"],
        expected: EQUAL,
        unexpected: &["differs", "retrovane:", "Error"],
    },
    Session {
        name: "threads_of_a_static_program_stand_the_same_in_any_order",
        source: "threads",
        flags: &["-O2", "-static", "-pthread"],
        options: &["--batch"],
        commands: &["source SCRIPTS/all_turns.py", "continue"],
        expected: EQUAL,
        unexpected: &["differs", "retrovane:", "Error"],
    },
    Session {
        name: "thread_local_variables_of_threads_that_come_and_go",
        source: "threads",
        flags: &["-O1", "-pthread"],
        options: &["--batch"],
        commands: &[
            "handle SIGUSR1 nostop noprint pass",
            "break turn_of if me == 3 && round == 5",
            "continue",
            "print mine",
            "thread apply all print *&mine",
            // A thread that stands at a breakpoint is not there any more at the end.
            "seek end",
            "print mine",
            "print finished",
            "reverse-continue",
            "print mine",
            "watch finished",
            "continue",
            "continue",
            "reverse-continue",
            "reverse-continue",
            "reverse-continue",
        ],
        expected: &[
            "Breakpoint 1, turn_of (me=me@entry=3, round=round@entry=5",
            "$1 = 15010",
            "= 5",
            "Breakpoint 1, turn_of",
            "= 15010",
            "Old value = 0",
            "New value = 1",
            "Old value = 1",
            "New value = 2",
            "Old value = 2",
            "New value = 1",
            "Old value = 1",
            "New value = 0",
            "Breakpoint 1, turn_of",
        ],
        unexpected: &["retrovane:", "Recursive internal problem", "internal-error"],
    },
];
