//! The compiler pass, with each clang that is installed: every kind of store has its barrier.
//!
//! A test for a clang that is not there is counted as ignored by `skipped`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Has each store saved, so that those which are not are known.
const CHECK: &str = "RETROVANE_MIRROR_CHECK";

/// The versions that the supported releases of Debian and Ubuntu have.
fn versions() -> Vec<u32> {
    let text = include_str!("../../pass/versions");
    text.split_whitespace().map(|version| version.parse().expect("a number")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The versions of which compiler and headers are there.
fn installed() -> Vec<u32> {
    // One of several takes a quarter of the time: `MIRROR_CLANG=16`.
    let only = std::env::var("MIRROR_CLANG").ok().and_then(|text| text.parse::<u32>().ok());
    let has_both =
        |version: &u32| is_there(&format!("clang-{version}")) && is_there(&format!("llvm-config-{version}"));
    versions()
        .into_iter()
        .filter(|version| only.is_none_or(|only| only == *version))
        .filter(has_both)
        .collect()
}

/// Runs a command; its output, if it ended well.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{text}", output.status);
    text
}

/// The versions with their pass, which is built once.
fn plugins() -> &'static [(u32, PathBuf)] {
    static BUILT: OnceLock<Vec<(u32, PathBuf)>> = OnceLock::new();
    let build = || {
        // Nothing in a static is dropped: what is built stays where builds are.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let build_one = |version: u32| {
            let plugin = folder.join(format!("pass-{version}.so"));
            let build = root().join("crates/mirror/pass/build");
            run(Command::new(build).arg(version.to_string()).arg(&plugin).env("CXXFLAGS", "-O0"));
            (version, plugin)
        };
        installed().into_iter().map(build_one).collect()
    };
    BUILT.get_or_init(build)
}

/// The library, which is built before this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().expect("it is in a folder of the target's");
    folder.join("libretrovane_mirror.a")
}

fn compile(version: u32, plugin: &Path, flags: &[&str], source: &str, program: &Path) -> String {
    let source = root().join("crates/mirror/pass/tests").join(source);
    let compiler = if source.extension().is_some_and(|end| end == "cc") { "clang++" } else { "clang" };
    run(Command::new(format!("{compiler}-{version}"))
        .args(["-Wall", "-g", "-pthread"])
        .args(flags)
        .arg(format!("-fpass-plugin={}", plugin.display()))
        .arg(format!("-I{}", root().join("include").display()))
        .arg("-o")
        .args([program, &source, &library()])
        .args(["-lm", "-ldl"]))
}

#[test]
fn every_kind_of_store_is_mirrored() {
    let folder = tempfile::tempdir().expect("a folder");
    for (version, plugin) in plugins() {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let program = folder.path().join("stores");
            let region = folder.path().join(format!("region-{version}{level}"));
            compile(*version, plugin, &[level], "stores.c", &program);
            let said = run(Command::new(&program).arg(&region).env(CHECK, "1"));
            assert!(said.contains("all mirrored"), "clang {version} {level}:\n{said}");
        }
    }
}

/// Code that may be at any address, and with the shared library, whose variable such a program has a copy of.
#[test]
fn every_kind_of_store_is_saved_in_any_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((version, plugin)) = plugins().first() else { return };
    let shared = library().with_extension("so");
    let (object, program) = (folder.path().join("stores.o"), folder.path().join("stores"));
    for (flags, is_shared) in [
        (["-O1", "-fPIE"], true),
        (["-O1", "-fPIC"], true),
        (["-O1", "-fno-pie"], true),
        (["-O2", "-fPIC"], false),
    ] {
        let mut command = Command::new(format!("clang-{version}"));
        command.args(flags).args(["-c", "-o"]).arg(&object);
        command.arg(format!("-fpass-plugin={}", plugin.display()));
        command.arg(format!("-I{}", root().join("include").display()));
        run(command.arg(root().join("crates/mirror/pass/tests/stores.c")));
        let mut command = Command::new(format!("clang-{version}"));
        command
            .arg(if flags[1] == "-fno-pie" { "-no-pie" } else { "-pie" })
            .arg("-o")
            .args([&program, &object]);
        command.arg(if is_shared { shared.clone() } else { library() }).args(["-lm", "-ldl", "-lpthread"]);
        run(command.arg(format!("-Wl,-rpath,{}", shared.parent().expect("a folder").display())));
        let region = folder.path().join(format!("region{}-{is_shared}", flags[1]));
        let said = run(Command::new(&program).arg(&region).env(CHECK, "1"));
        assert!(said.contains("all mirrored"), "{flags:?}, shared: {is_shared}:\n{said}");
    }
}

/// More threads than there are processors: what they leave behind is of one moment, whenever they are interrupted.
#[test]
fn killed_while_threads_store_it_is_back_as_of_one_moment() {
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let folder = folder.expect("a folder");
    let kills = std::env::var("MIRROR_KILLS").unwrap_or_else(|_| "12".into());
    let Some((version, plugin)) = plugins().first() else { return };
    for level in ["-O0", "-O2"] {
        let program = folder.path().join("late");
        compile(*version, plugin, &[level], "late.c", &program);
        let region = folder.path().join(format!("late{level}"));
        let said = run(Command::new(&program).arg(&region).arg(&kills));
        let rounds: u64 = said.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        assert!(rounds > 0, "clang {version} {level}: no round of any thread became durable");
    }
}

