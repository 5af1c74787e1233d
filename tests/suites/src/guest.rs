//! Guests: small C and assembly programs, found by folder, whose header lines
//! say what they need and how they end.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use crate::Scratch;
use crate::objects::compiled;

/// Built guests that are kept for the next tests, which are mostly of the same guest.
const BUILT_MAX: usize = 16;
static BUILT: Mutex<VecDeque<Arc<Built>>> = Mutex::new(VecDeque::new());

/// A guest's program.
struct Built {
    source: PathBuf,
    variant: Variant,
    /// Its folder goes with the last test that is about to use it.
    program: OnceLock<Result<Scratch, String>>,
}

const PROGRAM: &str = "program";

/// Gives up what was built.
pub(crate) fn forget_built() {
    BUILT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// One program of tests/guests, tests/live, tests/attach or tests/window.
#[derive(Clone, Debug)]
pub struct Guest {
    pub name: String,
    pub source: PathBuf,
    /// `// needs:` words: `root`, `user`, `cpu:FLAG`.
    pub needs: Vec<String>,
    /// `// build:` arguments of the compiler.
    build: Vec<String>,
    /// The expected end: an exit code, or 128 + n for signal n.
    pub code: i32,
    /// `// variants:` names, if not all make sense.
    variants: Vec<String>,
    /// `// not-by:` names of ways of recording that it cannot be recorded by.
    pub not_by: Vec<String>,
    /// `// options:` of the tool.
    pub options: Vec<String>,
    /// `// prints:` lines, which is all that it prints, but for lines that begin with `~`.
    pub prints: Vec<String>,
}

/// One way to build a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    pub name: &'static str,
    optimisation: &'static str,
    pub is_static: bool,
}

impl Variant {
    pub const ALL: [Variant; 4] = [
        Variant::new("O0", "-O0", false),
        Variant::new("O2", "-O2", false),
        Variant::new("O0-static", "-O0", true),
        Variant::new("O2-static", "-O2", true),
    ];

    const fn new(name: &'static str, optimisation: &'static str, is_static: bool) -> Variant {
        Variant { name, optimisation, is_static }
    }

    /// What the compiler is told.
    pub fn arguments(self) -> impl Iterator<Item = &'static str> {
        [self.optimisation].into_iter().chain(self.is_static.then_some("-static"))
    }
}

/// A path of the workspace.
pub fn in_workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// All guests that are recorded and replayed, in the order of their names.
pub fn find_guests() -> Result<Vec<Guest>, String> {
    find_in(&in_workspace("tests/guests"))
}

/// All guests that take checkpoints and go back to them.
pub fn find_live_guests() -> Result<Vec<Guest>, String> {
    find_in(&in_workspace("tests/live"))
}

/// All programs that are attached to while they run.
pub fn find_attached_guests() -> Result<Vec<Guest>, String> {
    find_in(&in_workspace("tests/attach"))
}

/// All programs whose log becomes longer than it may be.
pub fn find_window_guests() -> Result<Vec<Guest>, String> {
    find_in(&in_workspace("tests/window"))
}

/// All programs that go on in a changed environment instead of dying.
pub fn find_recover_guests() -> Result<Vec<Guest>, String> {
    find_in(&in_workspace("tests/recover"))
}

fn find_in(directory: &Path) -> Result<Vec<Guest>, String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
    let mut guests = Vec::new();
    for entry in entries {
        let source = entry.map_err(|error| error.to_string())?.path();
        let is_program = source.extension().is_some_and(|extension| extension == "c" || extension == "S");
        if is_program {
            guests.push(Guest::read(&source)?);
        }
    }
    guests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(guests)
}

/// The system calls that the guests' `// covers:` lines name.
pub fn covered_system_calls() -> Result<BTreeSet<String>, String> {
    let mut covered = BTreeSet::new();
    for guest in find_guests()? {
        let text = fs::read_to_string(&guest.source).map_err(|error| error.to_string())?;
        for value in header_values(&text, "covers") {
            covered.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    Ok(covered)
}

/// The values of `// KEY: value` lines, or `# KEY: value`.
fn header_values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?.strip_prefix(key)?.strip_prefix(':')
        })
        .map(str::trim)
        .collect()
}

