//! What a process took from the world, and gave to it, since a position of its log:
//! what a branch has to give back, and what it cannot.
//!
//! Deliberately absent: regular files, whose offsets the process restores itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::aliases::Aliases;
use crate::logged_calls::{Call, Calls};
use crate::lost_input::LostInput;
use crate::messages::{Piece, pieces_of};
use crate::numbers::{
    ACCEPT, ACCEPT4, CHDIR, COPY_FILE_RANGE, CREAT, EPOLL_CTL, EPOLL_PWAIT, EPOLL_PWAIT2, EPOLL_WAIT, FCHDIR,
    OPEN, OPEN_BY_HANDLE_AT, OPENAT, OPENAT2, PREADV2, PWRITE64, PWRITEV, PWRITEV2, READ, READV, RECVFROM,
    RECVMMSG, RECVMSG, SENDFILE, SENDMMSG, SENDMSG, SENDTO, SPLICE, TEE, UMASK, VMSPLICE, WRITE, WRITEV,
};
use crate::partners::Traffic;
use crate::polled::Polled;
use crate::records::{ACCEPTED, CHILD, DATA, ENDED, MADE, MESSAGE, OF_ACCEPTED, Records};

/// What a descriptor reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Socket,
    /// Its offset is set, and nothing given back.
    File,
    /// Pipes, terminals and their like.
    Other,
}

/// What something was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// What had this number then.
    Then(u32),
    /// A connection that was accepted since.
    Accepted(u32),
}

impl Origin {
    fn number(self) -> u32 {
        let (Origin::Then(fd) | Origin::Accepted(fd)) = self;
        fd
    }

    /// As records have it.
    fn word(self) -> u32 {
        match self {
            Origin::Then(fd) => fd,
            Origin::Accepted(fd) => fd | OF_ACCEPTED,
        }
    }
}

/// What happened since then.
#[derive(Default)]
pub(crate) struct Undo {
    calls: Calls,
    /// What was read, call by call.
    taken: Vec<(Origin, Piece)>,
    /// Connections that were accepted: descriptor and listener.
    accepted: BTreeMap<u32, u32>,
    /// What descriptors mean.
    aliases: Aliases,
    /// What sets of epoll reported, and were asked.
    polled: Polled,
    /// Descriptors that a call made before any other had to do with their numbers. That call may
    /// have been under way then, and the descriptor there already.
    pub made: BTreeSet<u32>,
    /// Bytes that were written, by descriptor.
    given: BTreeMap<u32, u64>,
    /// Descriptors from which messages were received with descriptors in them.
    messages: BTreeSet<u32>,
    /// Descriptors whose input went elsewhere without being read: the first call that moved it.
    spliced: BTreeMap<Origin, &'static str>,
    /// Connections that end behind what is given back.
    ended: BTreeSet<Origin>,
    /// Connections that were accepted and closed.
    lost: usize,
    /// What had been read from them.
    lost_input: LostInput,
    /// The working directory was changed.
    moved: bool,
    /// The mask of new files, then and now.
    masks: Option<[i64; 2]>,
    /// Lanes of processes that were made.
    pub children: Vec<u32>,
}

impl Undo {
    /// Takes the events of a part of a log into account.
    pub fn add(&mut self, log: &[u8]) {
        let mut calls = std::mem::take(&mut self.calls);
        calls.each(log, &mut |call| self.call(call));
        self.calls = calls;
    }

    /// Nothing is given back on these descriptors.
    pub fn forget_input(&mut self, of: &BTreeSet<u32>) {
        self.taken.retain(|(origin, _)| !of.contains(&origin.number()));
    }

