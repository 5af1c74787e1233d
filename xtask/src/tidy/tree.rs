//! The files of the workspace, as text.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// One text file.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

impl TextFile {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True for what only tests run.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches")
    }
}

/// The workspace.
#[derive(Debug, Default)]
pub struct Tree {
    pub root: PathBuf,
    pub files: Vec<TextFile>,
    /// Every file and folder, relative to the root.
    pub paths: BTreeSet<String>,
}

impl Tree {
    /// Reads all text files under `root`.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree { root: root.to_owned(), ..Tree::default() };
        tree.add_folder("")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn add_folder(&mut self, folder: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if SKIPPED.contains(&name.as_str()) || kind.is_symlink() {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            self.paths.insert(path.clone());
            if kind.is_dir() {
                self.add_folder(&path)?;
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                self.files.push(TextFile { path, text });
            }
        }
        Ok(())
    }

    /// The file with this path.
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// A tree of these files, for tests of checks.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.files.push(TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
            for (at, _) in path.match_indices('/') {
                tree.paths.insert(path[..at].to_owned());
            }
            tree.paths.insert((*path).to_owned());
        }
        tree
    }
}