fn words(text: &str, key: &str) -> Vec<String> {
    header_values(text, key).iter().flat_map(|value| value.split_whitespace()).map(str::to_owned).collect()
}

fn parse_expectation(value: &str) -> Option<i32> {
    let (kind, number) = value.split_once(' ')?;
    let number: i32 = number.parse().ok()?;
    match kind {
        "exit" => Some(number),
        "signal" => Some(128 + number),
        _ => None,
    }
}

/// What the processor can do, by the kernel's names.
static CPU_FLAGS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpu.lines().find(|line| line.starts_with("flags"));
    flags.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
});

impl Guest {
    /// What this machine or user lacks, or `None` if the guest can run.
    pub fn missing_need(&self, as_root: bool) -> Option<String> {
        self.needs.iter().find_map(|need| {
            let met = match need.as_str() {
                "root" => as_root,
                "user" => !as_root,
                flag => flag.strip_prefix("cpu:").is_some_and(|flag| CPU_FLAGS.contains(flag)),
            };
            (!met).then(|| format!("needs {need}"))
        })
    }

    /// Reads the header lines of a source.
    pub fn read(source: &Path) -> Result<Guest, String> {
        let text = fs::read_to_string(source)
            .map_err(|error| format!("cannot read {}: {error}", source.display()))?;
        let name =
            source.file_stem().expect("a file with an extension has a stem").to_string_lossy().into_owned();
        let code = match header_values(&text, "expect").first() {
            None => 0,
            Some(value) => {
                parse_expectation(value).ok_or_else(|| format!("{name}: unknown expectation {value:?}"))?
            }
        };
        Ok(Guest {
            name,
            source: source.to_path_buf(),
            needs: words(&text, "needs"),
            build: words(&text, "build"),
            code,
            variants: words(&text, "variants"),
            not_by: words(&text, "not-by"),
            options: words(&text, "options"),
            prints: header_values(&text, "prints").into_iter().map(str::to_owned).collect(),
        })
    }

    pub fn has_variant(&self, variant: Variant) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|name| name == variant.name)
    }

    /// Puts the compiled program to `output`. It is compiled once for several tests.
    pub fn put(&self, variant: Variant, output: &Path) -> Result<(), String> {
        let built = {
            let mut all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
            let is_it = |built: &&Arc<Built>| built.source == self.source && built.variant == variant;
            all.iter().find(is_it).cloned().unwrap_or_else(|| {
                let program = OnceLock::new();
                let built = Arc::new(Built { source: self.source.clone(), variant, program });
                all.push_back(Arc::clone(&built));
                if all.len() > BUILT_MAX {
                    all.pop_front();
                }
                built
            })
        };
        let build = || {
            let scratch = Scratch::new(&format!("{}-{}", self.name, variant.name))?;
            self.build(variant, &scratch.join(PROGRAM))?;
            Ok(scratch)
        };
        let folder = built.program.get_or_init(build).as_ref().map_err(String::clone)?;
        // Not by this process: one that it is about to start could hold open what it writes, so that it
        // could not be executed (ETXTBSY). Nor as a link: who is recorded runs a file of its own.
        let mut copy = Command::new("cp");
        copy.arg(folder.join(PROGRAM)).arg(output);
        make_file(copy)
    }

    /// Links it to `output`.
    fn build(&self, variant: Variant, output: &Path) -> Result<(), String> {
        let object = compiled(&self.source, variant.optimisation, &self.build)?;
        let mut command = Command::new("gcc");
        // Libraries stand behind what needs them.
        command.args(variant.arguments()).arg("-o").arg(output).arg(object).args(&self.build);
        make_file(command)
    }
}

/// Runs a command that makes a file; what it said if it failed.
pub fn make_file(mut command: Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let result = command.output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if result.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&result.stderr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_are_read() {
        let text = "// covers: a b\n// covers: c\n// expect: signal 11\nint main;\n";
        assert_eq!(words(text, "covers"), ["a", "b", "c"]);
        assert_eq!(words("# covers: a\n#covers: b\n", "covers"), ["a"]);
        assert_eq!(parse_expectation("signal 11"), Some(139));
        assert_eq!(parse_expectation("exit 3"), Some(3));
        assert_eq!(parse_expectation("nonsense"), None);
    }
}
