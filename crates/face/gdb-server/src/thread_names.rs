//! Names of threads, as the log has them: a thread gives itself one by prctl(2), PR_SET_NAME, or is given one by
//! another through /proc/PID/task/TID/comm (proc(5)), as pthread_setname_np(3) does.
//!
//! Deliberately absent: names that another process gives, and that of the program, which all threads have at first.

use std::collections::HashMap;
use std::sync::LazyLock;

use events::{Event, Kind, Tag};
use syscall_model::by_name;

/// Bytes of a name, as the kernel keeps it (TASK_COMM_LEN without its end).
const NAME_BYTES_MAX: usize = 15;
const PR_SET_NAME: u64 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Control,
    MakeThread,
    Open,
    Write,
    Close,
}

/// Those calls, by their numbers.
static CALLS: LazyLock<HashMap<u16, Call>> = LazyLock::new(|| {
    const NAMES: [(&str, Call); 7] = [
        ("prctl", Call::Control),
        ("clone", Call::MakeThread),
        ("clone3", Call::MakeThread),
        ("open", Call::Open),
        ("openat", Call::Open),
        ("write", Call::Write),
        ("close", Call::Close),
    ];
    NAMES.iter().filter_map(|(name, call)| Some((by_name(name)?.nr, *call))).collect()
});

/// What the calls of one process say of its threads' names. It is given them in the order of the log.
#[derive(Debug)]
pub struct ThreadNames {
    pid: i32,
    /// Threads by what the kernel calls them.
    threads: HashMap<i64, u32>,
    /// Whose name a descriptor leads to.
    opened: HashMap<u64, u32>,
}

impl ThreadNames {
    /// Of the process that was recorded with this id.
    pub fn of(pid: i32) -> ThreadNames {
        ThreadNames { pid, threads: HashMap::from([(i64::from(pid), 0)]), opened: HashMap::new() }
    }

    /// The thread (counted from 0) that has a name from this event of `thread` on, and the name.
    pub fn note<'a>(
        &mut self,
        thread: u32,
        event: &Event<'_>,
        mut blobs: impl Iterator<Item = (Tag, &'a [u8])>,
    ) -> Option<(u32, String)> {
        let call = *CALLS.get(&event.code).filter(|_| event.kind == Kind::Syscall)?;
        let (fd, result) = (event.arg(0), event.result());
        let mut blob = |wanted| blobs.find(|(tag, _)| *tag == wanted).map(|(_, data)| data);
        match call {
            Call::Control if fd & 0xffff_ffff == PR_SET_NAME && result == 0 => {
                Some((thread, name_of(blob(Tag::Text)?)))
            }
            Call::MakeThread if result > 0 => {
                let index = u64::from_le_bytes(blob(Tag::Thread)?.try_into().ok()?);
                self.threads.insert(result, index as u32);
                None
            }
            Call::Open if result >= 0 => {
                let named = blob(Tag::Text).and_then(|path| self.named_by(path, thread));
                match named {
                    Some(thread) => self.opened.insert(result as u64, thread),
                    None => self.opened.remove(&(result as u64)),
                };
                None
            }
            Call::Write if result > 0 => {
                let thread = *self.opened.get(&fd)?;
                let sent = blob(Tag::Sent)?;
                Some((thread, name_of(&sent[..sent.len().min(result as usize)])))
            }
            Call::Close => {
                self.opened.remove(&fd);
                None
            }
            _ => None,
        }
    }

    /// The thread whose name is in the file of this path.
    fn named_by(&self, path: &[u8], thread: u32) -> Option<u32> {
        let path = std::str::from_utf8(path).ok()?.trim_end_matches('\0');
        let of_process = path.strip_prefix("/proc/")?.strip_suffix("/comm")?;
        if of_process == "thread-self" {
            return Some(thread);
        }
        let (process, task) = of_process.split_once("/task/").unwrap_or((of_process, ""));
        let is_own = process == "self" || process.parse() == Ok(self.pid);
        match task {
            _ if !is_own => None,
            "" => Some(0),
            task => self.threads.get(&task.parse().ok()?).copied(),
        }
    }
}

/// As the kernel keeps it.
fn name_of(text: &[u8]) -> String {
    let text = &text[..text.len().min(NAME_BYTES_MAX)];
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(
        names: &mut ThreadNames,
        thread: u32,
        (call, first): (&str, u64),
        result: i64,
        blobs: &[(Tag, &[u8])],
    ) -> Option<(u32, String)> {
        let code = by_name(call).map_or(0, |row| row.nr);
        let body: Vec<u8> = [result as u64, first].iter().flat_map(|word| word.to_le_bytes()).collect();
        let event = Event { kind: Kind::Syscall, flags: 1, code, body: &body };
        names.note(thread, &event, blobs.iter().copied())
    }

    #[test]
    fn a_thread_is_named_by_itself_and_by_others() {
        let mut names = ThreadNames::of(100);
        let text = |name: &'static str| vec![(Tag::Text, name.as_bytes())];
        let own = note(&mut names, 2, ("prctl", PR_SET_NAME), 0, &text("a name that is too long"));
        assert_eq!(own, Some((2, "a name that is ".to_owned())));
        let place = 7u64.to_le_bytes();
        assert_eq!(note(&mut names, 0, ("clone3", 0), 107, &[(Tag::Thread, &place)]), None);
        let places = [
            ("/proc/self/task/107/comm", Some(7)),
            ("/proc/100/task/107/comm", Some(7)),
            ("/proc/self/task/100/comm", Some(0)),
            ("/proc/self/comm", Some(0)),
            ("/proc/thread-self/comm", Some(3)),
            ("/proc/101/task/107/comm", None),
            ("/proc/self/task/108/comm", None),
            ("/tmp/comm", None),
        ];
        for (path, named) in places {
            assert_eq!(note(&mut names, 3, ("openat", 0), 5, &text(path)), None);
            let given = note(&mut names, 3, ("write", 5), 7, &[(Tag::Sent, b"worker\n")]);
            assert_eq!(given, named.map(|thread| (thread, "worker".to_owned())), "{path}");
        }
        note(&mut names, 3, ("openat", 0), 5, &text("/proc/self/comm"));
        note(&mut names, 3, ("close", 5), 0, &[]);
        assert_eq!(note(&mut names, 3, ("write", 5), 1, &[(Tag::Sent, b"x")]), None);
    }
}
