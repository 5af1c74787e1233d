//! The layers of crates: dependencies point downwards.

use std::collections::HashMap;

use super::Finding;
use super::tree::{TextFile, Tree};

/// The layers by their folders, with their heights. What runs inside the traced
/// program and what runs outside stand side by side: neither knows the other.
const LAYERS: [(&str, u32); 6] =
    [("mirror", 0), ("vocabulary", 0), ("in-tracee", 1), ("mechanism", 1), ("engine", 2), ("face", 3)];

/// The layer of a path under `crates/`.
fn layer_of(path: &str) -> Option<(&'static str, u32)> {
    let folder = path.strip_prefix("crates/")?.split('/').next()?;
    LAYERS.iter().copied().find(|(name, _)| *name == folder)
}

/// A crate may depend on crates of its own layer and of those below.
pub fn dependencies_point_downwards(tree: &Tree) -> Vec<Finding> {
    let is_manifest =
        |file: &&TextFile| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
    let manifests: Vec<&TextFile> = tree.files.iter().filter(is_manifest).collect();
    let crates: HashMap<&str, (&str, u32)> = manifests
        .iter()
        .filter_map(|file| Some((package_name(&file.text)?, layer_of(&file.path)?)))
        .collect();
    let mut found = Vec::new();
    for file in &manifests {
        let Some((layer, height)) = layer_of(&file.path) else {
            let known: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
            found.push(Finding::new(
                &file.path,
                0,
                format!("the crate is in none of the layers ({})", known.join(", ")),
            ));
            continue;
        };
        for (line, dependency) in dependencies(&file.text) {
            let Some(&(other, below)) = crates.get(dependency) else { continue };
            if other != layer && below >= height {
                let what =
                    format!("{layer} depends on {dependency} of {other}: dependencies point downwards");
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

fn package_name(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Names of all dependencies, those of tests and build scripts included, with
/// their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut in_dependencies = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end().trim_end_matches(']');
            in_dependencies = section.ends_with("dependencies");
            if let Some((before, name)) = section.rsplit_once('.')
                && before.ends_with("dependencies")
            {
                found.push((index + 1, name));
            }
        } else if in_dependencies && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !name.is_empty() {
                found.push((index + 1, name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_and_crossing_dependencies_are_found() {
        let tree = Tree::of(&[
            (
                "crates/vocabulary/words/Cargo.toml",
                "[package]\nname = \"words\"\n[dev-dependencies]\ntool.workspace = true\n",
            ),
            (
                "crates/mechanism/tool/Cargo.toml",
                "[package]\nname = \"tool\"\n[dependencies]\nwords = { path = \"x\" }\n",
            ),
            (
                "crates/in-tracee/inside/Cargo.toml",
                "[package]\nname = \"inside\"\n[dependencies.tool]\npath = \"x\"\n",
            ),
            (
                "crates/face/shown/Cargo.toml",
                "[package]\nname = \"shown\"\n[dependencies]\nserde = \"1\"\ntool.workspace = true\n",
            ),
            ("crates/attic/old/Cargo.toml", "[package]\nname = \"old\"\n"),
        ]);
        let found: Vec<(String, usize)> = dependencies_point_downwards(&tree)
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect();
        let expected = [
            ("crates/vocabulary/words/Cargo.toml", 4),
            ("crates/in-tracee/inside/Cargo.toml", 3),
            ("crates/attic/old/Cargo.toml", 0),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