/// Programs as users write them, which kill themselves again and again and compare what is back: containers of libstdc++, some of
/// whose code is in a library that was not compiled with the pass, and a B-tree.
#[test]
fn programs_that_are_killed_are_back_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let kills = std::env::var("MIRROR_KILLS").unwrap_or_else(|_| "25".into());
    for (version, plugin) in plugins() {
        let has_both = is_there(&format!("clang++-{version}"));
        for (source, level) in
            [("containers.cc", "-O0"), ("containers.cc", "-O2"), ("btree.c", "-O1"), ("btree.c", "-O3")]
        {
            if source.ends_with(".cc") && !has_both {
                continue;
            }
            let program = folder.path().join("killed");
            compile(*version, plugin, &[level], source, &program);
            let region = folder.path().join(format!("{source}-{version}{level}"));
            let said = run(Command::new(&program).arg(&region).arg(&kills));
            assert!(said.contains("all whole"), "clang {version} {level}, {source}:\n{said}");
        }
    }
}

#[test]
fn what_cannot_be_mirrored_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    for (version, plugin) in plugins() {
        let program = folder.path().join("refused");
        let said = compile(*version, plugin, &["-O2", "-mavx", "-mxsave"], "refused.c", &program);
        assert!(said.contains("refused.c:13"), "clang {version} does not say what it cannot see:\n{said}");
        for kind in ["asm", "maskmov", "xsave", "pointer"] {
            let region = folder.path().join(format!("refused-{version}-{kind}"));
            let mut command = Command::new(&program);
            let output = command.arg(&region).arg(kind).env(CHECK, "1").output().expect("started");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_refused = said.contains("cannot be mirrored") && said.contains("refused.c:");
            let is_hidden = kind == "asm";
            assert_eq!(is_refused, !is_hidden, "clang {version}, {kind}: {said}");
            if is_hidden {
                assert!(said.contains("1 page differs"), "the check does not see it: {said}");
                let address = said.split_whitespace().next_back().expect("an address");
                let output = Command::new(&program)
                    .args([folder.path().join(format!("watched-{version}")).as_os_str(), kind.as_ref()])
                    .env("RETROVANE_MIRROR_WATCH", address)
                    .output()
                    .expect("started");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let is_named = said.contains("stored to by hidden (") && said.contains("refused.c:13");
                assert!(is_named, "clang {version}: the store at {address} is not named: {said}");
            }
        }
    }
}

/// A store that was missed before a checkpoint, or while it is written, is no difference behind it, and is found with the check.
#[test]
fn what_a_checkpoint_hides_is_found_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((version, plugin)) = plugins().first() else { return };
    let program = folder.path().join("refused");
    compile(*version, plugin, &["-O2", "-mavx", "-mxsave"], "refused.c", &program);
    // Without the check it is not known, and said so.
    let output =
        Command::new(&program).arg(folder.path().join("unknown")).arg("behind").output().expect("started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("RETROVANE_MIRROR_CHECK=1") && said.contains("0 page differs"), "{said}");
    let missed = |kind: &str, check: &str| {
        let mut command = Command::new(&program);
        command.arg(folder.path().join(kind)).arg(kind).env(CHECK, check);
        let said = run(&mut command);
        said.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a count")
    };
    assert_eq!(missed("behind", "1"), 1);
    // What the program says itself is none.
    assert_eq!(missed("told", "1"), 0);
    // While the checkpoint is written, too.
    assert_eq!(missed("during", "1"), 1);
}

/// What another version of the pass has made is refused by the linker, by a name with that version.
#[test]
fn objects_of_another_pass_are_not_linked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("old.s"), folder.path().join("old"));
    let linked = |name: &str| {
        let text = format!(
            ".globl main\nmain: movq {name}@GOTPCREL(%rip), %rax\nmovq rv_mirror_wrote@GOTPCREL(%rip), %rax\nxorl %eax, %eax\nret\n\
             .section .note.GNU-stack,\"\",@progbits\n"
        );
        std::fs::write(&source, text).expect("a source");
        let mut command = Command::new("gcc");
        command.arg("-o").args([&program, &source, &library()]).args(["-lm", "-ldl", "-lpthread"]);
        let output = command.output().expect("gcc");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(linked("rv_mirror_pass_2_active").0, "that of this version");
    for name in ["rv_mirror_control", "rv_mirror_pass_1_control", "rv_mirror_pass_3_active"] {
        let (is_linked, said) = linked(name);
        assert!(!is_linked && said.contains(&format!("undefined reference to `{name}'")), "{said}");
    }
}

/// Without any clang the tests above look at nothing: said here, and counted.
#[test]
fn some_clang_is_there_where_tests_are_installed() {
    let found = installed();
    println!("tested with clang {found:?} of {:?}", versions());
    assert!(!found.is_empty() || std::env::var_os("CI").is_none(), "make setup-test installs one");
}
