//! Files of /proc and of control groups by which a program learns of memory, processor time and the machine's load, as
//! a node sees them: numbers of the lab in place of the machine's.
//!
//! A process has in memory what is mapped writable for it alone: how much of that the kernel has found a page for
//! is the machine's. Deliberately absent: how a file changes that a program keeps open and reads again (it is
//! as it was when it was opened).

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use lane_protocol::LAB_PROCESS_FILES;

use crate::engine::Engine;
use crate::proc_maps::{FileNumbers, with_numbers};
use crate::sizes::{Sizes, known_sizes, sizes_of_line};
use crate::timers::{BILLION, MACHINE_BYTES, MACHINE_FREE_BYTES};

const TICKS_PER_SECOND: u64 = 100;
const PAGE_BYTES: u64 = 4096;
const KILO: u64 = 1024;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// A file of the machine.
    Machine(String),
    /// A file of a process: which (`None`: who asks), the thread if one is named, which file.
    Process { pid: Option<i32>, thread: Option<i32>, file: String },
    /// A file whose words that are numbers are zero.
    Zeros,
}

const OF_MACHINE: [&str; 6] =
    ["meminfo", "loadavg", "uptime", "stat", "sys/kernel/random/uuid", "sys/kernel/random/boot_id"];

fn named(path: &str) -> Option<Named> {
    if path.starts_with("/sys/fs/cgroup/") {
        let is_count = ["/memory.current", "/memory.peak", "/memory.stat", "/cpu.stat", "/io.stat"];
        return is_count.iter().any(|name| path.ends_with(name)).then_some(Named::Zeros);
    }
    let rest = path.strip_prefix("/proc/")?;
    if OF_MACHINE.contains(&rest) {
        return Some(Named::Machine(rest.to_owned()));
    }
    if rest == "vmstat" || rest.starts_with("pressure/") {
        return Some(Named::Zeros);
    }
    let (whose, mut file) = rest.split_once('/')?;
    let mut thread = None;
    if let Some(of_thread) = file.strip_prefix("task/") {
        let (number, rest) = of_thread.split_once('/')?;
        (thread, file) = (Some(number.parse().ok()?), rest);
    }
    let pid = match whose {
        "self" | "thread-self" => None,
        number => Some(number.parse().ok()?),
    };
    LAB_PROCESS_FILES.contains(&file).then(|| Named::Process { pid, thread, file: file.to_owned() })
}

