//! One recorded connection to a server, and the connection that stands for it.

use std::collections::HashMap;
use std::sync::Arc;

use x11rb_protocol::protocol::xproto::Setup;
use x11rb_protocol::x11_utils::TryParse;

use crate::arguments::{Unsendable, translate};
use crate::core_requests::REQUESTS;
use crate::error::Error;
use crate::extensions::{Requests, requests};
use crate::packets::{Packet, PacketStream, Request, RequestStream, half, word};
use crate::server::{Server, named};
use crate::table::{Act, Row, find};
use crate::world::World;

mod shared_memory;

use shared_memory::SharedMemory;

/// Numbers of extensions begin here.
const EXTENSION_FIRST: u8 = 128;

/// Memory that a program shares with its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// By its number.
    SystemV(u32),
    /// What a descriptor led to, by the number that the caller has for it.
    Passed(u32),
}

/// Memory that the program shares with its server, as it is at the request.
pub trait Segments {
    /// So many bytes of it; `None` where it is not known.
    fn read(&self, segment: Segment, offset: u64, bytes: usize) -> Option<Vec<u8>>;
}

/// What a reply will tell.
#[derive(Debug)]
enum Asked {
    Atom(Vec<u8>),
    AtomName(u32),
    Extension(Vec<u8>),
    Formats(u8),
    /// The memory of that name.
    Segment(u32),
    Descriptors,
}

#[derive(Debug, Clone)]
struct Extension {
    name: String,
    requests: Option<Requests>,
    /// Its number on the display.
    real: Option<u8>,
}

/// What the program did with a window itself last, by the numbers of its requests.
#[derive(Debug, Default, Clone, Copy)]
struct Window {
    is_top: bool,
    placed: u16,
    mapped: u16,
    /// A window manager put it into a frame: its place in there is not its place.
    is_framed: bool,
}

/// One recorded connection.
pub struct Client {
    world: Arc<World>,
    server: Option<Server>,
    recorded: Option<Setup>,
    requests: RequestStream,
    packets: PacketStream,
    sequence: u16,
    asked: HashMap<u16, Asked>,
    extensions: HashMap<u8, Extension>,
    windows: HashMap<u32, Window>,
    memory: SharedMemory,
    atoms: HashMap<u32, u32>,
}

impl Client {
    pub fn new(world: &Arc<World>) -> Client {
        Client {
            world: Arc::clone(world),
            server: None,
            recorded: None,
            requests: RequestStream::default(),
            packets: PacketStream::default(),
            sequence: 0,
            asked: HashMap::new(),
            extensions: HashMap::new(),
            windows: HashMap::new(),
            memory: SharedMemory::default(),
            atoms: HashMap::new(),
        }
    }

    /// What the recorded server sent, and the descriptors that came along.
    ///
    /// # Errors
    /// Those of the connection to the display.
    pub fn answers(&mut self, bytes: &[u8], descriptors: &[u32]) -> Result<(), Error> {
        self.memory.received.extend(descriptors);
        self.packets.add(bytes);
        while let Some(packet) = self.packets.next() {
            if packet.is_greeting {
                self.begin(&packet.bytes)?;
            } else if packet.is_reply() {
                self.learn(&packet)?;
            } else if packet.is_error() {
                self.asked.remove(&packet.sequence());
                let refused = (self.base(), packet.sequence());
                self.world.state().refused.remove(&refused);
            } else {
                self.follow(&packet)?;
            }
        }
        Ok(())
    }

    /// What the program sent, and the descriptors that went along. When this returns, the display has done it.
    ///
    /// # Errors
    /// [`Error::NoX11`], and those of the connection to the display.
    pub fn requests(
        &mut self,
        bytes: &[u8],
        descriptors: &[u32],
        segments: &dyn Segments,
    ) -> Result<(), Error> {
        self.memory.sent.extend(descriptors);
        self.requests.add(bytes);
        while let Some(request) = self.requests.next()? {
            self.sequence = self.sequence.wrapping_add(1);
            self.pass(request, segments)?;
        }
        let Some(server) = &mut self.server else { return Ok(()) };
        server.settle()?;
        let refusals = server.refusals();
        let base = self.base();
        let mut state = self.world.state();
        for refusal in refusals {
            let what = format!("{} is refused by the display (error {})", refusal.what, refusal.code);
            state.refused.insert((base, refusal.tag), what);
        }
        Ok(())
    }

