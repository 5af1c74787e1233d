//! Forwards and back by lines that are loops.

use super::Session;

const EQUAL: &[&str] = &[
    "reverse-next: ",
    " 0 differences",
    "reverse-step: ",
    " 0 differences",
    "stopped: ",
    " 0 differences",
    "watched: ",
    " 0 differences",
];

pub const SESSIONS: &[Session] = &[
    Session {
        name: "back_by_lines_over_rounds_as_by_each_of_their_steps",
        source: "rounds",
        flags: &["-O0", "-pthread"],
        options: &["--batch"],
        commands: &["source SCRIPTS/all_lines.py"],
        expected: EQUAL,
        unexpected: &["retrovane:", "Error"],
    },
    Session {
        name: "back_by_lines_over_rounds_of_optimised_code",
        source: "rounds",
        flags: &["-O2", "-pthread"],
        options: &["--batch"],
        commands: &["source SCRIPTS/all_lines.py"],
        expected: EQUAL,
        unexpected: &["retrovane:", "Error"],
    },
    Session {
        name: "back_over_lines_whose_calls_end_in_all_kinds_of_ways",
        source: "called.cpp",
        flags: &["-O0"],
        options: &["--batch"],
        commands: &["source SCRIPTS/called.py"],
        // setjmp returns twice.
        expected: &[
            "back over 96 95 94 93 92 90 91 90 89 88 87 86 84 83 82 81 80\n",
            "back in main: True",
            "stopped in by_number last",
            "out of the same call: True",
        ],
        unexpected: &["retrovane:", "Error"],
    },
    Session {
        name: "back_over_optimised_lines_whose_calls_end_in_all_kinds_of_ways",
        source: "called.cpp",
        flags: &["-O2"],
        options: &["--batch"],
        commands: &["source SCRIPTS/called.py"],
        expected: &["back in main: True", "stopped in by_number last", "out of the same call: True"],
        unexpected: &["retrovane:", "Error"],
    },
    Session {
        name: "lines_that_are_long_loops_are_passed_soon",
        source: "long_lines",
        flags: &["-O0"],
        options: &["--batch"],
        commands: LONG,
        expected: PASSED,
        unexpected: &["retrovane:", "Error"],
    },
    Session {
        name: "lines_that_are_long_loops_of_optimised_code_are_passed_soon",
        source: "long_lines",
        flags: &["-O2"],
        options: &["--batch"],
        commands: LONG,
        expected: PASSED,
        unexpected: &["retrovane:", "Error"],
    },
];

/// Instruction by instruction, with gdb asked at each, it would take hours.
pub const LONG: &[&str] = &[
    "break main",
    "continue",
    "delete",
    "python import time; began = time.time()",
    "next",
    "next",
    "next",
    "next",
    "next",
    "reverse-next",
    "reverse-next",
    "print sum",
    "rn",
    "rs",
    "print sum",
    "python print('soon' if time.time() - began < 15 else f'late: {time.time() - began}')",
];

pub const PASSED: &[&str] = &[
    "\n20\t", "\n21\t", "\n22\t", "\n23\t", "\n24\t", "\n25\t", "\n24\t", "\n23\t", "$1 = 2", "\n22\t",
    "\n21\t", "$2 = 1", "soon",
];