/// Words that are numbers become zero.
fn zeros(text: &str) -> String {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let zero = |word: &str| match word.split_once('=') {
        Some((name, value)) if is_number(value) => {
            format!("{name}=0{}", if value.contains('.') { ".00" } else { "" })
        }
        _ if is_number(word) => "0".to_owned(),
        _ => word.to_owned(),
    };
    text.lines().map(|line| line.split(' ').map(zero).collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// proc_pid_smaps(5), of what is the program's: what is mapped writable for it alone counts as resident and changed,
/// and nothing else.
pub fn smaps(text: &str, numbers: &mut impl FnMut(FileNumbers) -> FileNumbers) -> String {
    let (mut told, mut shown) = (String::new(), None);
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        // The header of a mapping.
        let is_header = name.contains('-');
        if is_header {
            shown = sizes_of_line(line).filter(|_| !line.ends_with("[vdso]"));
        }
        let Some(sizes) = shown else { continue };
        // Writing to a string does not fail.
        let _ = match name {
            _ if is_header => writeln!(told, "{}", with_numbers(line, numbers)),
            "Rss" | "Pss" | "Pss_Dirty" | "Private_Dirty" | "Referenced" | "Anonymous" => {
                kilos(&mut told, name, sizes.own)
            }
            "Size" | "KernelPageSize" | "MMUPageSize" | "THPeligible" => writeln!(told, "{line}"),
            // Which pages were written to lately is asked by the runtime.
            "VmFlags" => writeln!(told, "{}", line.replace(" sd", "")),
            _ if value.ends_with(" kB") => kilos(&mut told, name, 0),
            _ => writeln!(told, "{line}"),
        };
    }
    told
}

/// What the scheduler of the kernel has counted of a thread (/proc/PID/sched), none of which is the lab's.
fn sched(text: &str) -> String {
    let counted = text.lines().filter_map(|line| line.split_once(" : ").or_else(|| line.split_once(':')));
    counted.map(|(name, _)| format!("{:45}:{:>21}\n", name.trim_end(), 0)).collect()
}

/// A line of proc_pid_smaps(5) that says how much something is.
fn kilos(told: &mut String, name: &str, bytes: u64) -> std::fmt::Result {
    writeln!(told, "{:16}{:8} kB", format!("{name}:"), bytes / KILO)
}

/// What of a process is not in its file as the kernel has it.
struct Process {
    sizes: Sizes,
    began_ticks: u64,
    runs: bool,
}

impl Process {
    fn state(&self, state: &str) -> String {
        match state {
            "Z" | "T" | "t" | "X" => state,
            _ if self.runs => "R",
            _ => "S",
        }
        .to_owned()
    }

    /// proc_pid_stat(5).
    fn stat(&self, text: &str) -> Option<String> {
        let (name, rest) = text.rsplit_once(") ")?;
        let mut fields: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        let zeros = [10, 11, 12, 13, 14, 15, 16, 17, 29, 30, 35, 39, 42, 43, 44];
        // The first one that is not the name's is the third.
        for number in zeros {
            *fields.get_mut(number - 3)? = "0".to_owned();
        }
        // The lab's own, which is told where it keeps the run, has its code and its words where nobody sees them.
        if text.starts_with("1 (retrovane) ") {
            for number in (26..=28).chain(45..=51) {
                *fields.get_mut(number - 3)? = "0".to_owned();
            }
        }
        fields[0] = self.state(&fields[0]);
        fields[22 - 3] = self.began_ticks.to_string();
        fields[23 - 3] = self.sizes.mapped.to_string();
        fields[24 - 3] = (self.sizes.own / PAGE_BYTES).to_string();
        Some(format!("{name}) {}\n", fields.join(" ")))
    }

    fn statm(&self) -> String {
        let [mapped, own] = [self.sizes.mapped / PAGE_BYTES, self.sizes.own / PAGE_BYTES];
        format!("{mapped} {own} 0 0 0 {own} 0\n")
    }

    /// proc_pid_status(5).
    fn status(&self, text: &str, processors: &[u64]) -> String {
        let (mapped, own) = (self.sizes.mapped / KILO, self.sizes.own / KILO);
        let mut told = String::new();
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let kilos = match name {
                "VmPeak" | "VmSize" => Some(mapped),
                "VmHWM" | "VmRSS" | "RssAnon" | "VmData" => Some(own),
                _ if name.starts_with("Vm") || name.starts_with("Rss") || name == "HugetlbPages" => Some(0),
                _ => None,
            };
            // Writing to a string does not fail.
            let _ = match (name, kilos) {
                (_, Some(kilos)) => writeln!(told, "{name}:\t{kilos:8} kB"),
                ("State", _) => {
                    let state = self.state(value.trim().split(' ').next().unwrap_or_default());
                    let words = if state == "R" { "R (running)" } else { "S (sleeping)" };
                    writeln!(told, "State:\t{}", if "RS".contains(&state) { words } else { value.trim() })
                }
                ("TracerPid" | "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches", _) => {
                    writeln!(told, "{name}:\t0")
                }
                // Of all processes of the machine's user.
                ("SigQ", _) => {
                    writeln!(told, "{name}:\t0/{}", value.split_once('/').unwrap_or_default().1)
                }
                ("Cpus_allowed", _) => writeln!(told, "{name}:\t{}", mask(processors)),
                ("Cpus_allowed_list", _) => writeln!(told, "{name}:\t{}", list(processors)),
                _ => writeln!(told, "{line}"),
            };
        }
        told
    }

    fn rollup(&self, text: &str) -> String {
        let mut told = String::new();
        for line in text.lines() {
            let name = line.split_once(':').map(|(name, _)| name).filter(|_| line.ends_with(" kB"));
            let own = matches!(
                name,
                Some("Rss" | "Pss" | "Pss_Dirty" | "Pss_Anon" | "Private_Dirty" | "Anonymous")
            );
            let _ = match name {
                Some(name) => kilos(&mut told, name, if own { self.sizes.own } else { 0 }),
                None => writeln!(told, "{line}"),
            };
        }
        told
    }
}

/// As the kernel writes a set of processors: words of 32 bits.
fn mask(processors: &[u64]) -> String {
    let halves = processors.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
    let mut halves: Vec<String> = halves.map(|half| format!("{half:08x}")).collect();
    while halves.len() > 1 && halves.last().is_some_and(|half| half == "00000000") {
        halves.pop();
    }
    halves.reverse();
    halves.join(",")
}

