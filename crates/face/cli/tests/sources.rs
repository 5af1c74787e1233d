//! Sources that travel in a pack are seen where nobody has them.

mod bench;

use std::path::Path;
use std::process::{Command, Output};

use bench::Bench;

const LINE: &str = "return *nowhere; // this line is in the pack";

/// Runs a command of ours with one of several homes.
fn run(bench: &Bench, home: &str, words: &[&str]) -> Output {
    bench.retrovane(words).env("RETROVANE_HOME", bench.path(home)).output().expect("it runs")
}

fn text(bench: &Bench, home: &str, words: &[&str]) -> String {
    let ran = run(bench, home, words);
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A program that dies, built in one folder from a source in another; and a secret that it names as if it were one.
fn recorded() -> Bench {
    let bench = Bench::new();
    for folder in ["source", "build"] {
        std::fs::create_dir(bench.path(folder)).expect("it can be made");
    }
    let source = format!(
        "int main(void)\n{{\n\tint *nowhere = 0;\n\t{LINE}\n}}\n#line 1 \"{}\"\nint other;\n",
        bench.path("secret").display()
    );
    std::fs::write(bench.path("source/dies.c"), source).expect("it can be written");
    std::fs::write(bench.path("secret"), "what nobody packs").expect("it can be written");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O0", "-o", "dies", "../source/dies.c"]).current_dir(bench.path("build"));
    assert!(gcc.status().expect("gcc is installed").success());
    let died = run(&bench, "home", &["record", "-q", "-o", "trace", "build/dies"]);
    assert!(!died.status.success());
    bench
}

#[test]
fn strangers_see_the_lines_of_packs_with_sources() {
    let bench = recorded();
    text(&bench, "home", &["pack", "--sources", "-o", "with.rvpack", "trace"]);
    text(&bench, "home", &["pack", "-o", "without.rvpack", "trace"]);
    let pack = std::fs::read(bench.path("with.rvpack")).expect("the pack");
    let holds = |text: &str| pack.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds(LINE) && !holds("what nobody packs"));
    // The stranger has none of it.
    for folder in ["source", "build", "trace"] {
        std::fs::remove_dir_all(bench.path(folder)).expect("it can be removed");
    }
    for (pack, sees) in [("with", true), ("without", false)] {
        let name = format!("{pack}.rvpack");
        run(&bench, "strange", &["replay", "-q", "--run", &name]);
        let answer = text(&bench, "strange", &["query", "backtrace", pack]);
        assert!(answer.contains("dies.c:4"), "{answer}");
        assert_eq!(answer.contains(LINE), sees, "{answer}");
        let listed = text(&bench, "strange", &["replay", "--batch", "--at", "crash", "--ex", "list", pack]);
        assert_eq!(listed.contains(LINE), sees, "{listed}");
        text(&bench, "strange", &["report", "-q", "-o", "page.html", pack]);
        let page = std::fs::read_to_string(bench.path("page.html")).expect("the page");
        assert_eq!(page.contains("this line is in the pack"), sees, "{pack}");
    }
    // And hand them on.
    text(&bench, "strange", &["pack", "--sources", "-o", "again.rvpack", "with"]);
    let again = std::fs::read(bench.path("again.rvpack")).expect("the pack");
    assert_eq!(again, pack);
}

#[test]
fn a_list_of_sources_leads_nowhere_else() {
    let bench = recorded();
    let trace = bench.path("trace");
    let folder = trace.join("sources");
    std::fs::create_dir(&folder).expect("it can be made");
    let outside = bench.path("outside");
    let up = "../".repeat(12);
    let hash = "0".repeat(64);
    let one = |path: String, hash: &str| format!("{{\"path\": {path:?}, \"hash\": {hash:?}}}");
    let list = [
        one(format!("/{up}{}", outside.display()), &hash),
        one(format!("/a/{up}{}", outside.display()), &hash),
        one(outside.display().to_string(), "../../secret"),
        one("relative.c".to_owned(), &hash),
        one("/a b/x.c".to_owned(), &hash),
    ];
    std::fs::write(trace.join("sources.json"), format!("[{}]", list.join(","))).expect("it can be written");
    let said = text(
        &bench,
        "home",
        &["replay", "--batch", "--at", "crash", "--ex", "show substitute-path", "trace"],
    );
    assert!(!said.contains("/../") && !said.contains("a b"), "{said}");
    assert!(std::fs::symlink_metadata(&outside).is_err(), "a link was made outside");
    // What is no list is none.
    std::fs::write(trace.join("sources.json"), "[1").expect("it can be written");
    assert!(text(&bench, "home", &["bt", "trace"]).contains("dies.c:4"));
    assert!(Path::new(&trace).exists());
}
