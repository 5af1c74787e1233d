//! Names of things: of sockets' addresses, and calls that change names of files.

use super::*;

use std::net::{Ipv4Addr, Ipv6Addr};

use linux_abi::general as raw;
use linux_abi::net;

/// Kind and name of what is connected to, from the beginning of its address.
pub fn of_address(address: &[u8], bytes: u64, is_datagram: bool) -> Option<(StreamKind, String)> {
    let family = u16::from_le_bytes(address.get(..2)?.try_into().ok()?);
    let inet = if is_datagram { StreamKind::Udp } else { StreamKind::Tcp };
    let port = || Some(u16::from_be_bytes(address.get(2..4)?.try_into().ok()?));
    match u32::from(family) {
        net::AF_UNIX => {
            let path = address.get(2..address.len().min(usize::try_from(bytes).ok()?))?;
            // In the abstract namespace the first byte is 0.
            let (start, rest) = match path.split_first() {
                Some((0, rest)) => ("@", rest),
                Some(_) => ("", path),
                None => return None,
            };
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            Some((StreamKind::Unix, format!("{start}{}", String::from_utf8_lossy(&rest[..end]))))
        }
        net::AF_INET => {
            let bytes: [u8; 4] = address.get(4..8)?.try_into().ok()?;
            Some((inet, format!("{}:{}", Ipv4Addr::from(bytes), port()?)))
        }
        net::AF_INET6 => {
            let bytes: [u8; 16] = address.get(8..24)?.try_into().ok()?;
            Some((inet, format!("{}:{}", Ipv6Addr::from(bytes), port()?)))
        }
        _ => None,
    }
}

/// The address of a Unix socket that was named from the program's directory, which the replay is not in;
/// nothing for all others.
pub(super) fn absolute_address(directory: &Path, address: &[u8], kind: StreamKind) -> Vec<u8> {
    let path = address.get(2..).unwrap_or_default();
    if kind != StreamKind::Unix || path.first().is_none_or(|&byte| byte == 0 || byte == b'/') {
        return Vec::new();
    }
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    let mut whole = address[..2].to_vec();
    whole.extend(directory.as_os_str().as_encoded_bytes());
    whole.push(b'/');
    whole.extend(&path[..end]);
    whole.push(0);
    whole
}

