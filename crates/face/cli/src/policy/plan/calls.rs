//! What each call means for real streams.

use super::*;

use display::Segment;
use linux_abi::general as raw;
use linux_abi::{errno, net};

/// Flags of open(2) that mean something to the files of here.
const OPENING: u32 = raw::O_CREAT | raw::O_EXCL | raw::O_TRUNC | raw::O_APPEND;

/// The process that a call says has ended.
pub(super) fn ended_child(whole: &WholeEvent) -> Option<i32> {
    const STOPPED: u32 = 0x7f;
    const CONTINUED: u32 = 0xffff;
    let event = whole.event();
    let half = |address: u64, at: usize| {
        let bytes = whole.memory(address)?.data.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    match u32::from(whole.code) {
        raw::__NR_wait4 if event.result() > 0 => {
            let status = half(event.arg(1), 0).unwrap_or(0);
            (status & 0xff != STOPPED && status != CONTINUED).then_some(event.result() as i32)
        }
        raw::__NR_waitid if event.result() == 0 => {
            // si_code: CLD_EXITED, CLD_KILLED, CLD_DUMPED.
            let has_ended = half(event.arg(2), 8).is_some_and(|code| (1..=3).contains(&code));
            half(event.arg(2), 16).filter(|_| has_ended).map(|pid| pid as i32)
        }
        _ => None,
    }
}

impl Planner<'_> {
    /// Follows a call, and adds what it means.
    pub(super) fn call(&mut self, process: &mut Descriptors, whole: &WholeEvent) {
        let event = whole.event();
        let (result, first) = (event.result(), event.arg(0) as i32);
        let number = u32::from(whole.code);
        if number == raw::__NR_connect && result == -i64::from(errno::EINPROGRESS) {
            return self.connect(process, whole);
        }
        if result < 0 {
            return;
        }
        let text = |index: usize| text_at(whole, event.arg(index));
        match number {
            raw::__NR_open => {
                self.open(process, whole, process.path(None, &text(0)), event.arg(1) as u32, event.arg(2))
            }
            raw::__NR_creat => {
                let flags = raw::O_CREAT | raw::O_WRONLY | raw::O_TRUNC;
                self.open(process, whole, process.path(None, &text(0)), flags, event.arg(1));
            }
            raw::__NR_openat => {
                let path = process.path(Some(first), &text(1));
                self.open(process, whole, path, event.arg(2) as u32, event.arg(3));
            }
            raw::__NR_openat2 => {
                let how = whole.blobs().find(|blob| blob.tag == Tag::Sent).map(|blob| blob.data.to_vec());
                let word = |at: usize| {
                    how.as_ref()
                        .and_then(|how| how.get(at..at + 8)?.try_into().ok())
                        .map_or(0, u64::from_le_bytes)
                };
                self.open(process, whole, process.path(Some(first), &text(1)), word(0) as u32, word(8));
            }
            raw::__NR_socket => {
                let [domain, kind, protocol] = [0, 1, 2].map(|index| event.arg(index));
                let socket = self.description(Thing::Socket { domain, kind, protocol });
                let freed = process.insert(result as i32, socket, cloexec(kind));
                self.close(freed);
            }
            raw::__NR_memfd_create => {
                let memory = self.description(Thing::Memory);
                let freed =
                    process.insert(result as i32, memory, event.arg(1) & raw::MFD_CLOEXEC as u64 != 0);
                self.close(freed);
            }
            raw::__NR_connect => self.connect(process, whole),
            raw::__NR_shmat => self.attach(Segment::SystemV(event.arg(0) as u32), result as u64),
            _ => self.call_on_descriptor(process, whole, number),
        }
    }

    fn call_on_descriptor(&mut self, process: &mut Descriptors, whole: &WholeEvent, number: u32) {
        let event = whole.event();
        let closed = (number == raw::__NR_close).then(|| process.get(event.arg(0) as i32)).flatten();
        let screen = closed.and_then(|description| description.screen.get());
        let Some(freed) = process.follow(whole) else { return self.call_with_data(process, whole, number) };
        if let Some(screen) = screen.filter(|_| !freed.is_empty()) {
            self.screen_ends(screen);
        }
        self.close(freed);
    }

    fn call_with_data(&mut self, process: &mut Descriptors, whole: &WholeEvent, number: u32) {
        let event = whole.event();
        let first = event.arg(0) as i32;
        match number {
            raw::__NR_read | raw::__NR_readv => self.read(process, whole, ITS_PLACE),
            raw::__NR_pread64 | raw::__NR_preadv | raw::__NR_preadv2 => {
                self.read(process, whole, event.arg(3))
            }
            raw::__NR_recvfrom if event.arg(3) & u64::from(net::MSG_PEEK) == 0 => {
                self.read(process, whole, ITS_PLACE);
            }
            raw::__NR_recvmsg if event.arg(2) & u64::from(net::MSG_PEEK) == 0 => {
                self.read(process, whole, ITS_PLACE);
            }
            raw::__NR_write
            | raw::__NR_writev
            | raw::__NR_sendto
            | raw::__NR_sendmsg
            | raw::__NR_sendmmsg => {
                self.write(process, whole, ITS_PLACE);
            }
            raw::__NR_pwrite64 | raw::__NR_pwritev | raw::__NR_pwritev2 => {
                self.write(process, whole, event.arg(3))
            }
            raw::__NR_sendfile => self.copy(process, whole, [1, 0], [Some(2), None]),
            raw::__NR_copy_file_range | raw::__NR_splice => {
                self.copy(process, whole, [0, 2], [Some(1), Some(3)])
            }
            raw::__NR_lseek => {
                if let Some(description) = process.get(first) {
                    description.offset.set(event.result() as u64);
                }
                self.again(process, first, &[Way::In, Way::Out]);
            }
            raw::__NR_ftruncate | raw::__NR_fallocate | raw::__NR_fchmod | raw::__NR_shutdown => {
                self.again(process, first, &[Way::Out]);
            }
            // TCSETS, TCSETSW, TCSETSF: whether a terminal shows what is typed.
            raw::__NR_ioctl if (0x5402..=0x5404).contains(&event.arg(1)) => {
                self.again(process, first, &[Way::In]);
            }
            raw::__NR_mmap => self.map(process, whole),
            _ => self.call_on_names(process, whole, number),
        }
    }

    /// A file is opened: for real, or another one in its place.
    fn open(
        &mut self,
        process: &mut Descriptors,
        whole: &WholeEvent,
        path: Option<PathBuf>,
        flags: u32,
        mode: u64,
    ) {
        let fd = whole.event().result() as i32;
        let Some(path) = path else {
            let freed = process.remove(fd);
            return self.close(freed);
        };
        let description = self.description(Thing::File(path.clone()));
        let freed = process.insert(fd, Rc::clone(&description), flags & raw::O_CLOEXEC != 0);
        self.close(freed);
        if flags & (raw::O_DIRECTORY | raw::O_PATH) != 0 {
            return;
        }
        let name = path.to_string_lossy().into_owned();
        let access = flags & raw::O_ACCMODE;
        let input = match access {
            raw::O_WRONLY => InputPolicy::Recorded,
            _ => self.policies.input(StreamKind::File, &name),
        };
        let output = match access {
            raw::O_RDONLY => OutputPolicy::Drop,
            _ => self.policies.output(StreamKind::File, &name),
        };
        if input == InputPolicy::Recorded && matches!(output, OutputPolicy::Drop | OutputPolicy::Show) {
            return;
        }
        let stream = self.stream(format!("file:{name}"));
        description.stream.set(stream);
        let mode = if flags & raw::O_CREAT != 0 { mode } else { 0 };
        let mut add = |planner: &mut Self, ways: &[Way], at: &Path, flags: u32| {
            let slot = process.free_slot();
            planner.add(real::OPEN, stream, &[slot, u64::from(flags), mode], ended(at));
            for way in ways {
                process.set_slot(&description, *way, slot);
            }
        };
        let is_both = input == InputPolicy::Real && output == OutputPolicy::Real;
        match input {
            InputPolicy::Recorded => {}
            InputPolicy::Real if is_both => self.touch(format!("reads {name}")),
            InputPolicy::Real => {
                self.touch(format!("reads {name}"));
                add(self, &[Way::In], &path, raw::O_RDONLY);
            }
            InputPolicy::From(from) => {
                self.replace(stream, &from, &name);
                add(self, &[Way::In], &from, raw::O_RDONLY);
            }
        }
        match output {
            OutputPolicy::Show | OutputPolicy::Drop => {}
            OutputPolicy::Real => {
                self.touch(format!("writes {name}"));
                let ways: &[Way] = if is_both { &[Way::In, Way::Out] } else { &[Way::Out] };
                let access = if is_both { access } else { raw::O_WRONLY };
                add(self, ways, &path, access | flags & OPENING);
            }
            OutputPolicy::To(to) => {
                self.touch(format!("writes {} in place of {name}", to.display()));
                self.target(&to, stream);
                add(self, &[Way::Out], &to, raw::O_WRONLY | flags & (raw::O_TRUNC | raw::O_APPEND));
            }
            OutputPolicy::Check(_) => {
                if let Some(at) = self.checked(&path, flags) {
                    add(self, &[Way::Out], &at, raw::O_WRONLY | raw::O_CREAT | flags & raw::O_TRUNC);
                }
            }
        }
    }

    /// Where a file goes that is compared with what stands there now.
    fn checked(&mut self, path: &Path, flags: u32) -> Option<PathBuf> {
        if flags & raw::O_APPEND != 0 {
            self.refuse(format!(
                "{} is written by appending: what it was before is not known, so it cannot be checked",
                path.display()
            ));
            return None;
        }
        let at = self.shadow(path)?;
        self.touch(format!("reads {} to compare it", path.display()));
        if !self.planned.checked.iter().any(|other| other.written == at) {
            // What is not written anew has to be what it is.
            if flags & raw::O_TRUNC == 0
                && path.is_file()
                && let Err(source) = std::fs::copy(path, &at)
            {
                self.failure.get_or_insert(CommandError::Read { path: path.to_owned(), source });
            }
            self.planned.checked.push(Checked { written: at.clone(), outside: path.to_owned() });
        }
        Some(at)
    }

    fn connect(&mut self, process: &mut Descriptors, whole: &WholeEvent) {
        let event = whole.event();
        let fd = event.arg(0) as i32;
        let Some(description) = process.get(fd).cloned() else { return };
        let Thing::Socket { domain, kind, protocol } = description.thing else { return };
        let address = whole
            .blobs()
            .find(|blob| blob.tag == Tag::Sent)
            .map(|blob| blob.data.to_vec())
            .unwrap_or_default();
        let is_datagram = kind & 0xf == u64::from(net::SOCK_DGRAM);
        let Some((stream_kind, name)) = names::of_address(&address, event.arg(2), is_datagram) else {
            return;
        };
        if self.connect_screen(process, &description, stream_kind, &name) {
            return;
        }
        let input = self.policies.input(stream_kind, &name);
        let output = self.policies.output(stream_kind, &name);
        if input == InputPolicy::Recorded && matches!(output, OutputPolicy::Drop | OutputPolicy::Show) {
            return;
        }
        let title = format!("{}:{name}", stream_kind.prefix());
        let stream = self.stream(title.clone());
        description.stream.set(stream);
        if input == InputPolicy::Real || output == OutputPolicy::Real {
            self.touch(format!("connects to {title}"));
            let slot = process.free_slot();
            let plain = kind & 0xf;
            let text = names::absolute_address(&process.directory, &address, stream_kind);
            self.add(real::CONNECT, stream, &[slot, domain, plain, protocol], text);
            if input == InputPolicy::Real {
                process.set_slot(&description, Way::In, slot);
            }
            if output == OutputPolicy::Real {
                process.set_slot(&description, Way::Out, slot);
            }
        }
        if let InputPolicy::From(from) = input {
            self.replace(stream, &from, &title);
            let slot = process.free_slot();
            self.add(real::OPEN, stream, &[slot, u64::from(raw::O_RDONLY), 0], ended(&from));
            process.set_slot(&description, Way::In, slot);
        }
        match output {
            OutputPolicy::To(to) => {
                self.touch(format!("writes {} in place of {title}", to.display()));
                self.target(&to, stream);
                let slot = process.free_slot();
                self.add(
                    real::OPEN,
                    stream,
                    &[slot, u64::from(raw::O_WRONLY | raw::O_APPEND), 0],
                    ended(&to),
                );
                process.set_slot(&description, Way::Out, slot);
            }
            OutputPolicy::Check(_) => self.refuse(format!("{title} cannot be checked: what it got is gone")),
            OutputPolicy::Show | OutputPolicy::Drop | OutputPolicy::Real => {}
        }
    }

    fn read(&mut self, process: &mut Descriptors, whole: &WholeEvent, place: u64) {
        let event = whole.event();
        let fd = event.arg(0) as i32;
        let Some(description) = process.get(fd).cloned() else { return };
        if let Some(screen) = description.screen.get() {
            return self.screen_answers(process, screen, whole);
        }
        if place == ITS_PLACE {
            description.offset.set(description.offset.get() + event.result() as u64);
        }
        if let Some(slot) = process.slot(fd, Way::In) {
            self.add(real::READ, description.stream.get(), &[slot, place], Vec::new());
        } else if let (Some(slot), ITS_PLACE, Thing::File(_)) =
            (process.slot(fd, Way::Out), place, &description.thing)
        {
            // What is written next goes behind what was read.
            self.add(real::SKIP, description.stream.get(), &[slot], Vec::new());
        }
    }

    fn write(&mut self, process: &Descriptors, whole: &WholeEvent, place: u64) {
        let event = whole.event();
        let fd = event.arg(0) as i32;
        let Some(description) = process.get(fd) else { return };
        if place == ITS_PLACE {
            description.offset.set(description.offset.get() + event.result() as u64);
        }
        let stream = description.stream.get();
        let own = process.slot(fd, Way::In).filter(|slot| process.slot(fd, Way::Out) != Some(*slot));
        if let (Some(slot), ITS_PLACE, Thing::File(_)) = (own, place, &description.thing) {
            self.add(real::SKIP, stream, &[slot], Vec::new());
        }
        let Some(slot) = process.slot(fd, Way::Out) else { return };
        if let Some(screen) = description.screen.get() {
            if u32::from(whole.code) == raw::__NR_sendmmsg {
                return self.refuse("what goes to a display by sendmmsg(2) cannot be shown".to_owned());
            }
            return self.show(process, whole, screen, slot);
        }
        let is_message = matches!(description.thing, Thing::Socket { kind, .. } if kind & 0xf != u64::from(net::SOCK_STREAM));
        if is_message || whole.code as u32 == raw::__NR_sendmmsg {
            self.add(real::CALL, stream, &[slot, 1, 0, 0], Vec::new());
        } else {
            self.add(real::WRITE, stream, &[slot, place], Vec::new());
        }
    }

    /// The same call on what stands for the descriptor.
    fn again(&mut self, process: &Descriptors, fd: i32, ways: &[Way]) {
        let Some(description) = process.get(fd) else { return };
        let mut slots: Vec<u64> = ways.iter().filter_map(|&way| process.slot(fd, way)).collect();
        slots.dedup();
        for slot in slots {
            self.add(real::CALL, description.stream.get(), &[slot, 1, 0, 0], Vec::new());
        }
    }

    /// The kernel moved bytes between two descriptors, whose places among the arguments these are, and those of
    /// the pointers to their offsets.
    fn copy(
        &mut self,
        process: &mut Descriptors,
        whole: &WholeEvent,
        [from, to]: [usize; 2],
        offsets: [Option<usize>; 2],
    ) {
        let event = whole.event();
        let moved = event.result() as u64;
        let fds = [from, to].map(|index| event.arg(index) as i32);
        let places = offsets.map(|offset| {
            let address = offset.map_or(0, |index| event.arg(index));
            let after = whole.memory(address).and_then(|blob| blob.data.get(..8)?.try_into().ok());
            if address == 0 { None } else { after.map(|bytes| u64::from_le_bytes(bytes).wrapping_sub(moved)) }
        });
        let begins = [0, 1].map(|index| {
            let description = process.get(fds[index])?;
            let at = places[index].unwrap_or_else(|| description.offset.get());
            if places[index].is_none() {
                description.offset.set(at + moved);
            }
            Some((Rc::clone(description), at))
        });
        let Some(slot) = process.slot(fds[1], Way::Out) else { return };
        let stream = begins[1].as_ref().map_or(0, |(description, _)| description.stream.get());
        let to_place = places[1].unwrap_or(ITS_PLACE);
        if let Some(source) = process.slot(fds[0], Way::In) {
            return self.add(
                real::COPY,
                stream,
                &[slot, to_place, source, places[0].unwrap_or(ITS_PLACE)],
                Vec::new(),
            );
        }
        let Some((description, at)) = &begins[0] else {
            return self.cannot_copy(stream);
        };
        let Thing::File(path) = &description.thing else { return self.cannot_copy(stream) };
        // The kernel moved them: they are nowhere but there.
        self.touch(format!("reads {}, whose bytes are not in the trace", path.display()));
        let source = process.free_slot();
        self.add(real::OPEN, stream, &[source, u64::from(raw::O_RDONLY), 0], ended(path));
        self.add(real::COPY, stream, &[slot, to_place, source, *at], Vec::new());
        self.add(real::CLOSE, stream, &[source], Vec::new());
    }

    fn cannot_copy(&mut self, stream: u64) {
        let name = self.planned.streams.get(stream as usize).cloned().unwrap_or_default();
        self.refuse(format!("{name} got bytes inside the kernel (splice(2), sendfile(2)), which are not in the trace: only `drop` is possible"));
    }

    /// Stores to memory are no calls.
    fn map(&mut self, process: &Descriptors, whole: &WholeEvent) {
        let event = whole.event();
        let is_written =
            event.arg(2) & u64::from(raw::PROT_WRITE) != 0 && event.arg(3) & u64::from(raw::MAP_SHARED) != 0;
        let fd = event.arg(4) as i32;
        if !is_written || event.arg(3) & u64::from(raw::MAP_ANONYMOUS) != 0 {
            return;
        }
        if let Some(description) = process.get(fd) {
            self.attach(Segment::Passed(description.id), (event.result() as u64).wrapping_sub(event.arg(5)));
        }
        if process.slot(fd, Way::Out).is_some() {
            let stream = process.get(fd).map_or(0, |description| description.stream.get());
            let name = self.planned.streams.get(stream as usize).cloned().unwrap_or_default();
            self.refuse(format!("{name} is written through a mapping (mmap(2)): only `drop` is possible"));
        }
    }
}
