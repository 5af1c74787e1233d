//! The table of what checkpoints cost, beside a plain fork of the same process.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::figures::{Curve, Figure, log};

/// Compiles the program, runs it in a live session, and prints its table.
pub fn measure(tool: &Path) -> Result<Vec<Figure>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("checkpoints");
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-iquote"])
        .arg(here.join("../include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("micro/checkpoints.c"))
        .status()
        .map_err(|error| format!("cannot start gcc: {error}"))?;
    if !compiled.success() {
        return Err("micro/checkpoints.c does not compile".to_owned());
    }
    let output = Command::new(tool)
        .args(["live", "--home"])
        .arg(folder.path())
        .arg("--")
        .arg(&program)
        .current_dir(folder.path())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", tool.display()))?;
    let table = String::from_utf8_lossy(&output.stdout);
    print!("{table}");
    if !output.status.success() {
        return Err(format!("the table of checkpoints: {}", output.status));
    }
    Ok(figures(&rows(&table)))
}

/// What the program measured for one size and one part of it, in microseconds.
#[derive(Debug, PartialEq)]
struct Row {
    size_mb: f64,
    written_kb: f64,
    fork: f64,
    first: f64,
    later: f64,
    reap: f64,
    discard: f64,
    rollback: f64,
}

impl Row {
    fn is_all_written(&self) -> bool {
        self.written_kb == self.size_mb * 1024.0
    }
}

fn rows(table: &str) -> Vec<Row> {
    table.lines().filter_map(row).collect()
}

/// A line of twelve numbers; ratios are among them.
fn row(line: &str) -> Option<Row> {
    let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[size_mb, written_kb, fork, first, _, later, _, reap, discard, _, rollback, _] = &numbers[..] else {
        return None;
    };
    Some(Row { size_mb, written_kb, fork, first, later, reap, discard, rollback })
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let curves = |wanted: &dyn Fn(&Row) -> bool, x: &dyn Fn(&Row) -> f64| {
        let those: Vec<&Row> = rows.iter().filter(|row| wanted(row)).collect();
        let curve = |name: &str, y: &dyn Fn(&Row) -> f64| {
            Curve::measured(name, those.iter().map(|row| (x(row), y(row))).collect())
        };
        vec![
            curve("fork", &|row| row.fork),
            curve("first checkpoint", &|row| row.first),
            curve("later checkpoint", &|row| row.later),
            curve("discard", &|row| row.discard),
            curve("end of a forked child", &|row| row.reap),
            curve("rollback", &|row| row.rollback),
        ]
    };
    let part = Figure {
        name: "figure-4a-checkpoints-40-mb".to_owned(),
        title: "Figure 4a: a process of 40 MB, by what is written between checkpoints".to_owned(),
        x: log("KB written"),
        y: log("us"),
        curves: curves(&|row| row.size_mb == 40.0, &|row| row.written_kb),
    };
    let mut all = Figure {
        name: "figure-4b-checkpoints-by-size".to_owned(),
        title: "Figure 4b: by the size of the process, all of it written between checkpoints".to_owned(),
        x: log("KB"),
        y: log("us"),
        curves: curves(&Row::is_all_written, &|row| row.written_kb),
    };
    // The ends of the paper's curves, as its section 6.1 gives them.
    let papers =
        |name: &str, most: f64, least: f64| Curve::of_paper(name, vec![(4.0, least), (409_600.0, most)]);
    all.curves.push(papers("paper: checkpoint", 1600.0, 25.0));
    all.curves.push(papers("paper: discard, rollback", 7500.0, 28.0));
    vec![part, all]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "size MB  written KB  fork us  first us  ratio  later us  ratio  reap us  discard us  ratio  \
                         rollback us  us/page beyond 1 ms
      4           4      150       160   1.07       110   0.73       90         120   1.33        1200   200.00
     40       40960     1450      1350   0.93       980   0.68      400         410   1.03       22000     2.05
";

    #[test]
    fn the_table_is_read() {
        let rows = rows(TABLE);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].first, rows[0].later, rows[0].rollback), (160.0, 110.0, 1200.0));
        assert!(!rows[0].is_all_written() && rows[1].is_all_written());
    }

    #[test]
    fn figures_have_what_they_are_named_for() {
        let figures = figures(&rows(TABLE));
        assert_eq!(figures[0].curves[0].points, [(40960.0, 1450.0)]);
        let all = &figures[1];
        assert_eq!(all.curves[5].points, [(40960.0, 22000.0)]);
        assert!(all.curves[6].is_papers && !all.curves[5].is_papers);
    }
}
