//! Documents name only what exists.

use super::Finding;
use super::tree::{TextFile, Tree};

/// Checks the paths that documents and comments name.
pub fn name_what_exists(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            let is_comment = file.is_rust() && line.trim_start().starts_with("//");
            let is_text = file.path.ends_with(".md");
            if !is_text && !is_comment {
                continue;
            }
            let mut missing: Vec<String> = named_paths(line).filter(|path| !exists(tree, path)).collect();
            if is_text {
                let broken = links(line).filter(|link| !link_exists(tree, file, link));
                missing.extend(broken.map(|link| link.split('#').next().unwrap_or_default().to_owned()));
            }
            found.extend(
                missing
                    .into_iter()
                    .map(|path| Finding::new(&file.path, index + 1, format!("{path} does not exist"))),
            );
        }
    }
    found
}

/// The index of decisions.
const DECISIONS: &str = "docs/adr/README.md";

/// Each decision is in the index, by a link.
pub fn list_all_decisions(tree: &Tree) -> Vec<Finding> {
    let index = tree.file(DECISIONS).map_or("", |file| file.text.as_str());
    let listed: Vec<&str> = index.lines().flat_map(links).collect();
    let decisions = tree.files.iter().filter_map(|file| file.path.strip_prefix("docs/adr/"));
    decisions
        .filter(|name| *name != "README.md" && !listed.contains(name))
        .map(|name| Finding::new(DECISIONS, 0, format!("{name} is not listed")))
        .collect()
}

/// Paths in backquotes, with braces expanded.
fn named_paths(line: &str) -> impl Iterator<Item = String> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains('/')).flat_map(expand)
}

/// A path with `{a,b}` as the paths that it stands for.
fn expand(path: &str) -> Vec<String> {
    let Some((start, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((list, end)) = rest.split_once('}') else { return vec![path.to_owned()] };
    list.split(',').flat_map(|part| expand(&format!("{start}{}{end}", part.trim()))).collect()
}

/// True unless the text is a path of this tree that is not there.
fn exists(tree: &Tree, text: &str) -> bool {
    let is_path = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let path = text.trim_end_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    // What does not begin with a folder of ours is a path of somebody else's.
    let is_ours = path.contains('/') && !first.is_empty() && tree.paths.contains(first);
    !is_path || !is_ours || tree.paths.contains(path)
}

/// Targets of links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn link_exists(tree: &Tree, file: &TextFile, link: &str) -> bool {
    let target = link.split(['#', ' ']).next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    tree.paths.contains(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_that_the_index_lacks_are_found() {
        let index = "| 0001 | [One](0001-one.md) |\n";
        let tree =
            Tree::of(&[(DECISIONS, index), ("docs/adr/0001-one.md", ""), ("docs/adr/0002-two.md", "")]);
        let found: Vec<String> = list_all_decisions(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["0002-two.md is not listed"]);
    }

    #[test]
    fn missing_paths_are_found() {
        let text = "\
See `crates/x/src/{lib,gone}.rs`, `crates/x/`, `/proc/self` and `a/b`.
A [link](../crates/x/src/lib.rs), another [one](y.md#part), [outside](https://x/y).
";
        let source = "//! Written in `docs/none.md`.\nlet a = \"`docs/none.md`\";\n";
        let tree = Tree::of(&[("docs/a.md", text), ("crates/x/src/lib.rs", source)]);
        let found: Vec<String> = name_what_exists(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(
            found,
            ["crates/x/src/gone.rs does not exist", "y.md does not exist", "docs/none.md does not exist"]
        );
    }
}