    fn call(&mut self, call: &Call) {
        let fd = call.args[0] as u32;
        if let Some(child) = call.child
            && call.result > 0
        {
            self.children.push(child);
        }
        if call.result < 0 {
            return;
        }
        match call.number {
            READ | READV | RECVFROM | RECVMSG | RECVMMSG | PREADV2 if call.result > 0 => self.read(fd, call),
            WRITE | WRITEV | PWRITE64 | PWRITEV | PWRITEV2 | SENDTO | SENDMSG => {
                self.gives(fd, call.result);
            }
            SENDMMSG => self.gives(fd, bytes_sent(call)),
            SENDFILE => self.moves(call.args[1] as u32, fd, "sendfile", call),
            SPLICE => self.moves(fd, call.args[2] as u32, "splice", call),
            TEE => self.gives(call.args[1] as u32, call.result),
            // Only files.
            COPY_FILE_RANGE => self.gives(call.args[2] as u32, call.result),
            VMSPLICE => self.gives(fd, call.result),
            CHDIR | FCHDIR => self.moved = true,
            UMASK => {
                let [then, _] = self.masks.unwrap_or([call.result; 2]);
                self.masks = Some([then, call.args[0] as i64 & 0o777]);
            }
            ACCEPT | ACCEPT4 => {
                let new = call.result as u32;
                let listener = self.aliases.then(fd);
                self.makes(new);
                self.ends(new, new);
                if let Some(listener) = listener {
                    self.accepted.insert(new, listener);
                }
            }
            OPEN | CREAT | OPENAT | OPENAT2 | OPEN_BY_HANDLE_AT => self.makes(call.result as u32),
            EPOLL_CTL | EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2 => self.polled.call(call, &self.aliases),
            _ => {
                if let Some((first, last)) = self.aliases.call(call) {
                    self.ends(first, last);
                }
            }
        }
    }

    /// A call that may wait has made a descriptor.
    pub fn makes(&mut self, new: u32) {
        if self.aliases.is_untouched(new) {
            self.made.insert(new);
        }
        self.aliases.set(new, None);
    }

    fn origin(&self, fd: u32) -> Option<Origin> {
        match self.accepted.contains_key(&fd) {
            true => Some(Origin::Accepted(fd)),
            false => self.aliases.then(fd).map(Origin::Then),
        }
    }

    fn read(&mut self, fd: u32, call: &Call) {
        let Some(origin) = self.origin(fd) else { return };
        // With a place in the file (preadv2) it is none of a stream.
        if call.number == PREADV2 && call.args[3] != u64::MAX {
            return;
        }
        let pieces = pieces_of(call);
        if pieces.iter().any(|piece| piece.had_descriptors) {
            self.messages.insert(fd);
        }
        self.taken.extend(pieces.into_iter().map(|piece| (origin, piece)));
    }

    fn gives(&mut self, fd: u32, bytes: i64) {
        if bytes > 0 {
            *self.given.entry(fd).or_default() += bytes as u64;
        }
    }

    /// Input goes elsewhere inside the kernel.
    fn moves(&mut self, from: u32, to: u32, how: &'static str, call: &Call) {
        if call.result > 0
            && let Some(origin) = self.origin(from)
        {
            self.spliced.entry(origin).or_insert(how);
        }
        self.gives(to, call.result);
    }

    /// These numbers mean something else, or nothing, from now on.
    fn ends(&mut self, first: u32, last: u32) {
        let ended = |fd: &u32| (first..=last).contains(fd);
        let accepted = &mut self.accepted;
        let open = accepted.len();
        accepted.retain(|fd, _| !ended(fd));
        self.lost += open - accepted.len();
        // A connection of then reads it again, also if it was closed: something stands for it.
        let is_left = |origin: &Origin| match origin {
            Origin::Accepted(fd) => accepted.contains_key(fd),
            Origin::Then(_) => true,
        };
        self.spliced.retain(|origin, _| is_left(origin));
        let gone = self.taken.iter().filter(|(origin, _)| !is_left(origin));
        self.lost_input.add(gone.map(|(origin, piece)| (origin.number(), &piece.bytes[..])));
        self.taken.retain(|(origin, _)| is_left(origin));
    }

    /// True if the process can read on there. A copy of a descriptor of then can.
    fn is_open(&self, origin: Origin) -> bool {
        match origin {
            Origin::Accepted(_) => true,
            Origin::Then(fd) => self.aliases.has(fd),
        }
    }

