//! Which end of what a descriptor of a process leads to, as far as the log tells.

use std::collections::HashMap;

/// Number of an end in [`super::ends::Ends`].
pub type EndNumber = usize;

#[derive(Debug, Clone, Copy)]
struct Descriptor {
    end: EndNumber,
    closes_on_exec: bool,
}

type Table = HashMap<i32, Descriptor>;

/// The descriptors of all processes. Descriptors that lead to nothing of interest are not in it.
#[derive(Debug, Default)]
pub struct Descriptors {
    tables: Vec<Table>,
    /// Number of each process's table, by its position: processes may share one.
    of_process: HashMap<usize, usize>,
}

impl Descriptors {
    fn table(&mut self, process: usize) -> &mut Table {
        let tables = &mut self.tables;
        let number = *self.of_process.entry(process).or_insert_with(|| {
            tables.push(Table::new());
            tables.len() - 1
        });
        &mut tables[number]
    }

    /// A process was made: it has a copy of its maker's descriptors, or the same.
    pub fn born(&mut self, parent: usize, child: usize, shares: bool) {
        let copy = self.table(parent).clone();
        let number = match (shares, self.of_process.get(&parent)) {
            (true, Some(number)) => *number,
            _ => {
                self.tables.push(copy);
                self.tables.len() - 1
            }
        };
        self.of_process.insert(child, number);
    }

    /// A new image: it has a table of its own, without what closes.
    pub fn executed(&mut self, process: usize) {
        let mut kept = self.table(process).clone();
        kept.retain(|_, descriptor| !descriptor.closes_on_exec);
        self.tables.push(kept);
        self.of_process.insert(process, self.tables.len() - 1);
    }

    pub fn end_of(&mut self, process: usize, fd: i32) -> Option<EndNumber> {
        self.table(process).get(&fd).map(|descriptor| descriptor.end)
    }

    pub fn set(&mut self, process: usize, fd: i32, end: EndNumber, closes_on_exec: bool) {
        self.table(process).insert(fd, Descriptor { end, closes_on_exec });
    }

    pub fn copy(&mut self, process: usize, from: i32, to: i32, closes_on_exec: bool) {
        match self.end_of(process, from) {
            Some(end) => self.set(process, to, end, closes_on_exec),
            None => self.close(process, to..=to),
        }
    }

    pub fn set_closes_on_exec(&mut self, process: usize, fds: std::ops::RangeInclusive<i32>, closes: bool) {
        for (fd, descriptor) in self.table(process) {
            if fds.contains(fd) {
                descriptor.closes_on_exec = closes;
            }
        }
    }

    pub fn close(&mut self, process: usize, fds: std::ops::RangeInclusive<i32>) {
        self.table(process).retain(|fd, _| !fds.contains(fd));
    }
}
