//! Files that import each other in a circle.
//!
//! A cycle of a few files is one thing in several files; a large one has no order in which it
//! can be read. `xtask/import-cycles.txt` says how large the largest cycle of each crate is that has
//! one above the limit; a number there may only become smaller.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::{code_of, places, without_tests};
use super::tree::Tree;

/// Files that may import each other in a circle.
const CYCLE_FILES_MAX: usize = 8;
/// `crate: files` for each crate whose largest cycle is above the limit.
const KNOWN: &str = "xtask/import-cycles.txt";

/// No crate has a cycle above the limit, or one that is larger than it was.
pub fn stay_small(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(KNOWN) else { return Vec::new() };
    let mut known: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(": ").map(|(path, files)| (path, files.parse())) {
            Some((path, Ok(files))) => drop(known.insert(path, (index + 1, files))),
            Some((_, Err(_))) | None => {
                found.push(Finding::new(KNOWN, index + 1, "not `crate: files`"));
            }
        }
    }
    for (path, files) in largest(tree) {
        let (line, before) = known.remove(path.as_str()).unwrap_or((0, CYCLE_FILES_MAX));
        if files > before {
            let what = format!("{files} files of {path} import each other in a circle, {before} did");
            found.push(Finding::new(KNOWN, line, what));
        } else if files < before && before > CYCLE_FILES_MAX {
            found.push(Finding::new(KNOWN, line, format!("{path}: {files} files are left, say so")));
        }
    }
    let gone = known.iter().map(|(path, (line, _))| {
        Finding::new(KNOWN, *line, format!("{path} has no such cycle any more: remove the line"))
    });
    found.extend(gone);
    found
}

/// The largest cycle of each crate that has one above the limit, in files.
fn largest(tree: &Tree) -> Vec<(String, usize)> {
    of_each_crate(tree).filter(|(_, files)| *files > CYCLE_FILES_MAX).collect()
}

/// The crate with the largest cycle of all, and the files of that.
pub fn largest_of_all(tree: &Tree) -> Option<(String, usize)> {
    of_each_crate(tree).max_by_key(|(_, files)| *files)
}

fn of_each_crate(tree: &Tree) -> impl Iterator<Item = (String, usize)> {
    let sources = tree.paths.iter().filter(|path| path.starts_with("crates/") && path.ends_with("/src"));
    sources
        .map(|source| (source.trim_end_matches("/src").to_owned(), largest_cycle(&imports_of(tree, source))))
}

/// A module's path in its crate; the root's is empty.
type Module = Vec<String>;

/// Which modules each module of a crate imports.
fn imports_of(tree: &Tree, source: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let files = || tree.rust().filter(|file| file.path.starts_with(&format!("{source}/")) && !file.is_test());
    let module_of = |path: &str| -> Module {
        let inside = path[source.len() + 1..].trim_end_matches(".rs");
        match inside {
            "lib" | "main" => Vec::new(),
            inside => inside.split('/').map(str::to_owned).collect(),
        }
    };
    let modules: BTreeSet<Module> = files().map(|file| module_of(&file.path)).collect();
    let known = |path: &[String]| {
        (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|path| modules.contains(path))
    };
    files()
        .map(|file| {
            let own = module_of(&file.path);
            let code = without_tests(&code_of(&file.text));
            let mut paths = imported_paths(&code, &own);
            let children = modules.iter().filter(|other| other.len() > own.len() && other.starts_with(&own));
            // Names of its own children stand without `crate` and `super`.
            paths.extend(children.filter(|child| names(&code, &child[own.len()])).cloned());
            let imports = paths.iter().filter_map(|path| known(path)).filter(|other| *other != own).collect();
            (own, imports)
        })
        .collect()
}

/// True if the code has a path that begins with this name.
fn names(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    places(code, &path).any(|at| !code[..at].ends_with("::"))
}

/// All paths behind `crate::` and `super::`, from the crate's root.
fn imported_paths(code: &str, own: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for at in places(code, "crate") {
        if let Some(rest) = code[at..].strip_prefix("crate::") {
            expand(rest, &[], &mut paths);
        }
    }
    for at in places(code, "super") {
        // `super::super` is met at its first word.
        if code[..at].ends_with("super::") {
            continue;
        }
        let (mut parent, mut rest) = (own, &code[at..]);
        while let Some(further) = rest.strip_prefix("super::") {
            (parent, rest) = (&parent[..parent.len().saturating_sub(1)], further);
        }
        expand(rest, parent, &mut paths);
    }
    paths
}

/// The paths that a path or a list in braces stands for. Gives the length of what was read.
fn expand(text: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if rest.starts_with('{') {
            return at + expand_list(rest, &path, paths);
        }
        let name = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        if name != 0 {
            path.push(rest[..name].to_owned());
        }
        at += name;
        if name == 0 || !text[at..].starts_with("::") {
            paths.push(path);
            return at;
        }
        at += 2;
    }
}

fn expand_list(text: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'}' => return at + 1,
            byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'{' => {
                at += expand(&text[at..], prefix, paths).max(1);
            }
            _ => at += 1,
        }
    }
    at
}

/// How many modules are in the largest set of which each reaches each.
fn largest_cycle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> usize {
    let reached_from = |from: &Module| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in imports.get(module).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached_from(module))).collect();
    let together = |module: &Module| {
        let all = &reached[module];
        all.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(module))).count()
    };
    imports.keys().map(together).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_grow_are_found() {
        let mut files: Vec<(String, String)> = (0..9)
            .map(|number| {
                let next = (number + 1) % 9;
                (format!("crates/x/y/src/m{number}.rs"), format!("use crate::{{m{next}::{{self, F}}, z}};\n"))
            })
            .collect();
        files.push((
            "crates/x/y/src/m0/child.rs".to_owned(),
            "use super::super::m3;\nuse super::a;\n".to_owned(),
        ));
        files.push(("crates/x/y/src/lib.rs".to_owned(), "use crate::m0;\n".to_owned()));
        files.push((KNOWN.to_owned(), "# cycles\ncrates/x/z: 12\n".to_owned()));
        let named: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let found: Vec<String> = stay_small(&Tree::of(&named)).iter().map(|one| one.what.clone()).collect();
        let expected = [
            "9 files of crates/x/y import each other in a circle, 8 did",
            "crates/x/z has no such cycle any more: remove the line",
        ];
        assert_eq!(found, expected);
    }
}