impl Planner<'_> {
    /// Calls that make, remove and rename what is written for real.
    pub(super) fn call_on_names(&mut self, process: &Descriptors, whole: &WholeEvent, number: u32) {
        const HERE: u64 = raw::AT_FDCWD as i64 as u64;
        const ONE: u64 = real::FIRST_PATH;
        const TWO: u64 = real::SECOND_PATH;
        let event = whole.event();
        let arg = |index: usize| event.arg(index);
        let path = |directory: Option<usize>, index: usize| {
            process.path(directory.map(|index| event.arg(index) as i32), &text_at(whole, event.arg(index)))
        };
        let two = |first: Option<PathBuf>, second: Option<PathBuf>| Some((first?, Some(second?)));
        let one = |first: Option<PathBuf>| Some((first?, None));
        let (paths, call): (_, [u64; 6]) = match number {
            raw::__NR_unlink => (one(path(None, 0)), [raw::__NR_unlinkat.into(), HERE, ONE, 0, 0, 0]),
            raw::__NR_rmdir => {
                (one(path(None, 0)), [raw::__NR_unlinkat.into(), HERE, ONE, raw::AT_REMOVEDIR.into(), 0, 0])
            }
            raw::__NR_unlinkat => {
                (one(path(Some(0), 1)), [raw::__NR_unlinkat.into(), HERE, ONE, arg(2), 0, 0])
            }
            raw::__NR_mkdir => (one(path(None, 0)), [raw::__NR_mkdirat.into(), HERE, ONE, arg(1), 0, 0]),
            raw::__NR_mkdirat => (one(path(Some(0), 1)), [raw::__NR_mkdirat.into(), HERE, ONE, arg(2), 0, 0]),
            raw::__NR_chmod => (one(path(None, 0)), [raw::__NR_fchmodat.into(), HERE, ONE, arg(1), 0, 0]),
            raw::__NR_fchmodat => {
                (one(path(Some(0), 1)), [raw::__NR_fchmodat.into(), HERE, ONE, arg(2), 0, 0])
            }
            raw::__NR_truncate => (one(path(None, 0)), [raw::__NR_truncate.into(), ONE, arg(1), 0, 0, 0]),
            raw::__NR_rename => {
                (two(path(None, 0), path(None, 1)), [raw::__NR_renameat2.into(), HERE, ONE, HERE, TWO, 0])
            }
            raw::__NR_renameat => (
                two(path(Some(0), 1), path(Some(2), 3)),
                [raw::__NR_renameat2.into(), HERE, ONE, HERE, TWO, 0],
            ),
            raw::__NR_renameat2 => (
                two(path(Some(0), 1), path(Some(2), 3)),
                [raw::__NR_renameat2.into(), HERE, ONE, HERE, TWO, arg(4)],
            ),
            raw::__NR_link => {
                (two(path(None, 0), path(None, 1)), [raw::__NR_linkat.into(), HERE, ONE, HERE, TWO, 0])
            }
            raw::__NR_linkat => (
                two(path(Some(0), 1), path(Some(2), 3)),
                [raw::__NR_linkat.into(), HERE, ONE, HERE, TWO, arg(4)],
            ),
            _ => return,
        };
        let Some((first, second)) = paths else { return };
        self.change_names(number, first, second, &call);
    }

    fn change_names(&mut self, number: u32, first: PathBuf, second: Option<PathBuf>, call: &[u64; 6]) {
        let policy = |path: &Path| self.policies.output(StreamKind::File, &path.to_string_lossy());
        let is_ours = |policy: &OutputPolicy| matches!(policy, OutputPolicy::Real | OutputPolicy::Check(_));
        let policies = (policy(&first), second.as_deref().map(policy));
        match &policies {
            (OutputPolicy::To(_), _) | (_, Some(OutputPolicy::To(_))) => return,
            (one, None) if !is_ours(one) => return,
            (one, Some(two)) if one != two => {
                let names = [Some(&first), second.as_ref()]
                    .map(|path| path.map_or_else(String::new, |path| path.display().to_string()));
                return self.refuse(format!(
                    "{} becomes {}: the policies for both have to be the same",
                    names[0], names[1]
                ));
            }
            (one, _) if !is_ours(one) => return,
            _ => {}
        }
        let does = match number {
            raw::__NR_unlink | raw::__NR_rmdir | raw::__NR_unlinkat => "removes",
            raw::__NR_mkdir | raw::__NR_mkdirat => "makes",
            raw::__NR_rename | raw::__NR_renameat | raw::__NR_renameat2 => "renames",
            raw::__NR_link | raw::__NR_linkat => "links",
            _ => "changes",
        };
        let stream = self.stream(format!("file:{}", first.display()));
        let paths = [Some(first), second].into_iter().flatten();
        let mut text = Vec::new();
        for path in paths {
            let is_checked = matches!(policies.0, OutputPolicy::Check(_));
            if is_checked {
                let Some(at) = self.shadow(&path) else { return };
                if does == "renames"
                    && text.len() > 1
                    && !self.planned.checked.iter().any(|other| other.written == at)
                {
                    self.planned.checked.push(Checked { written: at.clone(), outside: path.clone() });
                }
                // The folders of what is checked are there already.
                if does == "makes" {
                    return;
                }
                text.extend(ended(&at));
            } else {
                if text.is_empty() || does != "changes" {
                    self.touch(format!("{does} {}", path.display()));
                }
                text.extend(ended(&path));
            }
        }
        self.add(real::ON_PATHS, stream, call, text);
    }
}