fn numbers(processors: &[u64]) -> Vec<usize> {
    (0..64 * processors.len()).filter(|one| processors[one / 64] >> (one % 64) & 1 != 0).collect()
}

/// The same as numbers, of which those that follow each other are joined.
fn list(processors: &[u64]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for one in numbers(processors) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == one => *last = one,
            _ => ranges.push((one, one)),
        }
    }
    let text =
        |(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn meminfo() -> String {
    let (total, free) = (MACHINE_BYTES / KILO, MACHINE_FREE_BYTES / KILO);
    let cached = (total - free) / 2;
    let mut text = String::new();
    for (name, kilos) in [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free + cached),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapCached", 0),
        ("Active", total - free - cached),
        ("Inactive", cached),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", total - free - cached),
        ("Mapped", 0),
        ("Shmem", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
        ("SUnreclaim", 0),
        ("CommitLimit", total),
        ("Committed_AS", total - free),
        ("VmallocTotal", 34_359_738_367),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:16}{kilos:8} kB", format!("{name}:"));
    }
    text + "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"
}

/// As random UUIDs are written.
fn uuid([high, low]: [u64; 2]) -> String {
    let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 1 << 63);
    let parts = [high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff];
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\n", parts[0], parts[1], parts[2], parts[3], parts[4])
}

impl Engine {
    /// What a node reads of a file; `None`: the file is the kernel's.
    pub fn proc_file(&mut self, slot: u32, path: &str) -> Option<String> {
        match named(path)? {
            Named::Zeros => Some(zeros(&std::fs::read_to_string(path).ok()?)),
            Named::Machine(name) => self.machine_file(&name),
            Named::Process { pid, thread, file } => self.process_file(slot, pid, thread, &file),
        }
    }

