//! The window that stands for the recorded screen.
//!
//! Invariant: all windows of the clients are inside of it. What covers it, or parts of it that lie outside of the
//! display, take nothing from its picture where the display has Composite.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use x11rb_protocol::protocol::xproto::{Screen, Setup};

use crate::error::Error;
use crate::ids::Ids;
use crate::packets::Request;
use crate::picture::Picture;
use crate::server::Server;

/// How long a window manager may take until the window is there.
const MAPPED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

const CREATE_WINDOW: u8 = 1;
const GET_WINDOW_ATTRIBUTES: u8 = 3;
const MAP_WINDOW: u8 = 8;
const CHANGE_PROPERTY: u8 = 18;
const GET_IMAGE: u8 = 73;
const CREATE_COLORMAP: u8 = 78;
const CREATE_PIXMAP: u8 = 53;
const CREATE_GC: u8 = 55;
const KILL_CLIENT: u8 = 113;

/// The window, on a connection of its own.
pub struct Stage {
    server: Server,
    window: u32,
    size: [u16; 2],
    masks: [u32; 3],
    depth: u8,
    /// Graphics contexts of ours, by depths.
    contexts: HashMap<u8, u32>,
}

impl Stage {
    /// Makes the window, and says what stands for the recorded screen.
    ///
    /// # Errors
    /// [`Error::Unlike`], [`Error::NotMapped`], and those of the connection.
    pub fn new(display: Option<&str>, title: &str, recorded: &Setup, ids: &mut Ids) -> Result<Stage, Error> {
        let mut server = Server::connect(display)?;
        ids.match_screens(recorded, &server.setup)?;
        let (Some(screen), Some(root)) = (recorded.roots.first(), server.setup.roots.first().cloned()) else {
            return Err(Error::NoX11("a server without a screen"));
        };
        let visual = ids.visual(screen.root_visual).unwrap_or(0);
        let colormap = if visual == root.root_visual {
            root.default_colormap
        } else {
            let colormap = server.new_id();
            let body = words(&[colormap, root.root, visual]);
            server.send("CreateColormap", &Request { major: CREATE_COLORMAP, detail: 0, body })?;
            colormap
        };
        let window = server.new_id();
        let size = [screen.width_in_pixels, screen.height_in_pixels];
        create(&mut server, window, &root, screen, [visual, colormap])?;
        name(&mut server, window, title, size)?;
        if let Some(major) = server.extension(b"Composite")? {
            let query = Request { major, detail: 0, body: words(&[0, 4]) };
            server.ask("Composite QueryVersion", &query)?;
            let automatic = Request { major, detail: 1, body: words(&[window, 0]) };
            server.send("RedirectWindow", &automatic)?;
        }
        server.send("MapWindow", &Request { major: MAP_WINDOW, detail: 0, body: words(&[window]) })?;
        wait_until_mapped(&mut server, window, display)?;
        ids.set(screen.root, window);
        ids.set(screen.default_colormap, colormap);
        let masks = masks(screen);
        Ok(Stage { server, window, size, masks, depth: screen.root_depth, contexts: HashMap::new() })
    }