    /// Drops what was read last, or all that was read. A connection ends there, as what
    /// follows is a part of what is missing. Gives descriptors, bytes, and whether they end.
    pub fn drop_input(&mut self, all: bool, source: &dyn Fn(u32) -> Source) -> Vec<(u32, usize, bool)> {
        let is_input = |index: &usize| {
            let origin = self.taken[*index].0;
            self.is_open(origin) && source(origin.number()) != Source::File
        };
        let input: Vec<usize> = (0..self.taken.len()).filter(is_input).collect();
        let count = if all { input.len() } else { input.len().min(1) };
        let mut dropped: BTreeMap<Origin, usize> = BTreeMap::new();
        for index in &input[input.len() - count..] {
            let (origin, piece) = &mut self.taken[*index];
            *dropped.entry(*origin).or_default() += piece.bytes.len();
            piece.bytes.clear();
            if source(origin.number()) == Source::Socket {
                self.ended.insert(*origin);
            }
        }
        if all {
            // Of what was closed since nothing is said.
            let mut taken = std::mem::take(&mut self.taken);
            taken.retain(|(origin, _)| self.is_open(*origin));
            self.taken = taken;
        }
        let is_ended = |origin| self.ended.contains(&origin);
        dropped.into_iter().map(|(origin, bytes)| (origin.number(), bytes, is_ended(origin))).collect()
    }

    /// The records for the process: see `live/pushback.rs` of the runtime.
    /// `killed`: processes that were made since and are no more.
    pub fn records(&self, killed: &[i32]) -> Vec<u8> {
        let mut records = Records::default();
        self.polled.records(&mut records);
        for fd in &self.made {
            records.put(MADE, *fd, 0, &[]);
        }
        for (fd, listener) in &self.accepted {
            records.put(ACCEPTED, *fd, u64::from(*listener), &[]);
        }
        for pid in killed {
            records.put(CHILD, 0, *pid as u64, &[]);
        }

        for (origin, piece) in self.taken.iter().filter(|(_, piece)| !piece.bytes.is_empty()) {
            match piece.head() {
                None => records.put(DATA, origin.word(), piece.bytes.len() as u64, &piece.bytes),
                Some(head) => {
                    let bytes = [&head, &piece.bytes[..]].concat();
                    records.put(MESSAGE, origin.word(), bytes.len() as u64, &bytes);
                }
            }
        }
        for origin in &self.ended {
            records.put(ENDED, origin.word(), 0, &[]);
        }
        records.bytes()
    }

    /// Bytes that went through what had these numbers then.
    pub fn traffic(&self) -> BTreeMap<u32, Traffic> {
        let mut traffic: BTreeMap<u32, Traffic> = BTreeMap::new();
        for (fd, bytes) in &self.given {
            traffic.entry(*fd).or_default().given += bytes;
        }
        for (origin, piece) in &self.taken {
            if let Origin::Then(fd) = origin {
                traffic.entry(*fd).or_default().taken += piece.bytes.len() as u64;
            }
        }
        traffic
    }

    /// Input that nobody can read again, a line each.
    pub fn lost_input(&self) -> Vec<String> {
        self.lost_input.lines()
    }

    /// What cannot be restored, a line each; `is_restored`: what was written there goes;
    /// `is_file`: its offset is restored; `goes_on`: processes that were made since.
    pub fn notes(
        &self,
        is_restored: &dyn Fn(u32) -> bool,
        is_file: &dyn Fn(u32) -> bool,
        goes_on: usize,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (fd, bytes) in self.given.iter().filter(|(fd, _)| !is_restored(**fd)) {
            lines.push(format!(
                "descriptor {fd}: the {bytes} bytes that were written to it since stay written"
            ));
        }
        for fd in &self.messages {
            lines.push(format!(
                "descriptor {fd}: descriptors that came in messages from it since are closed, and do not come again"
            ));
        }
        let spliced = self.spliced.iter().map(|(origin, how)| (origin.number(), how));
        for (fd, how) in spliced.filter(|(fd, _)| !is_file(*fd)) {
            lines.push(format!("descriptor {fd}: what went through {how} from it since is lost"));
        }
        lines.extend(self.lost_input.lines());
        if self.lost != 0 {
            let lost = self.lost;
            lines.push(format!(
                "{lost} connections or descriptors that were opened and closed since are gone"
            ));
        }
        if self.moved {
            lines.push("the working directory, which was changed since, stays what it is".to_owned());
        }
        if let Some([then, now]) = self.masks.filter(|[then, now]| then != now) {
            lines.push(format!("the mask of new files (umask) stays {now:03o}; it was {then:03o}"));
        }
        if goes_on != 0 {
            lines.push(format!("{goes_on} processes that were made since go on"));
        }
        lines
    }
}

