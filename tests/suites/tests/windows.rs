//! Programs with windows: recorded on a display, replayed without any, and shown on another one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use suites::{Mode, Outcome, RUN_TIME_MAX, Recording, TestResult, Tool, check, run_suite, unless_missing};

/// A display that nobody sees; it ends with this.
struct Display {
    server: Child,
    name: String,
}

/// How programs connect to a display.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unix,
    Tcp,
}

impl Display {
    fn start(way: Way) -> Result<Display, String> {
        let failed = |error: std::io::Error| format!("Xvfb: {error}");
        let mut server = Command::new("Xvfb");
        // A server that resets when a client was the last one takes no other meanwhile.
        server.args(["-displayfd", "1", "-screen", "0", "640x480x24", "-noreset"]);
        server.args([if way == Way::Tcp { "-listen" } else { "-nolisten" }, "tcp"]);
        server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut display = Display { server: server.spawn().map_err(failed)?, name: String::new() };
        // It says its number when it takes connections.
        let mut number = String::new();
        let said = display.server.stdout.take().ok_or("Xvfb has no output")?;
        BufReader::new(said).read_line(&mut number).map_err(failed)?;
        let host = if way == Way::Tcp { "127.0.0.1" } else { "" };
        display.name = format!("{host}:{}", number.trim());
        Ok(display)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A program with windows is recorded on a display, and replayed where there is none.
fn windows_need_no_display_in_replay(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "windows", "windows", "shared_image")?;
    let display = Display::start(Way::Unix)?;
    let name = format!("DISPLAY={}", display.name);
    let words = ["--quiet", "record", "-o", "trace", "--", "env", &name, "xterm", "-e", "sh", "-c"];
    check(&recording.tool(&[&words[..], &["echo drawn"]].concat(), None)?, 0, "")?;
    drop(display);
    check(&recording.tool(&["dump", "trace"], None)?, 0, "/tmp/.X11-unix/X")?;
    check(&recording.tool(&["replay", "--run", "trace"], None)?, 0, "")
}

/// Pixels of the whole screen: width, height, three bytes each.
type Pixels = (usize, usize, Vec<u8>);

/// The screen as `xwd` finds it, which writes words with the highest byte first (XWDFile.h).
fn screen(display: &Display) -> Result<Pixels, String> {
    let mut command = Command::new("xwd");
    command.args(["-root", "-silent", "-display", &display.name]).stdin(Stdio::null());
    let dump = command.output().map_err(|error| format!("xwd: {error}"))?.stdout;
    let word = |index: usize| {
        let bytes = dump.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| u32::from_be_bytes(bytes) as usize).ok_or("xwd wrote no picture")
    };
    const COLOR_BYTES: usize = 12;
    let (width, height, line_bytes) = (word(4)?, word(5)?, word(12)?);
    // Where windows are of several depths it puts the picture together itself, from pixels of three bytes.
    let (pixel_bytes, is_highest_first) = (word(11)? / 8, word(7)? != 0);
    if !matches!(pixel_bytes, 3 | 4) {
        return Err(format!("xwd wrote pixels of {pixel_bytes} bytes"));
    }
    let image = dump.get(word(0)? + word(19)? * COLOR_BYTES..).ok_or("the picture is cut")?;
    let color = |pixel: &[u8]| match is_highest_first {
        true => [pixel[pixel_bytes - 3], pixel[pixel_bytes - 2], pixel[pixel_bytes - 1]],
        false => [pixel[2], pixel[1], pixel[0]],
    };
    let pixels = image
        .chunks_exact(line_bytes)
        .take(height)
        .flat_map(|line| line.chunks_exact(pixel_bytes).take(width).flat_map(color));
    Ok((width, height, pixels.collect()))
}

/// The picture in a file of PPM.
fn picture(recording: &Recording, name: &str) -> Result<Pixels, String> {
    let bytes = std::fs::read(recording.path(name)).map_err(|error| format!("{name}: {error}"))?;
    let head = bytes.get(..15).map(String::from_utf8_lossy).ok_or("the picture is cut")?;
    let mut sides = head.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok());
    let (Some(width), Some(height)) = (sides.next(), sides.next()) else { return Err(head.into_owned()) };
    Ok((width, height, bytes[15..].to_vec()))
}

