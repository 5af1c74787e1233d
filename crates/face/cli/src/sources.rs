//! Sources of a recorded program: which ones its debug information names, and where gdb finds those of a pack.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use trace_store::{SourceFile, TraceReader};

/// The folder of sources in a debugger's private one.
const FOLDER: &str = "sources";
/// How a source is called. Debug information can name any file: what is no source is not packed.
const ENDS: [&str; 33] = [
    "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "inl", "tcc", "def", "rs", "go", "s", "S", "asm", "py",
    "pyx", "d", "f", "f90", "f95", "zig", "swift", "adb", "ads", "pas", "nim", "m", "mm", "y", "l", "cu",
];

/// The sources that the debug information of a trace's files names: those that came with it, else those that are here.
pub fn named(trace: &TraceReader) -> Vec<SourceFile> {
    let brought = trace.sources();
    let known: HashMap<String, PathBuf> =
        brought.into_iter().map(|source| (source.named, source.content)).collect();
    let mut paths: BTreeSet<String> = known.keys().cloned().collect();
    for kept in trace.files() {
        let Ok(path) = trace.file_path(&kept.file) else { continue };
        let all =
            printer::source_files(&path).into_iter().filter(|path| path.is_absolute() && is_source(path));
        paths.extend(all.filter_map(|path| path.to_str().map(str::to_owned)));
    }
    // A stranger's trace says nothing about files that are here.
    let may_look = !trace.came_in_pack();
    let content = |named: &str| match known.get(named) {
        Some(content) => Some(content.clone()),
        None => Some(PathBuf::from(named)).filter(|path| may_look && path.is_file()),
    };
    paths.into_iter().filter_map(|named| Some(SourceFile { content: content(&named)?, named })).collect()
}

fn is_source(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| ENDS.contains(&end))
}

/// Puts the sources that came with a trace in a private folder, and gives the settings by which gdb
/// finds them there.
pub fn for_gdb(trace: &TraceReader, folder: &Path) -> Vec<String> {
    let root = folder.join(FOLDER);
    let mut tops = BTreeSet::new();
    for source in trace.sources() {
        if let Some(top) = put(&root, &source) {
            tops.insert(top);
        }
    }
    tops.iter().map(|top| format!("set substitute-path /{top} {}/{top}", root.display())).collect()
}

/// Puts one source there, and makes the folders that its path goes through; gives the first of them.
fn put(root: &Path, source: &SourceFile) -> Option<String> {
    let (mut place, mut top) = (root.to_owned(), None);
    let path = Path::new(&source.named);
    let parent = path.strip_prefix("/").ok()?.parent()?;
    for part in parent.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            // What would lead out of the folder is no path of a source.
            Component::ParentDir if place != root => drop(place.pop()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
        std::fs::create_dir_all(&place).ok()?;
        top = top.or_else(|| part.as_os_str().to_str().map(str::to_owned));
    }
    // gdb takes its setting by words.
    let is_plain =
        |top: &String| top.chars().all(|char| char.is_ascii_alphanumeric() || "._-+".contains(char));
    let top = top.filter(is_plain)?;
    // A symbolic link would be shown by the name that it leads to.
    let to = place.join(path.file_name()?);
    std::fs::hard_link(&source.content, &to)
        .or_else(|_| std::fs::copy(&source.content, &to).map(drop))
        .ok()?;
    Some(top)
}