    /// A graphics context that no program has changed, for drawables of that depth.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn context(&mut self, depth: u8) -> Result<u32, Error> {
        if let Some(&context) = self.contexts.get(&depth) {
            return Ok(context);
        }
        let (pixmap, context) = (self.server.new_id(), self.server.new_id());
        let body = words(&[pixmap, self.window, 1 | 1 << 16]);
        self.server.send("CreatePixmap", &Request { major: CREATE_PIXMAP, detail: depth, body })?;
        let body = words(&[context, pixmap, 0]);
        self.server.send("CreateGC", &Request { major: CREATE_GC, detail: 0, body })?;
        // Other connections use it.
        self.server.settle()?;
        self.contexts.insert(depth, context);
        Ok(context)
    }

    /// Ends another connection, whose resources have numbers from this one on. A connection that is closed ends some
    /// time later.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn end_client(&mut self, base: u32) -> Result<(), Error> {
        self.server.send("KillClient", &Request { major: KILL_CLIENT, detail: 0, body: words(&[base]) })?;
        self.server.settle()
    }

    /// What is in the window.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn picture(&mut self) -> Result<Picture, Error> {
        const ALL_PLANES: u32 = u32::MAX;
        const Z_PIXMAP: u8 = 2;
        let drawable = match self.server.extension(b"Composite")? {
            Some(major) => {
                let pixmap = self.server.new_id();
                let named = Request { major, detail: 6, body: words(&[self.window, pixmap]) };
                self.server.send("NameWindowPixmap", &named)?;
                pixmap
            }
            None => self.window,
        };
        let mut body = words(&[drawable, 0]);
        body.extend(self.size.iter().flat_map(|side| side.to_le_bytes()));
        body.extend(ALL_PLANES.to_le_bytes());
        let reply = self.server.ask("GetImage", &Request { major: GET_IMAGE, detail: Z_PIXMAP, body })?;
        let form = self.server.setup.pixmap_formats.iter().find(|form| form.depth == self.depth);
        let (bits, pad) =
            form.map_or((32, 32), |form| (usize::from(form.bits_per_pixel), usize::from(form.scanline_pad)));
        let [width, height] = self.size;
        let stride = (usize::from(width) * bits).next_multiple_of(pad.max(8)) / 8;
        let image = reply.get(32..).unwrap_or_default();
        Ok(Picture::of_image(width.into(), height.into(), image, bits / 8, stride, self.masks))
    }
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The window has no border, the recorded screen's size, and a black ground, as screens of today have.
fn create(
    server: &mut Server,
    window: u32,
    root: &Screen,
    recorded: &Screen,
    [visual, colormap]: [u32; 2],
) -> Result<(), Error> {
    const INPUT_OUTPUT: u16 = 1;
    /// Back pixel, border pixel, colormap.
    const GIVEN: u32 = 1 << 1 | 1 << 3 | 1 << 13;
    let mut body = words(&[window, root.root]);
    for number in [0, 0, recorded.width_in_pixels, recorded.height_in_pixels, 0, INPUT_OUTPUT] {
        body.extend(number.to_le_bytes());
    }
    body.extend(words(&[visual, GIVEN, recorded.black_pixel, recorded.black_pixel, colormap]));
    server.send("CreateWindow", &Request { major: CREATE_WINDOW, detail: recorded.root_depth, body })
}

/// Its title, and that it keeps its size (ICCCM, 4.1.2).
fn name(server: &mut Server, window: u32, title: &str, [width, height]: [u16; 2]) -> Result<(), Error> {
    const STRING: u32 = 31;
    const WM_NAME: u32 = 39;
    const WM_NORMAL_HINTS: u32 = 40;
    const WM_SIZE_HINTS: u32 = 41;
    const LEAST_AND_MOST: u32 = 1 << 4 | 1 << 5;
    let [width, height] = [width, height].map(u32::from);
    let mut hints = [0; 18];
    hints[0] = LEAST_AND_MOST;
    [hints[5], hints[6], hints[7], hints[8]] = [width, height, width, height];
    let properties = [
        (WM_NAME, STRING, 8, title.len(), title.as_bytes().to_vec()),
        (WM_NORMAL_HINTS, WM_SIZE_HINTS, 32, hints.len(), words(&hints)),
    ];
    for (property, kind, bits, count, value) in properties {
        let mut body = words(&[window, property, kind, bits, count as u32]);
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
        server.send("ChangeProperty", &Request { major: CHANGE_PROPERTY, detail: 0, body })?;
    }
    Ok(())
}

/// What is drawn before the window manager maps the window would be lost.
fn wait_until_mapped(server: &mut Server, window: u32, display: Option<&str>) -> Result<(), Error> {
    const VIEWABLE: u8 = 2;
    let began = Instant::now();
    loop {
        let request = Request { major: GET_WINDOW_ATTRIBUTES, detail: 0, body: words(&[window]) };
        if server.ask("GetWindowAttributes", &request)?.get(26) == Some(&VIEWABLE) {
            break;
        }
        if began.elapsed() > MAPPED_WITHIN {
            return Err(Error::NotMapped(display.unwrap_or("the display").to_owned()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    match server.refusals().into_iter().next() {
        Some(refusal) => {
            Err(Error::Unlike(format!("the display refused {} (error {})", refusal.what, refusal.code)))
        }
        None => Ok(()),
    }
}

fn masks(screen: &Screen) -> [u32; 3] {
    let mut visuals = screen.allowed_depths.iter().flat_map(|depth| &depth.visuals);
    let own = visuals.find(|visual| visual.visual_id == screen.root_visual);
    own.map_or([0xff_0000, 0xff00, 0xff], |own| [own.red_mask, own.green_mask, own.blue_mask])
}