/// What is on the screen when windows with colors are there and change no more, and it is not that of before.
fn still_screen(
    display: &Display,
    has_ended: &dyn Fn() -> bool,
    before: Option<&Pixels>,
) -> Result<Pixels, String> {
    const STILL_MS: u64 = 200;
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < RUN_TIME_MAX && !has_ended() {
        std::thread::sleep(Duration::from_millis(STILL_MS));
        let now = screen(display)?;
        let has_colors = now.2.chunks_exact(3).any(|pixel| pixel != &now.2[..3] && pixel != [0; 3]);
        if has_colors && before != Some(&now) && last.as_ref() == Some(&now) {
            return Ok(now);
        }
        last = Some(now);
    }
    Err("nothing was drawn".to_owned())
}

/// Records a program until its windows change no more, and gives what was on the screen then. One that says how far
/// it is makes the files that are named: the last says that all is drawn; the others have the number of a process,
/// which is killed, after the program was told by the pipe `go`. The screens of before are the first ones.
fn record_until_still(
    recording: &Recording,
    display: &Display,
    program: &str,
    files: &[&str],
) -> Result<Vec<Pixels>, String> {
    let script = format!("{program} & echo $! >pid.new; mv pid.new pid; wait");
    let name = format!("DISPLAY={}", display.name);
    let words = ["--quiet", "record", "-o", "trace", "--", "env", &name, "sh", "-c", &script];
    let signal = |signal: &str, file: &str| -> TestResult {
        let pid = recording.read(file)?;
        let sent = Command::new("kill").args([signal, pid.trim()]).status();
        sent.map(|_| ()).map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| recording.tool(&words, None));
        let has_ended = || recorder.is_finished();
        let mut pictures = Vec::new();
        for (index, file) in files.iter().enumerate() {
            while !recording.path(file).exists() && !has_ended() {
                std::thread::yield_now();
            }
            if index + 1 < files.len() {
                pictures.push(still_screen(display, &has_ended, None)?);
                recording.write("go", "")?;
                signal("-KILL", file)?;
            }
        }
        still_screen(display, &has_ended, pictures.last())?;
        // What it draws now is neither on the screen nor in the trace.
        signal("-STOP", "pid")?;
        pictures.push(screen(display)?);
        signal("-KILL", "pid")?;
        let outcome = recorder.join().map_err(|_| "the recorder's thread")??;
        if outcome.code != 0 {
            return Err(format!("{outcome:?}"));
        }
        Ok(pictures)
    })
}

/// Whether a picture shows what was on the screen.
fn shows(recording: &Recording, label: &str, name: &str, then: &Pixels) -> TestResult {
    if picture(recording, name)? == *then {
        return Ok(());
    }
    let kept = std::env::temp_dir().join(format!("differs-{label}-{name}"));
    let _ = std::fs::copy(recording.path(name), &kept);
    let head = format!("P6\n{} {}\n255\n", then.0, then.1);
    let _ = std::fs::write(kept.with_extension("then.ppm"), [head.as_bytes(), &then.2].concat());
    Err(format!("the picture differs: {}", kept.display()))
}

/// What is drawn in a replay has the same pixels as then, on another display.
fn is_shown(tool: &Arc<Tool>, label: &str, program: &str, way: Way) -> TestResult {
    let recording = Recording::new(tool, "windows", label, "shared_image")?;
    recording.build("several_connections", "-DAS_IT_WAS", "several_connections")?;
    recording.write("text", "What is shown\n\tis what was shown.\n")?;
    let files: &[&str] = if program.contains("several_connections") { &["drawn"] } else { &[] };
    let pictures = record_until_still(&recording, &Display::start(way)?, program, files)?;
    let then = pictures.first().ok_or("nothing was drawn")?;
    let other = Display::start(way)?;
    let is_then = |name: &str| shows(&recording, label, name, then);
    // Without any display it replays to the same end.
    check(&recording.tool(&["replay", "--run", "trace"], None)?, 0, "")?;
    // A display keeps nothing of it.
    for name in ["now.ppm", "again.ppm"] {
        let words = ["screenshot", "trace", "-o", name, "--display", &other.name];
        let made = recording.tool(&words, None)?;
        check(&made, 0, "opens a window on the display")?;
        all_is_shown(&made)?;
        is_then(name)?;
    }
    let show = ["replay", "--show", "--display", &other.name, "--speed", "1000", "trace"];
    let shown = recording.tool(&show, None)?;
    check(&shown, 0, "opens a window")?;
    all_is_shown(&shown)?;
    // Its windows are there as long as it has not ended.
    let pid = recording.read("pid")?;
    let gdb = ["replay", "--batch", "--pid", pid.trim(), "trace", "-ex", "continue"];
    let command = format!("screenshot gdb.ppm {}", other.name);
    check(&recording.tool(&[&gdb[..], &["-ex", &command]].concat(), None)?, 0, "written to gdb.ppm")?;
    is_then("gdb.ppm")?;
    pictures_are_in_the_page(&recording, &other)
}

