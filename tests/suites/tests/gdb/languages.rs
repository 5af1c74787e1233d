//! What languages bring for gdb themselves works on recordings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, run};

use super::super::compare;
use super::{build, missing, path_of_compilers};

/// What the program says to these words, in a line.
fn said_by(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).env("PATH", path_of_compilers()).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Records the page's program; the trace is in the scratch directory.
fn record(tool: &Tool, scratch: &Scratch, page: &str) -> Result<PathBuf, String> {
    build(scratch, page)?;
    let (home, trace) = (scratch.fresh_directory("home")?, scratch.join("trace"));
    let mut args: Vec<OsString> = ["record", "-q", "-o"].iter().map(OsString::from).collect();
    args.extend([trace.clone().into(), scratch.join("program").into()]);
    run(tool.command(User::Current, &home, &args), RUN_TIME_MAX)?;
    Ok(trace)
}

/// What `print` or `calls` show of a recording of the program.
fn printed(tool: &Tool, name: &str, page: &str, command: &str, words: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new(name)?;
    let trace = record(tool, &scratch, page)?;
    let mut args: Vec<OsString> = vec![command.into(), trace.into()];
    args.extend(words.iter().map(OsString::from));
    let outcome = run(tool.command(User::Current, &scratch.join("home"), &args), RUN_TIME_MAX)?;
    Ok(format!("{}{}", outcome.stdout_text(), outcome.stderr_text()))
}

/// What gdb says to the commands on a recording of the program, with the user's own compilers.
fn session(tool: &Tool, name: &str, page: &str, commands: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new(name)?;
    let trace = record(tool, &scratch, page)?;
    let home = scratch.join("home");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(&tool.binary).args(["replay", "--batch"]);
    for asked in commands {
        command.args(["--ex", asked]);
    }
    command.arg(trace);
    suites::plain_environment(&mut command, &home);
    command.env("PATH", path_of_compilers());
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let home = std::env::var_os("HOME").unwrap_or_default();
        command.env(name, std::env::var_os(name).unwrap_or_else(|| Path::new(&home).join(folder).into()));
    }
    Ok(run(command, RUN_TIME_MAX)?.stdout_text())
}

const GO: &str = "<!-- program: waiting.go -->\n<!-- needs: go -->\n";

/// Go's command that shows another goroutine sets registers: in a copy.
fn check_goroutines(tool: &Tool) -> TestResult {
    let root = said_by("go", &["env", "GOROOT"]).ok_or("go does not say where it is")?;
    let script = format!("source {root}/src/runtime/runtime-gdb.py");
    let commands = [
        &script,
        "break main.done",
        "continue",
        "goroutine all bt",
        "backtrace 1",
        "goroutine 1 nonsense",
        "reverse-stepi",
        "stepi",
        "finish",
        "print 'main.counter'",
    ];
    let text = session(tool, "goroutines", GO, &commands)?;
    let expected = ["Breakpoint 1, main.done", "main.waiter (", "#0  main.done", "main.main ()", "= 1"];
    compare(&text, &expected, &["cannot be changed", "retrovane:"])
}

const RUST: &str = "<!-- program: store.rs --edition 2021 -->\n<!-- needs: rustc -->\n";

/// The compiler's printers are found as rust-gdb finds them.
fn check_rust_printers(tool: &Tool) -> TestResult {
    let commands = ["break store::check", "continue", "print shelf.boxes"];
    let text = session(tool, "rust_printers", RUST, &commands)?;
    compare(&text, &["Breakpoint 1, store::check", "(size=1)", "{6}"], &["RawVec", "retrovane:"])
}

const CPP: &str = "<!-- program: shelf.cpp -->\n<!-- needs: g++ -->\n";

