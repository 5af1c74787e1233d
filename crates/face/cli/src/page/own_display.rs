//! A display of our own, for pictures that nobody asked for: Xvfb, which nobody else can look into.
//!
//! Who reads its cookie is another run of this command: the library for displays takes it from the environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use replayer::PrivateFolder;

use crate::event_index::EventIndex;
use crate::policy::{DISPLAY_PORTS, DISPLAY_SOCKETS};
use crate::settings::Settings;

/// Bytes of a cookie.
const COOKIE_BYTES: usize = 16;
/// The largest screens that are common.
const SCREEN: &str = "3840x2160x24";

/// Ends with this.
struct OwnDisplay {
    server: Child,
    folder: PrivateFolder,
    number: String,
}

/// True where the program connected to an X11 display.
pub fn has_windows(index: &EventIndex) -> bool {
    let connects = |row: &usize| super::name_of(index.sorts[usize::from(index.sorts_of[*row])]) == "connect";
    let names_display = |text: String| {
        let port = text.split_once("_port=").map(|(_, rest)| rest.split(',').next().unwrap_or_default());
        let port = port.and_then(|digits| digits.parse::<u16>().ok());
        text.contains(DISPLAY_SOCKETS) || port.is_some_and(|port| DISPLAY_PORTS.contains(&port))
    };
    let rows = (0..index.sorts_of.len()).filter(connects);
    rows.filter_map(|row| index.text(row)).any(names_display)
}

/// Writes the page with pictures, by another run of this command.
///
/// # Errors
/// Why there are none, for people.
pub fn write_page(trace_dir: &Path, page: &Path, settings: &Settings) -> Result<(), String> {
    let display = OwnDisplay::start().map_err(|error| format!("Xvfb: {error}"))?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    settings.pass_on(&mut command);
    command.arg("--quiet").arg("timeline").arg(trace_dir).arg("-o").arg(page);
    command.args(["--pictures", &format!(":{}", display.number)]);
    command.env("XAUTHORITY", display.folder.path().join("cookie"));
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().last().unwrap_or("it failed").trim_start_matches("retrovane: ").to_owned())
}

impl OwnDisplay {
    fn start() -> std::io::Result<OwnDisplay> {
        let folder = PrivateFolder::in_memory()?;
        let path = folder.path().join("cookie");
        let mut cookie = [0; COOKIE_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut cookie)?;
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&entry(cookie))?;
        let mut server = Command::new("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", SCREEN, "-noreset", "-nolisten", "tcp"]);
        server.arg("-auth").arg(&path);
        server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut display = OwnDisplay { server: server.spawn()?, folder, number: String::new() };
        // It says its number when it takes connections.
        if let Some(said) = display.server.stdout.take() {
            BufReader::new(said).read_line(&mut display.number)?;
        }
        display.number = display.number.trim().to_owned();
        if display.number.is_empty() {
            return Err(std::io::Error::other("it did not start"));
        }
        Ok(display)
    }
}

impl Drop for OwnDisplay {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// An entry of a file as xauth(1) makes it, for each host and display (FamilyWild): numbers and lengths
/// are of 16 bits, the first byte is the higher one.
fn entry(cookie: [u8; COOKIE_BYTES]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xff];
    for part in [&b""[..], b"", b"MIT-MAGIC-COOKIE-1", &cookie] {
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}