/// The page of the timeline has a few pictures, and is no large file for it.
fn pictures_are_in_the_page(recording: &Recording, display: &Display) -> TestResult {
    const PAGE_BYTES_MAX: usize = 8 << 20;
    // Without being asked it draws them on a display of its own.
    for (given, expected) in [(Some(&*display.name), 2..=30), (None, 2..=30), (Some("none"), 0..=0)] {
        let mut words = vec!["timeline", "trace", "-o", "page.html"];
        words.extend(given.iter().flat_map(|display| ["--pictures", display]));
        let made = recording.tool(&words, None)?;
        check(&made, 0, "written to page.html")?;
        all_is_shown(&made)?;
        let page = recording.read("page.html")?;
        let pictures = page.matches("data:image/png;base64,").count();
        if !expected.contains(&pictures) || page.len() > PAGE_BYTES_MAX {
            return Err(format!(
                "{words:?}: a page of {} bytes with {pictures} pictures: {made:?}",
                page.len()
            ));
        }
    }
    Ok(())
}

fn all_is_shown(outcome: &Outcome) -> TestResult {
    if outcome.stderr_text().contains("not shown") { Err(format!("{outcome:?}")) } else { Ok(()) }
}

/// What cannot be shown is said.
fn nothing_to_show(tool: &Arc<Tool>) -> TestResult {
    let recording = Recording::new(tool, "windows", "windows-none", "shared_image")?;
    check(&recording.tool(&["--quiet", "record", "-o", "trace", "--", "true"], None)?, 0, "")?;
    check(&recording.tool(&["replay", "--show", "trace"], None)?, 2, "no X11 display")?;
    let page = ["timeline", "trace", "-o", "page.html", "--pictures", ":0"];
    check(&recording.tool(&page, None)?, 2, "no X11 display")?;
    check(&recording.tool(&["screenshot", "trace", "--at", "soon"], None)?, 2, "is no position")
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Editors that have a home of their own, and no session.
const GTK3: &str = "HOME=$PWD XDG_RUNTIME_DIR=$PWD GTK_A11Y=none NO_AT_BRIDGE=1 l3afpad text";
const QT5: &str = "HOME=$PWD XDG_RUNTIME_DIR=$PWD featherpad --standalone text";

type Check = Box<dyn Fn(&Arc<Tool>) -> TestResult + Send>;

fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    let trial = |name: &str, needs: &[&str], check: Check| {
        let own = Arc::clone(tool);
        let run = move || match own.mode {
            Mode::Native => Ok(()),
            _ => check(&own).map_err(Failed::from),
        };
        let missing = needs.iter().find(|name| !is_installed(name));
        unless_missing(Trial::test(name, run), missing.map(|name| format!("{name} is not installed")))
    };
    let shown = |name: &'static str, needs: &'static str, program: &'static str, way: Way| {
        let label = format!("windows-{name}");
        let check = move |tool: &Arc<Tool>| is_shown(tool, &label, program, way);
        trial(name, &["Xvfb", "xwd", needs], Box::new(check))
    };
    vec![
        trial("none", &[], Box::new(nothing_to_show)),
        trial("no_display", &["Xvfb", "xterm"], Box::new(windows_need_no_display_in_replay)),
        shown("xterm", "xterm", "xterm -e 'ls -l --color=always /; cat text; exec cat'", Way::Unix),
        shown("xedit", "xedit", "xedit text", Way::Unix),
        shown("shared_memory", "xwd", "./shared_image", Way::Unix),
        shown("several_connections", "xwd", "./several_connections", Way::Unix),
        shown("xeyes", "xeyes", "xeyes", Way::Unix),
        shown("gtk3", "l3afpad", GTK3, Way::Unix),
        shown("gtk3_tcp", "l3afpad", GTK3, Way::Tcp),
        shown("qt5", "featherpad", QT5, Way::Unix),
        shown("qt5_tcp", "featherpad", QT5, Way::Tcp),
    ]
}

fn main() -> ExitCode {
    run_suite(|tool| Ok(trials(tool)))
}