    /// The first number of what it makes on the display; `None` before it has connected.
    pub fn first_resource(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.setup.resource_id_base)
    }

    /// By which the recorded server told its clients apart.
    fn base(&self) -> u32 {
        self.recorded.as_ref().map_or(0, |setup| setup.resource_id_base)
    }

    fn begin(&mut self, answer: &[u8]) -> Result<(), Error> {
        const TAKEN: u8 = 1;
        // A server that refuses the program gets no requests.
        if answer.first() != Some(&TAKEN) {
            return Ok(());
        }
        let (recorded, _) =
            Setup::try_parse(answer).map_err(|_| Error::NoX11("the server's first answer"))?;
        self.server = Some(self.world.join(&recorded)?);
        self.recorded = Some(recorded);
        Ok(())
    }

    /// A reply tells what a number means.
    fn learn(&mut self, packet: &Packet) -> Result<(), Error> {
        let Some(asked) = self.asked.remove(&packet.sequence()) else { return Ok(()) };
        let Some(server) = &mut self.server else { return Ok(()) };
        match asked {
            Asked::Atom(name) => {
                if let Some(atom @ 1..) = word(&packet.bytes, 8) {
                    self.world.state().atoms.insert(atom, name);
                }
            }
            Asked::AtomName(atom) => {
                let bytes = usize::from(half(&packet.bytes, 8).unwrap_or(0));
                if let Some(name) = packet.bytes.get(32..32 + bytes) {
                    self.world.state().atoms.insert(atom, name.to_vec());
                }
            }
            Asked::Extension(name) => {
                if packet.bytes.get(8) == Some(&1)
                    && let Some(&major) = packet.bytes.get(9)
                {
                    let real = server.extension(&name)?;
                    let requests = requests(&name);
                    let name = String::from_utf8_lossy(&name).into_owned();
                    self.extensions.insert(major, Extension { name, requests, real });
                }
            }
            Asked::Segment(name) => self.memory.attach_received(name),
            Asked::Descriptors => {
                let count = packet.bytes.get(1).copied().unwrap_or(0);
                self.memory.pass_over_received(count.into());
            }
            Asked::Formats(real) => {
                let reply =
                    server.ask("QueryPictFormats", &Request { major: real, detail: 1, body: Vec::new() })?;
                self.world.state().ids.match_formats(&packet.bytes, &reply);
            }
        }
        Ok(())
    }

    /// A window got another place or size, or came or went, which the program did not ask for: a user or a window
    /// manager did it.
    fn follow(&mut self, packet: &Packet) -> Result<(), Error> {
        const UNMAP_NOTIFY: u8 = 18;
        const MAP_NOTIFY: u8 = 19;
        const REPARENT_NOTIFY: u8 = 21;
        const CONFIGURE_NOTIFY: u8 = 22;
        const UNMAP_WINDOW: u8 = 10;
        const MAP_WINDOW: u8 = 8;
        let (event, bytes) = (packet.event(), &packet.bytes);
        let Some(id) = word(bytes, 8).filter(|id| word(bytes, 4) == Some(*id)) else { return Ok(()) };
        let Some(window) = self.windows.get_mut(&id).filter(|window| window.is_top) else { return Ok(()) };
        // What the program asked for since is not in it.
        let is_newer = |request: u16| packet.sequence().wrapping_sub(request) < u16::MAX / 2;
        let request = match event {
            Some(REPARENT_NOTIFY) => {
                let screen = self.recorded.as_ref().and_then(|setup| setup.roots.first());
                window.is_framed = screen.is_some_and(|screen| word(bytes, 12) != Some(screen.root));
                return Ok(());
            }
            Some(CONFIGURE_NOTIFY) if is_newer(window.placed) => {
                let is_sent = bytes[0] & 0x80 != 0;
                placing(bytes, is_sent || !window.is_framed)
            }
            Some(UNMAP_NOTIFY) if is_newer(window.mapped) => {
                Some(Request { major: UNMAP_WINDOW, detail: 0, body: id.to_le_bytes().to_vec() })
            }
            Some(MAP_NOTIFY) if is_newer(window.mapped) => {
                Some(Request { major: MAP_WINDOW, detail: 0, body: id.to_le_bytes().to_vec() })
            }
            _ => None,
        };
        let row = request.as_ref().and_then(|request| find(REQUESTS, request.major));
        let (Some(mut request), Some(row)) = (request, row) else { return Ok(()) };
        let translated = translate(row, &mut request.body, &self.world.state().ids);
        match (translated, &mut self.server) {
            (Ok(_), Some(server)) => server.send(row.name, &request),
            _ => Ok(()),
        }
    }

    /// Sends one request on, if it draws.
    fn pass(&mut self, request: Request, segments: &dyn Segments) -> Result<(), Error> {
        let (row, name, real) = match self.meaning(&request) {
            Ok(meaning) => meaning,
            Err(why) => {
                self.world.state().note_unsent(why);
                return Ok(());
            }
        };
        match row.act {
            Act::Ask | Act::Other => Ok(()),
            Act::Cannot => {
                self.world.state().note_unsent(format!("{name} cannot be shown"));
                Ok(())
            }
            Act::AskAtom
            | Act::AskAtomName
            | Act::AskExtension
            | Act::AskFormats
            | Act::AskSegment
            | Act::AskDescriptors => {
                self.remember(row.act, &request.body, real);
                Ok(())
            }
            Act::Version => self.tell_version(request, real),
            Act::Property => self.property(request, segments),
            Act::AttachSegment | Act::AttachDescriptor => {
                self.memory.attach(row.act, &request.body);
                Ok(())
            }
            Act::TakesDescriptor | Act::TakesDescriptors(_) => {
                let count = match row.act {
                    Act::TakesDescriptors(at) => request.body.get(at).copied().unwrap_or(0),
                    _ => 1,
                };
                self.memory.pass_over_sent(count.into());
                self.world.state().note_unsent(format!("{name} cannot be shown"));
                Ok(())
            }
            Act::SharedImage => self.shared_image(row, request, segments),
            Act::SharedPixmap => self.shared_pixmap(row, request),
            Act::Present => self.draw(row, &name, at_once(request), real, segments),
            Act::Window => {
                self.note_window(&request);
                self.draw(row, &name, request, real, segments)
            }
            Act::Picture => {
                self.memory.note_picture(&request.body);
                self.draw(row, &name, request, real, segments)
            }
            Act::Free => {
                self.memory.forget(&request.body);
                self.draw(row, &name, request, real, segments)
            }
            Act::Draw | Act::Text(_) | Act::Glyphs(_) => self.draw(row, &name, request, real, segments),
        }
    }

    /// The row of a request, its name, and its first number on the display.
    fn meaning(&self, request: &Request) -> Result<(&'static Row, String, u8), String> {
        if request.major < EXTENSION_FIRST {
            return match find(REQUESTS, request.major) {
                Some(row) => Ok((row, row.name.to_owned(), request.major)),
                None => Err(format!("request {} is not known", request.major)),
            };
        }
        const SILENT: Row = Row { number: 0, name: "", act: Act::Other, fields: &[] };
        static OTHER: Row = SILENT;
        let Some(extension) = self.extensions.get(&request.major) else {
            return Err(format!(
                "request {} is of an extension that the program did not ask for",
                request.major
            ));
        };
        let full = |name: &str| format!("{} {name}", extension.name);
        match (extension.requests, extension.real) {
            (Some(Requests::NonePaints), _) => Ok((&OTHER, full(""), 0)),
            (None, _) => Err(format!("{} is not shown", full(&format!("request {}", request.detail)))),
            (Some(Requests::Rows(rows)), real) => match (find(rows, request.detail), real) {
                (Some(row), Some(real)) => Ok((row, full(row.name), real)),
                (Some(row), None) if matches!(row.act, Act::Ask | Act::Other | Act::Version) => {
                    Ok((row, full(row.name), 0))
                }
                // Segments are read here, not by the display.
                (Some(row), None) if shared_memory::is_read_here(row.act) => Ok((row, full(row.name), 0)),
                (Some(row), None) => {
                    Err(format!("{} wants an extension that the display does not have", full(row.name)))
                }
                (None, _) => Err(format!("{} is not known", full(&format!("request {}", request.detail)))),
            },
        }
    }

    fn remember(&mut self, act: Act, body: &[u8], real: u8) {
        let asked = match act {
            Act::AskAtom => named(body).map(|name| Asked::Atom(name.to_vec())),
            Act::AskAtomName => word(body, 0).map(Asked::AtomName),
            Act::AskExtension => named(body).map(|name| Asked::Extension(name.to_vec())),
            Act::AskFormats => Some(Asked::Formats(real)),
            Act::AskSegment => word(body, 0).map(Asked::Segment),
            Act::AskDescriptors => Some(Asked::Descriptors),
            _ => None,
        };
        if let Some(asked) = asked {
            self.asked.insert(self.sequence, asked);
        }
    }

    fn note_window(&mut self, request: &Request) {
        const CREATE: u8 = 1;
        const REPARENT: u8 = 7;
        const CONFIGURE: u8 = 12;
        let Some(id) = word(&request.body, 0) else { return };
        let screen = self.recorded.as_ref().and_then(|setup| setup.roots.first());
        let is_top = screen.is_some_and(|screen| word(&request.body, 4) == Some(screen.root));
        let window = self.windows.entry(id).or_default();
        match request.major {
            CREATE => {
                *window = Window { is_top, placed: self.sequence, mapped: self.sequence, is_framed: false };
            }
            REPARENT => (window.is_top, window.placed) = (is_top, self.sequence),
            CONFIGURE => window.placed = self.sequence,
            _ => window.mapped = self.sequence,
        }
    }

    /// A display refuses what the program has not said to know.
    fn tell_version(&mut self, mut request: Request, real: u8) -> Result<(), Error> {
        request.major = real;
        match &mut self.server {
            Some(server) if real != 0 => server.ask("QueryVersion", &request).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn draw(
        &mut self,
        row: &Row,
        name: &str,
        mut request: Request,
        real: u8,
        segments: &dyn Segments,
    ) -> Result<(), Error> {
        let mut state = self.world.state();
        let named = match translate(row, &mut request.body, &state.ids) {
            Ok(named) => named,
            Err(why) => {
                state.note_unsent(format!("{name} {}", why.reason()));
                return Ok(());
            }
        };
        drop(state);
        self.refresh(&named, segments)?;
        request.major = real;
        match &mut self.server {
            Some(server) => server.send_tagged(name, self.sequence, &request),
            None => Ok(()),
        }
    }

    /// Properties draw nothing, but say to tools what a window is.
    fn property(&mut self, mut request: Request, segments: &dyn Segments) -> Result<(), Error> {
        const ATOM: u32 = 4;
        /// Of values that are numbers of resources: windows, pixmaps, hints about them.
        const OF_RESOURCES: [u32; 9] = [8, 9, 13, 16, 17, 20, 32, 33, 35];
        let name = "ChangeProperty";
        let row = find(REQUESTS, 18);
        let kind = word(&request.body, 8).unwrap_or(0);
        let (Some(row), false) = (row, OF_RESOURCES.contains(&kind)) else { return Ok(()) };
        let mut atoms = vec![4, 8];
        if kind == ATOM {
            let count = word(&request.body, 16).unwrap_or(0) as usize;
            atoms.extend((0..count.min(request.body.len() / 4)).map(|index| 20 + index * 4));
        }
        for at in atoms {
            let recorded = word(&request.body, at);
            let Some(recorded) = recorded else {
                self.world.state().note_unsent(format!("{name} {}", Unsendable::Short.reason()));
                return Ok(());
            };
            match self.atom(recorded)? {
                Some(real) => request.body[at..at + 4].copy_from_slice(&real.to_le_bytes()),
                None => {
                    let why = format!("{name} has atom {recorded}, whose name no recorded program asked for");
                    self.world.state().note_unsent(why);
                    return Ok(());
                }
            }
        }
        self.draw(row, name, request, row.number, segments)
    }

    /// An atom of the display.
    fn atom(&mut self, recorded: u32) -> Result<Option<u32>, Error> {
        const PREDEFINED_MAX: u32 = 68;
        if recorded <= PREDEFINED_MAX {
            return Ok(Some(recorded));
        }
        if let Some(&real) = self.atoms.get(&recorded) {
            return Ok(Some(real));
        }
        let name = self.world.state().atoms.get(&recorded).cloned();
        let (Some(name), Some(server)) = (name, &mut self.server) else { return Ok(None) };
        let real = server.atom(&name)?;
        self.atoms.insert(recorded, real);
        Ok(Some(real))
    }
}

/// A request to present a pixmap (presentproto) without what it waits for: that has been.
fn at_once(mut request: Request) -> Request {
    /// Monitor and fences; then options, and the frame that is waited for.
    const WAITED_FOR: std::ops::Range<usize> = 24..68;
    const OPTIONS: usize = 36;
    const ASYNC_COPY: u8 = 1 | 2;
    // Windows that are told of it are of no interest.
    request.body.truncate(WAITED_FOR.end);
    if let Some(waited_for) = request.body.get_mut(WAITED_FOR) {
        waited_for.fill(0);
        request.body[OPTIONS] = ASYNC_COPY;
    }
    request
}

/// The request that gives a window the place (if that is known) and size that an event tells.
fn placing(event: &[u8], has_place: bool) -> Option<Request> {
    const CONFIGURE_WINDOW: u8 = 12;
    const PLACE: u16 = 3;
    const SIZE: u16 = 1 << 2 | 1 << 3;
    let mut body = word(event, 8)?.to_le_bytes().to_vec();
    let mask = if has_place { PLACE | SIZE } else { SIZE };
    body.extend(u32::from(mask).to_le_bytes());
    if has_place {
        for at in [16, 18] {
            body.extend(i32::from(half(event, at)? as i16).to_le_bytes());
        }
    }
    for at in [20, 22] {
        body.extend(u32::from(half(event, at)?).to_le_bytes());
    }
    Some(Request { major: CONFIGURE_WINDOW, detail: 0, body })
}