/// Bytes of all messages that sendmmsg(2) sent.
fn bytes_sent(call: &Call) -> i64 {
    const MESSAGE_BYTES: u64 = 64;
    const LENGTH_AT: u64 = 56;
    let length = |index: u64| {
        let at = call.args[1].saturating_add(index * MESSAGE_BYTES + LENGTH_AT);
        let bytes = call.memory.iter().find_map(|(address, bytes)| {
            bytes.get(usize::try_from(at.checked_sub(*address)?).ok()?..)?.get(..4)
        })?;
        Some(i64::from(u32::from_le_bytes(bytes.try_into().ok()?)))
    };
    (0..call.result.unsigned_abs()).map_while(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{CLOSE, CLOSE_RANGE, DUP, FCNTL, MSG_PEEK};
    use events::{BLOB_HEADER_BYTES, HEADER_BYTES, Header, Kind, Tag, padded};

    fn call(number: u16, result: i64, args: &[u64], memory: Option<(u64, &[u8])>) -> Vec<u8> {
        let blob = memory.map_or(0, |(_, bytes)| BLOB_HEADER_BYTES + padded(bytes.len()));
        let len_bytes = HEADER_BYTES + 8 + 8 * args.len() + blob;
        let mut event =
            Header::new(Kind::Syscall, args.len() as u8, number, len_bytes as u32).to_le_bytes().to_vec();
        event.extend(result.to_le_bytes());
        args.iter().for_each(|arg| event.extend(arg.to_le_bytes()));
        if let Some((address, bytes)) = memory {
            event.extend(address.to_le_bytes());
            event.extend((bytes.len() as u32).to_le_bytes());
            event.extend((Tag::Memory as u32).to_le_bytes());
            event.extend(bytes);
        }
        event.resize(len_bytes, 0);
        event
    }

    #[test]
    fn what_was_read_is_given_back_in_order() {
        let mut undo = Undo::default();
        let log = [
            call(READ, 3, &[5, 0x1000, 64], Some((0x1000, b"abc"))),
            call(RECVFROM, 2, &[5, 0x1000, 64, MSG_PEEK, 0, 0], Some((0x1000, b"de"))),
            call(RECVFROM, 2, &[5, 0x1000, 64, 0, 0, 0], Some((0x1000, b"de"))),
            call(WRITE, 9, &[1, 0x1000, 9], None),
        ]
        .concat();
        undo.add(&log);
        let piece = |text: &[u8]| (Origin::Then(5), Piece::of(text.to_vec()));
        assert_eq!(undo.taken, [piece(b"abc"), piece(b"de")]);
        assert!(undo.notes(&|_| false, &|_| false, 0)[0].contains("the 9 bytes"));
        assert_eq!(undo.records(&[]).len(), 2 * (16 + 8));
    }

    #[test]
    fn what_was_read_last_is_dropped() {
        let read =
            |fd: u64, text: &[u8]| call(READ, text.len() as i64, &[fd, 0x1000, 64], Some((0x1000, text)));
        let log = [read(5, b"one"), read(6, b"two"), read(5, b"poison"), read(7, b"of a file")].concat();
        let source = |fd: u32| match fd {
            7 => Source::File,
            6 => Source::Other,
            _ => Source::Socket,
        };
        let mut undo = Undo::default();
        undo.add(&log);
        assert_eq!(undo.drop_input(false, &source), [(5, 6, true)]);
        // Two pieces, one of the file, and the end.
        assert_eq!(undo.records(&[]).len(), 2 * (16 + 8) + (16 + 16) + 16);
        let mut undo = Undo::default();
        undo.add(&log);
        assert_eq!(undo.drop_input(true, &source), [(5, 9, true), (6, 3, false)]);
        assert_eq!(undo.records(&[]).len(), (16 + 16) + 16);
        assert!(Undo::default().drop_input(false, &source).is_empty());
    }

    #[test]
    fn a_number_that_means_something_else_is_left_alone() {
        let mut undo = Undo::default();
        let log = [
            call(CLOSE, 0, &[5], None),
            call(ACCEPT, 5, &[3, 0, 0], None),
            call(READ, 1, &[5, 0x1000, 1], Some((0x1000, b"x"))),
            call(CLOSE, 0, &[6], None),
            call(READ, 1, &[6, 0x1000, 1], Some((0x1000, b"y"))),
        ]
        .concat();
        undo.add(&log);
        assert_eq!(undo.accepted.get(&5), Some(&3));
        assert_eq!(undo.taken, [(Origin::Accepted(5), Piece::of(b"x".to_vec()))]);
        undo.add(&call(CLOSE, 0, &[5], None));
        assert!(undo.taken.is_empty() && undo.lost_input()[0].contains("the 1 bytes"));
    }

    #[test]
    fn copies_of_a_descriptor_have_its_input() {
        let read =
            |fd: u64, text: &[u8]| call(READ, text.len() as i64, &[fd, 0x1000, 9], Some((0x1000, text)));
        let mut undo = Undo::default();
        let log = [
            read(5, b"a"),
            call(DUP, 7, &[5], None),
            read(7, b"b"),
            call(CLOSE, 0, &[5], None),
            read(7, b"c"),
            call(FCNTL, 9, &[7, 1030, 9], None),
            call(CLOSE_RANGE, 0, &[7, 8, 0], None),
            read(9, b"d"),
            // Something else by now.
            read(7, b"x"),
        ]
        .concat();
        undo.add(&log);
        let text: Vec<u8> = undo.taken.iter().flat_map(|(_, piece)| piece.bytes.clone()).collect();
        assert!(undo.taken.iter().all(|(origin, _)| *origin == Origin::Then(5)));
        assert_eq!(text, b"abcd");
        // Nobody has it any more: who goes back reads it, and then the end; none of it can be dropped.
        undo.add(&call(CLOSE, 0, &[9], None));
        assert_eq!(undo.taken.len(), 4);
        assert!(undo.drop_input(false, &|_| Source::Socket).is_empty() && undo.taken.len() == 4);
        assert!(undo.drop_input(true, &|_| Source::Socket).is_empty() && undo.taken.is_empty());
    }

    #[test]
    fn what_moved_inside_the_kernel_is_said() {
        let mut undo = Undo::default();
        let log = [
            call(SPLICE, 4, &[5, 0, 6, 0, 9, 0], None),
            call(SENDFILE, 5, &[7, 8, 0, 9], None),
            call(PWRITE64, 3, &[9, 0x1000, 3, 0], None),
        ]
        .concat();
        undo.add(&log);
        let notes = undo.notes(&|_| false, &|fd| fd == 8, 0).join("\n");
        for wanted in ["descriptor 5: what went through splice", "descriptor 6: the 4", "descriptor 7: the 5"]
        {
            assert!(notes.contains(wanted), "{notes}");
        }
        assert!(notes.contains("descriptor 9: the 3") && !notes.contains("descriptor 8"), "{notes}");
    }

    #[test]
    fn what_was_read_before_a_number_meant_a_connection_is_not_its_input() {
        let mut undo = Undo::default();
        let log = [
            // Of a file that was opened since, and of a connection of then.
            call(READ, 2, &[7, 0x1000, 64], Some((0x1000, b"of"))),
            call(CLOSE, 0, &[7], None),
            call(READ, 3, &[8, 0x1000, 64], Some((0x1000, b"old"))),
            call(ACCEPT4, 7, &[3, 0, 0, 0], None),
            call(ACCEPT4, 8, &[3, 0, 0, 0], None),
            call(READ, 3, &[8, 0x1000, 64], Some((0x1000, b"new"))),
        ]
        .concat();
        undo.add(&log);
        let piece = |origin, text: &[u8]| (origin, Piece::of(text.to_vec()));
        let of_number_7 = piece(Origin::Then(7), b"of");
        let [old, new] = [piece(Origin::Then(8), b"old"), piece(Origin::Accepted(8), b"new")];
        assert_eq!(undo.taken, [of_number_7, old, new]);
        assert_eq!(undo.accepted.keys().copied().collect::<Vec<_>>(), [7, 8]);
    }
}