    fn told_processors(&self) -> Vec<u64> {
        self.memory.lab().processors.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    fn machine_file(&mut self, name: &str) -> Option<String> {
        let lab = self.memory.lab();
        let booted_ns = lab.monotonic_ns.load(Ordering::Relaxed);
        let up_ns = booted_ns + self.now_ns;
        Some(match name {
            "meminfo" => meminfo(),
            "loadavg" => "0.00 0.00 0.00 1/1 1\n".to_owned(),
            "uptime" => {
                let text = format!("{}.{:02}", up_ns / BILLION, up_ns % BILLION / 10_000_000);
                format!("{text} {text}\n")
            }
            "stat" => {
                let began_s = lab.realtime_ns.load(Ordering::Relaxed).saturating_sub(booted_ns) / BILLION;
                let zeros = " 0".repeat(10);
                let each: String =
                    numbers(&self.told_processors()).iter().map(|one| format!("cpu{one}{zeros}\n")).collect();
                format!(
                    "cpu {zeros}\n{each}intr 0\nctxt 0\nbtime {began_s}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq{zeros} 0\n"
                )
            }
            "sys/kernel/random/boot_id" => {
                let mut random = fabric::Random::new(self.spec.seed);
                uuid([random.word(), random.word()])
            }
            _ => uuid([self.random.word(), self.random.word()]),
        })
    }

    /// Whether a thread, by its id within the node, is the one that asks, or would go on if others let it.
    fn runs(&self, asking: u32, pid: i32, thread: i32) -> bool {
        let id_of = |slot: u32| self.memory.lab().slots[slot as usize].tid.load(Ordering::Relaxed);
        let found = self.processes.slots_of(pid).into_iter().find(|&slot| id_of(slot) == thread);
        // One that has asked for nothing yet is about to begin.
        found.is_none_or(|slot| {
            slot == asking || self.ready.iter().any(|(ready, answer)| *ready == slot && !answer.is_look())
        })
    }

    fn process_file(
        &mut self,
        slot: u32,
        pid: Option<i32>,
        thread: Option<i32>,
        file: &str,
    ) -> Option<String> {
        let own = self.processes.of_slot(slot)?;
        let asked = match pid {
            None => own.inner_pid,
            Some(pid) => pid,
        };
        let mut all = self.processes.processes.iter();
        let (outer, process) = all.find(|(_, one)| one.node == own.node && one.inner_pid == asked)?;
        if file == "schedstat" {
            return Some("0 0 0\n".to_owned());
        }
        // As the node's own /proc has it, with the numbers of its processes.
        let of_thread = thread.map_or(String::new(), |thread| format!("task/{thread}/"));
        let path = format!("/proc/{outer}/root/proc/{asked}/{of_thread}{file}");
        let text = std::fs::read_to_string(path).ok()?;
        let began_ns = self.memory.lab().monotonic_ns.load(Ordering::Relaxed) + process.began_ns;
        let told = Process {
            sizes: known_sizes(*outer, &process.sizes)?,
            began_ticks: began_ns / (BILLION / TICKS_PER_SECOND),
            runs: self.runs(slot, *outer, thread.unwrap_or(asked)),
        };
        match file {
            "stat" => told.stat(&text),
            "statm" => Some(told.statm()),
            "status" => Some(told.status(&text, &self.told_processors())),
            "smaps_rollup" => Some(told.rollup(&text)),
            "sched" => Some(sched(&text)),
            "maps" | "smaps" | "mountinfo" => {
                let node = own.node;
                Some(self.named_files(node, file, &text))
            }
            _ => Some(zeros(&text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use lane_protocol::REGION_START;

    use super::*;

    #[test]
    fn files_are_found_by_their_paths() {
        let process = |pid, thread, file: &str| Some(Named::Process { pid, thread, file: file.to_owned() });
        assert_eq!(named("/proc/self/stat"), process(None, None, "stat"));
        assert_eq!(named("/proc/12/task/13/status"), process(Some(12), Some(13), "status"));
        assert_eq!(named("/proc/meminfo"), Some(Named::Machine("meminfo".to_owned())));
        assert_eq!(named("/sys/fs/cgroup/a/memory.current"), Some(Named::Zeros));
        assert_eq!(named("/proc/self/exe"), None);
        assert_eq!(named("/proc/version"), None);
    }

    #[test]
    fn a_process_is_told_what_the_lab_knows() {
        let told = Process { sizes: Sizes { mapped: 1 << 20, own: 1 << 16 }, began_ticks: 7, runs: true };
        let fields: String = (4..=52).map(|field| format!(" {field}")).collect();
        let stat = told.stat(&format!("2 (a ) b) S{fields}\n")).unwrap_or_default();
        assert!(
            stat.starts_with("2 (a ) b) R 4 5 6 7 8 9 0 0 0 0 0 0 0 0 18 19 20 21 7 1048576 16 25 "),
            "{stat}"
        );
        let of_the_lab = told.stat(&format!("1 (retrovane) S{fields}\n")).unwrap_or_default();
        assert!(of_the_lab.ends_with(" 0 0 0 0 0 0 0 52\n"), "{of_the_lab}");
        let status = told.status(
            "Name:\tx\nVmRSS:\t 5 kB\nState:\tS (sleeping)\nSigQ:\t3/96365\nCpus_allowed_list:\t1\n",
            &[0b1011],
        );
        assert_eq!(
            status,
            "Name:\tx\nVmRSS:\t      64 kB\nState:\tR (running)\nSigQ:\t0/96365\nCpus_allowed_list:\t0-1,3\n"
        );
    }

    #[test]
    fn what_is_written_to_is_resident() {
        let one = |range: &str, rights: &str, name: &str| {
            format!(
                "{range} {rights} 0 00:00 0 {name}\nSize: 8 kB\nRss: 4 kB\nPrivate_Clean: 4 kB\nVmFlags: rd wr sd \n"
            )
        };
        let ours = format!("{REGION_START:x}-{:x}", REGION_START + 8192);
        let text = one("1000-3000", "rw-p", "")
            + &one(&ours, "rw-p", "")
            + &one("5000-7000", "r-xp", "[vdso]")
            + &one("8000-a000", "r--p", "/a-b: c");
        let told = smaps(&text, &mut |file| file);
        let lines: Vec<&str> = told.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "1000-3000 rw-p 0 00:00 0",
                "Size: 8 kB",
                "Rss:                   8 kB",
                "Private_Clean:         0 kB",
                "VmFlags: rd wr",
                "8000-a000 r--p 0 00:00 0 /a-b: c",
                "Size: 8 kB",
                "Rss:                   0 kB",
                "Private_Clean:         0 kB",
                "VmFlags: rd wr",
            ]
        );
    }

    #[test]
    fn counts_are_zero() {
        assert_eq!(zeros("anon 12\nsome avg10=1.20 total=7\n"), "anon 0\nsome avg10=0.00 total=0\n");
        assert_eq!(uuid([0, 0]), "00000000-0000-4000-8000-000000000000\n");
    }
}