/// libstdc++'s printers are found, and those of Rust are not asked for.
fn check_cpp_printers(tool: &Tool) -> TestResult {
    let commands = [
        "break put if weight == 3",
        "continue",
        "print name",
        "print shelf",
        "print total",
        "finish",
        "print shelf",
        "info pretty-printer global rust",
    ];
    let text = session(tool, "cpp_printers", CPP, &commands)?;
    let expected = [
        "put (name=\"tea\", weight=3)",
        "= \"tea\"",
        "std::map with 2 elements",
        "[\"salt\"] = {label = \"box of salt\"",
        "length 1, capacity 1 = {2}",
        "std::unique_ptr<int>",
        "length 2, capacity 2 = {2, 3}",
    ];
    compare(&text, &expected, &["_M_t", "StdVec", "Python Exception", "retrovane:"])
}

/// Collections in nodes are shown with their elements, also as results.
fn check_nodes(tool: &Tool) -> TestResult {
    const NODES: &str = "<!-- program: nodes.cpp -->\n";
    let words = ["--at", "nodes.cpp:39", "atlas, atlas.none"];
    let text = printed(tool, "cpp_nodes", NODES, "print", &words)?;
    let expected = [
        "names = {[1] = \"one\", [2] = \"a name that is too long for the string itself\", [3] = \"three\"}",
        "places = {[\"home\"] = {x = 1, y = 2}, [\"home\"] = {x = 5, y = 6}, [\"work\"] = {x = 3, y = 4}}",
        "numbers = {0, 1, 2, ",
        "30, 31, <68 more>}",
        "shares = {[\"half\"] = 0.5}, letters = {120 'x'}, route = {{x = 7, y = 8}, {x = 9, y = 10}}",
        "none = {}, rows = {[4] = {1, 2}}}, atlas.none = {}",
    ];
    compare(&text, &expected, &["_M_", "retrovane:"])?;
    let words = ["--at", "nodes.cpp:39", "--json", "atlas.shares, atlas.route"];
    let text = printed(tool, "cpp_nodes", NODES, "print", &words)?;
    let expected = [r#""atlas.route":[{"x":7,"y":8},{"x":9,"y":10}],"atlas.shares":[["half",0.5]]"#];
    compare(&text, &expected, &["retrovane:"])?;
    let text = printed(tool, "cpp_nodes", NODES, "calls", &["squares"])?;
    let expected = [
        "squares(count = 3) = {[0] = 0, [1] = 1, [2] = 2}",
        "squares(count = 40) = {[0] = 0, [1] = 23, [2] = 6, ",
        "[31] = 33, <8 more>}",
    ];
    compare(&text, &expected, &["retrovane:"])
}

/// Tables of Rust are shown with their elements.
fn check_tables(tool: &Tool) -> TestResult {
    const TABLES: &str = "<!-- program: tables.rs --edition 2021 -->\n";
    let text = printed(tool, "rust_tables", TABLES, "print", &["--at", "tables.rs:12", "*stock"])?;
    compare(&text, &["prices = {[4] = 2.5}, codes = {700}, none = {}"], &["ctrl", "retrovane:"])
}

/// Blocks, chains, bits, and what stands for other values, of C++.
fn check_blocks(tool: &Tool) -> TestResult {
    const BLOCKS: &str = "<!-- program: blocks.cpp -->\n";
    let text = printed(tool, "cpp_blocks", BLOCKS, "print", &["--at", "blocks.cpp:41", "row, rest"])?;
    let expected = [
        "few = {-5, 1, 2, 3}, many = {{x = 70, y = 4900}, ",
        "{x = 101, y = 10201}, <98 more>}, names = {\"one\", \"a name that is too long for the string itself\"}",
        "none = {}, chain = {3, 4, 5}, empty = {}}",
        "bits = {true, false, true}, no_bits = {}, more_bits = {false, false, false, true, false, ",
        "number = 1.5 - 2i, small = 0 + 1i, plain = 2.5 + 1i, twice = twice_of, square = Square, adds = main()::<lambda(int)>, nothing = nullptr, pair = {first = 1, second = \"first\"}",
    ];
    compare(&text, &expected, &["_M_", "retrovane:", "{}, first"])?;
    let text = printed(tool, "cpp_blocks", BLOCKS, "calls", &["queued"])?;
    compare(&text, &["queued(count = 3) = {0, 1, 2}"], &["retrovane:"])
}

/// Trees and rings of Rust are shown with their elements, and what is shared as what it is.
fn check_trees(tool: &Tool) -> TestResult {
    const TREES: &str = "<!-- program: trees.rs --edition 2021 -->\n";
    let words = ["--at", "trees.rs:25", "*stock, *shared"];
    let text = printed(tool, "rust_trees", TREES, "print", &words)?;
    let expected = [
        "names = {[1] = \"one\", [3] = \"three\"}, many = {[0] = 0, [1] = 143, [2] = 286, ",
        "[31] = 433, <468 more>}, codes = {-1, 4}, none = {}, waiting = {4, 5, 100, 101, 102, 103}",
        "words = {[\"hat\"] = 1}",
        "pair = {__0 = 7, __1 = \"seven\"}, number = 9, text = \"abc\", list = {1, 2, 3}, maybe = {None, Some(5)}",
    ];
    compare(&text, &expected, &["strong", "retrovane:"])
}

/// Maps and interfaces of Go, in arguments and in results.
fn check_maps(tool: &Tool) -> TestResult {
    const MAPS: &str = "<!-- program: maps.go -->\n";
    let words = ["--at", "maps.go:26", "*shop, *found"];
    let text = printed(tool, "go_maps", MAPS, "print", &words)?;
    let expected = [
        "prices = {[\"hat\"] = 3}, points = {[1] = {x = 2, y = 3}}, none = nil, large = {[",
        "<2967 more>}",
        "values = {int 1, string \"two\", main.point {x = 3, y = 4}, *main.point {x = 5, y = 6}, float64 2.5, nil}",
        "failed = *errors.errorString {s = \"no division by zero\"}, other = nil",
    ];
    compare(&text, &expected, &["_type", "retrovane:"])?;
    let text = printed(tool, "go_maps", MAPS, "calls", &["main.divide"])?;
    let expected = [
        "(a = 1, b = 0) = {0, *errors.errorString {s = \"no division by zero\"}}",
        "(a = 6, b = 3) = {2, nil}",
    ];
    compare(&text, &expected, &["retrovane:"])
}

/// Exceptions are caught forwards and backwards, also from before the library was there.
fn check_thrown(tool: &Tool) -> TestResult {
    const THROWN: &str = "<!-- program: thrown.cpp -->\n";
    let commands = [
        "catch throw runtime_error",
        "break main",
        "continue",
        "catch catch if caught == 11",
        "python gdb.breakpoints()[-1].commands = 'print caught'",
        "continue",
        "continue",
        "continue",
        "up",
        "print round",
        "reverse-continue",
        "reverse-continue",
        "up",
        "print round",
        "reverse-continue",
        "reverse-continue",
        "info breakpoints",
        "continue",
        "continue",
        "last-write caught",
        "seek begin",
        "continue",
        "continue",
        "up",
        "print round + 100",
    ];
    let text = session(tool, "thrown", THROWN, &commands)?;
    let expected = [
        "(exception thrown)",
        "(exception caught)",
        "$1 = 11",
        "(exception thrown)",
        "$2 = 3",
        "(exception caught)",
        "$3 = 11",
        "(exception thrown)",
        "$4 = 1",
        "No more reverse-execution history",
        "exception throw",
        "matching: runtime_error",
        "exception catch",
        "stop only if caught == 11",
        "print caught",
        "(exception thrown)",
        "caught: 0 -> 1",
        "(exception thrown)",
        "= 101",
    ];
    compare(&text, &expected, &["Fatal signal", "internal problem", "Python Exception", "retrovane:"])
}

/// gdb is led from a thread that stands at a catchpoint to one that does, too.
fn check_thrown_in_threads(tool: &Tool) -> TestResult {
    const THROWN: &str = "<!-- program: thrown_threads.cpp -->\n";
    let commands = [
        "catch throw",
        "continue",
        "mark first",
        "continue",
        "up",
        "print own",
        "seek first",
        "up",
        "print own",
        "info breakpoints",
        "continue",
    ];
    let text = session(tool, "thrown-threads", THROWN, &commands)?;
    let expected = [
        "(exception thrown)",
        "first is ",
        "(exception thrown)",
        "$1 = 1",
        "$2 = 0",
        "catchpoint     keep y",
        "(exception thrown)",
    ];
    compare(&text, &expected, &["Fatal signal", "internal problem", "Python Exception", "retrovane:"])
}

/// What is missing for the printers of C++.
fn missing_cpp_printers() -> Option<String> {
    (!Path::new("/usr/share/gcc/python/libstdcxx").exists()).then(|| "gdb's printers for C++".to_owned())
}

/// Variables outside of functions are found by their names, with the package and without.
fn check_go_globals(tool: &Tool) -> TestResult {
    let words = ["--at", "waiting.go:13", "counter, main.counter + 1"];
    let text = printed(tool, "go_globals", GO, "print", &words)?;
    compare(&text, &["counter = 0, main.counter + 1 = 1"], &["retrovane:"])
}

/// Results of structures are shown: in memory, and of two numbers in a register for each.
fn check_rust_results(tool: &Tool) -> TestResult {
    const LARGE: &str = "<!-- program: large.rs --edition 2021 -->\n";
    let text = printed(tool, "rust_results", LARGE, "calls", &["large_of"])?;
    let expected = [
        "(free = 7) = {weights = {1, 2, 3, 4}, free = 7}",
        "(free = 6) = {weights = {1, 2, 3, 4}, free = 6}",
    ];
    compare(&text, &expected, &["retrovane:"])?;
    for (function, row) in [
        ("small_of", "(left = 3) = {left = 3, right = 5}"),
        ("tiny_of", "(number = 70000) = {letter = 65, number = 70000}"),
        ("mixed_of", "(count = 9) = {share = 0.5, count = 9}"),
        ("floats_of", "(x = 1.5) = {x = 1.5, y = 4.5}"),
        ("only_of", "(number = 5) = {share = 1.25}"),
        ("three_of", "(number = 5) = <its language passes it in a way of its own>"),
    ] {
        let text = printed(tool, "rust_small_results", LARGE, "calls", &[function])?;
        compare(&text, &[row], &["retrovane:"])?;
    }
    Ok(())
}

/// Enums with values, lists and texts are shown as what they are.
fn check_rust_values(tool: &Tool) -> TestResult {
    const SHAPES: &str = "<!-- program: shapes.rs --edition 2021 -->\n";
    let asked = "all, points, none, long, part, text, failed, maybe, points[2].y, part[0].x, none.len";
    let text = printed(tool, "rust_values", SHAPES, "print", &["--at", "shapes.rs:33", asked])?;
    let expected = [
        "all = {Circle {radius = 1.5}, Square(2.5, 3), Named(\"hat\"), Empty}",
        "points = {{x = 0, y = 0}, {x = 1, y = 1}, {x = 2, y = 4}}, none = {}, long = {0, 1, 2, ",
        " more>}, part = {{x = 1, y = 1}, {x = 2, y = 4}}, text = \"g\u{e9}nial\", failed = Err(\"no\")",
        "{__0 = Some(7), __1 = None, __2 = Some(0x",
        "__3 = None}, points[2].y = 4, part[0].x = 1, none.len = 0",
    ];
    compare(&text, &expected, &["retrovane:"])?;
    let words = ["--at", "shapes.rs:33", "--json", "all, text, failed"];
    let text = printed(tool, "rust_values", SHAPES, "print", &words)?;
    let row = r#""all":[{"Circle":{"radius":1.5}},{"Square":[2.5,3]},{"Named":"hat"},"Empty"],"failed":{"Err":"no"}"#;
    compare(&text, &[row], &["retrovane:"])?;
    let text = printed(tool, "rust_values", SHAPES, "calls", &["weigh"])?;
    let row = "shapes = {Circle {radius = 1.5}, Square(2.5, 3), Named(";
    compare(&text, &[row, "label = \"g\u{e9}\", bonus = Some(4), next = Some(0x", ") = 13"], &["retrovane:"])
}

/// Strings and slices of Go; what it lists as results is no argument.
fn check_go_lists(tool: &Tool) -> TestResult {
    const LISTS: &str = "<!-- program: lists.go -->\n";
    let asked = "box, words, joined, box.Sizes[1], words[1]";
    let text = printed(tool, "go_lists", LISTS, "print", &["--at", "lists.go:26", asked])?;
    let expected = [
        "box = {Name = \"crate\", Sizes = {4, 5, 6}}",
        "joined = \"a-bc\", box.Sizes[1] = 5, words[1] = \"bc\"",
    ];
    compare(&text, &expected, &["retrovane:"])?;
    for (function, row) in [
        ("join", "main.join(parts = {\"a\", \"bc\"}, between = \"-\") = \"a-bc\""),
        ("divide", "main.divide(a = 17, b = 5) = {quotient = 3, rest = 2, text = \"fine\"}"),
        ("boxed", "main.boxed(number = 3, share = 2) = {{Name = \"made\", Sizes = {3, 9}}, 0.5}"),
        ("four", "main.four() = <it is given back on the stack>"),
    ] {
        let text = printed(tool, "go_lists", LISTS, "calls", &[&format!("main.{function}")])?;
        compare(&text, &[row], &["~r", "retrovane:"])?;
    }
    Ok(())
}

/// Results of classes: those that are passed as structures of C, and the others.
fn check_cpp_results(tool: &Tool) -> TestResult {
    const RESULTS: &str = "<!-- program: results.cpp -->\n";
    for (function, rows) in [
        ("pair_of", &["(first = 1.5) = {first = 1.5, second = 3}"][..]),
        ("mixed_of", &["(count = 4) = {count = 4, share = 6}"]),
        ("large_of", &["(a = 7) = {a = 7, b = 8, c = 9}"]),
        ("base_of", &["(number = 9) = {_vptr.Base = 0x", "number = 9}"]),
        ("around_of", &["(number = 11) = {inner = {number = 11}}"]),
    ] {
        let text = printed(tool, "cpp_results", RESULTS, "calls", &[function])?;
        compare(&text, rows, &["retrovane:"])?;
    }
    Ok(())
}

/// Objects of C++'s library are shown as what they hold, and lead to it in expressions.
fn check_cpp_values(tool: &Tool) -> TestResult {
    const HOLDERS: &str = "<!-- program: holders.cpp -->\n";
    let asked = "shelf, part, shelf.best->name, *shelf.count, *shelf.price, shelf.sides[1], shelf.rows[2][0], \
                 shelf.items[0].tags[1], (*shelf.best).id";
    let words = ["--at", "holders.cpp:36", asked, "--if", "shelf.best->id == 7"];
    let text = printed(tool, "cpp_values", HOLDERS, "print", &words)?;
    let expected = [
        "shelf = {items = {{id = 1, name = \"one\", tags = {\"x\", \"yy\"}, note = \"first\"}, ",
        "{id = 2, name = \"two\", tags = {}, note = 0x0}}, sizes = {4, 5, 6}, best = 0x",
        "price = 2.5, none = nullopt, sides = {7, 8, 9}, uses = 11, ",
        "places = {[1] = 2, [3] = 4}, rows = {{1, 2}, {}, {3}}, ",
        "label = \"a label that is too long for the string itself\"}, part = \"view\", ",
        "shelf.best->name = \"seven\", *shelf.count = 5, *shelf.price = 2.5, shelf.sides[1] = 8, ",
        "shelf.rows[2][0] = 3, shelf.items[0].tags[1] = \"yy\", (*shelf.best).id = 7",
    ];
    compare(&text, &expected, &["retrovane:"])?;
    let words = ["--at", "holders.cpp:36", "shelf", "--if", "shelf.best->id == 8"];
    let text = printed(tool, "cpp_values", HOLDERS, "print", &words)?;
    compare(&text, &["was never executed where the condition holds"], &["shelf ="])?;
    let text = printed(tool, "cpp_values", HOLDERS, "calls", &["weigh"])?;
    compare(
        &text,
        &["weigh(shelf = {items = {{id = 1, name = \"one\"", "part = \"view\") = 6"],
        &["retrovane:"],
    )
}

/// Tuples and variants are shown as their values, a queue and a stack as what they stand before.
fn check_joined(tool: &Tool) -> TestResult {
    const JOINED: &str = "<!-- program: joined.cpp -->\n";
    let words = ["--at", "joined.cpp:29", "joined, joined.whole"];
    let text = printed(tool, "joined", JOINED, "print", &words)?;
    let expected = [
        "joined = {whole = {1, 2.5, \"three, which is too long for the string itself\"}, ",
        "99 'c', {5, true}}, pair = {first = 7, second = \"seven\"}, ",
        "number = 4, text = \"text\", part = 0.5, all = {1, 2}, line = {0, 1, 2}, pile = {0, 1, 2}, ",
        "first = {2, 0, 1}}, joined.whole = {1, 2.5, \"three",
    ];
    compare(&text, &expected, &["retrovane:", "_M_"])
}

/// What is missing for the printers of Rust.
fn missing_printers() -> Option<String> {
    let root = said_by("rustc", &["--print", "sysroot"]).unwrap_or_default();
    let is_there = Path::new(&root).join("lib/rustlib/etc/gdb_lookup.py").exists();
    (!is_there).then(|| "gdb's printers for Rust".to_owned())
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let cases: [(&str, Check, Option<String>); 17] = [
        ("enums_and_lists_of_rust_are_printed", check_rust_values, missing(RUST)),
        ("lists_of_go_are_printed", check_go_lists, missing(GO)),
        ("holders_of_cpp_are_printed", check_cpp_values, missing(CPP)),
        ("joined_values_of_cpp_are_printed", check_joined, missing(CPP)),
        ("collections_of_cpp_are_printed", check_nodes, missing(CPP)),
        ("tables_of_rust_are_printed", check_tables, missing(RUST)),
        ("blocks_of_cpp_are_printed", check_blocks, missing(CPP)),
        ("trees_of_rust_are_printed", check_trees, missing(RUST)),
        ("maps_of_go_are_printed", check_maps, missing(GO)),
        ("exceptions_of_cpp_are_caught", check_thrown, missing(CPP)),
        ("exceptions_in_threads_are_gone_to", check_thrown_in_threads, missing(CPP)),
        ("results_of_cpp_are_shown", check_cpp_results, missing(CPP)),
        ("values_of_cpp_are_shown", check_cpp_printers, missing(CPP).or_else(missing_cpp_printers)),
        ("variables_of_go_are_printed", check_go_globals, missing(GO)),
        ("results_of_rust_are_shown", check_rust_results, missing(RUST)),
        ("goroutines_are_shown", check_goroutines, missing(GO)),
        ("values_of_rust_are_shown", check_rust_printers, missing(RUST).or_else(missing_printers)),
    ];
    trials_of(tool, cases)
}

pub type Check = fn(&Tool) -> TestResult;

/// Each with its name, and what it needs that is missing here.
pub fn trials_of(
    tool: &Arc<Tool>,
    cases: impl IntoIterator<Item = (&'static str, Check, Option<String>)>,
) -> Vec<Trial> {
    let one = |(name, check, missing): (&str, Check, Option<String>)| {
        let own = Arc::clone(tool);
        let trial = Trial::test(name, move || check(&own).map_err(Failed::from));
        match missing {
            Some(what) => trial.with_kind(format!("needs {what}")).with_ignored_flag(true),
            None => trial,
        }
    };
    cases.into_iter().map(one).collect()
}
