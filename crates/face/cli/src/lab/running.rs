//! Labs that run: each answers at a socket in its folder, an object of JSON a line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use clap::Args;
use lab::{Action, Changes, Control, NodeEnd, PastPlace, Spec, Standing, StopReason, Stopper, read_event};
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::lab::back;
use crate::lab::discard;
use crate::lab::futures::{self, Event};
use crate::lab::kept::{KEPT, Kept, SPEC, read_json};
use crate::settings::Settings;

/// The socket in a run's folder.
const SOCKET: &str = "control";
/// Links to the folders of runs that are not in the home directory, by the run's process.
const ELSEWHERE: &str = "elsewhere";

/// How long a lab has to stop by itself.
const WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
enum Request {
    Standing,
    Stop,
    Do { action: Action },
    Back { to: Option<PastPlace>, changes: Changes },
    Discard { numbers: Vec<usize> },
}

#[derive(Args, Debug)]
pub struct PsArguments {
    /// As JSON, an object a line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct RunName {
    /// The run: its name, its folder [default: the latest]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

impl RunName {
    pub fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    pub fn json(&self) -> bool {
        self.json
    }
}

#[derive(Args, Debug)]
pub struct CheckpointArguments {
    #[command(flatten)]
    name: RunName,
    /// Not now, but each time so much lab time has passed from now on, as 1s; 0s: no more of these
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
    /// With `--every`: how many of these to keep, dense near the present, sparse long ago
    #[arg(long, value_name = "N", default_value_t = lab::KEPT_CHECKPOINTS, requires = "every")]
    keep: usize,
}

#[derive(Args, Debug)]
pub struct StopArguments {
    /// The run: its name, its folder [default: the latest that runs]
    run: Option<String>,
    /// Say the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct ExecArguments {
    #[command(flatten)]
    name: RunName,
    /// The node
    node: String,
    /// The command; what it writes is the node's output
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct LinkArguments {
    #[command(flatten)]
    name: RunName,
    /// One end
    one: String,
    /// The other end
    other: String,
    /// How long a packet takes, as 10ms
    #[arg(long)]
    delay: Option<String>,
    /// By how much that differs, as 1ms
    #[arg(long)]
    jitter: Option<String>,
    /// Bits a second, as 100Mbit
    #[arg(long)]
    rate: Option<String>,
    /// Bytes that wait for the link, as 64kB
    #[arg(long)]
    queue: Option<String>,
    /// The part of packets that are lost, from 0 to 1
    #[arg(long)]
    loss: Option<f64>,
}

/// A socket's path in a folder whose own path may be too long for one.
fn socket_path(dir: &Path) -> std::io::Result<(std::fs::File, PathBuf)> {
    let folder = std::fs::File::open(dir)?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    Ok((folder, PathBuf::from(format!("/proc/self/fd/{number}/{SOCKET}"))))
}

/// Answers for a lab until the command ends.
pub struct Answering {
    dir: PathBuf,
    link: Option<PathBuf>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Who finds them learns that nobody answers.
        let _ = std::fs::remove_file(self.dir.join(SOCKET));
        if let Some(link) = &self.link {
            let _ = std::fs::remove_file(link);
        }
    }
}

/// Begins to answer. The thread ends with the process.
///
/// `home`: where the run is listed, if it is one of its own; `keeper`: who goes back.
pub fn answer(
    dir: &Path,
    home: Option<&Path>,
    control: Control,
    stopper: Stopper,
    keeper: Option<Sender<Event>>,
) -> std::io::Result<Answering> {
    let (_folder, path) = socket_path(dir)?;
    let listener = UnixListener::bind(path)?;
    let labs = home.map(|home| home.join("labs")).filter(|labs| dir.parent() != Some(labs));
    let link = labs.map(|labs| labs.join(ELSEWHERE).join(std::process::id().to_string()));
    if let Some(link) = &link {
        std::fs::create_dir_all(link.parent().unwrap_or(dir))?;
        let _ = std::fs::remove_file(link);
        symlink(dir, link)?;
    }
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who has gone away is not answered.
            let _ = serve(stream, &control, &stopper, keeper.as_ref());
        }
    });
    Ok(Answering { dir: dir.to_owned(), link })
}

fn serve(
    stream: UnixStream,
    control: &Control,
    stopper: &Stopper,
    keeper: Option<&Sender<Event>>,
) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Request::Standing => reply(&stream, &control.standing()),
        Request::Stop => {
            let standing = control.standing();
            control.wish(Action::Stop, None);
            // Where a thread computes and asks nothing, no event comes.
            let stopper = stopper.clone();
            std::thread::spawn(move || {
                std::thread::sleep(WAIT_MAX);
                stopper.stop(StopReason::Asked);
            });
            reply(&stream, &standing)
        }
        Request::Do { action } => {
            let (done, told) = channel();
            control.wish(action, Some(done));
            // Others are answered meanwhile. Where the lab ends before, there is no answer.
            std::thread::spawn(move || {
                let Ok(standing) = told.recv() else { return };
                // Who has gone away is not answered.
                let _ = reply(&stream, &standing);
            });
            Ok(())
        }
        Request::Back { to, changes } => {
            let keeper = keeper.cloned();
            // Others are answered meanwhile.
            std::thread::spawn(move || {
                // Who has gone away is not answered.
                let _ = reply(&stream, &back::ask_keeper(keeper.as_ref(), to, changes));
            });
            Ok(())
        }
        Request::Discard { numbers } => reply(&stream, &discard::ask_keeper(keeper, numbers)),
    }
}

fn reply(mut stream: &UnixStream, answer: &impl Serialize) -> std::io::Result<()> {
    stream.write_all(format!("{}\n", serde_json::to_string(answer)?).as_bytes())
}

fn ask(dir: &Path, request: &Request) -> std::io::Result<Standing> {
    Ok(serde_json::from_str(&ask_line(dir, request)?)?)
}

/// How far a lab is, by who runs it.
pub fn now_ns(dir: &Path) -> Option<u64> {
    Some(ask(dir, &Request::Standing).ok()?.now_ns)
}

/// Asks a run's keeper to discard checkpoints.
pub fn ask_discard(dir: &Path, numbers: Vec<usize>) -> std::io::Result<Result<(), String>> {
    Ok(serde_json::from_str(&ask_line(dir, &Request::Discard { numbers })?)?)
}

/// Asks a run's keeper to go back.
pub fn ask_back(dir: &Path, to: Option<PastPlace>, changes: Changes) -> std::io::Result<back::Answer> {
    Ok(serde_json::from_str(&ask_line(dir, &Request::Back { to, changes })?)?)
}

fn ask_line(dir: &Path, request: &Request) -> std::io::Result<String> {
    let (_folder, path) = socket_path(dir)?;
    let stream = UnixStream::connect(path)?;
    (&stream).write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    Ok(line)
}

/// The folders of all runs that are known, the oldest first.
pub fn all(home: &Path) -> Vec<PathBuf> {
    let labs = home.join("labs");
    let entries =
        |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_run = |dir: &PathBuf| dir.join(SPEC).exists();
    let mut found: Vec<PathBuf> = entries(&labs).filter(is_run).collect();
    for link in entries(&labs.join(ELSEWHERE)) {
        match std::fs::read_link(&link) {
            // Its process was killed: it is named this once.
            Ok(dir) if is_run(&dir) => {
                if ask(&dir, &Request::Standing).is_err() {
                    let _ = std::fs::remove_file(&link);
                }
                found.push(dir);
            }
            _ => drop(std::fs::remove_file(&link)),
        }
    }
    found.sort_by_key(|dir| std::fs::metadata(dir.join("log.jsonl")).and_then(|log| log.created()).ok());
    found
}

/// The present of the run of a name, or of the latest.
pub fn find(home: &Path, name: Option<&str>) -> Result<PathBuf, String> {
    find_run(home, name).map(|dir| futures::present(&dir))
}

/// The run of a name, or the latest.
pub fn find_run(home: &Path, name: Option<&str>) -> Result<PathBuf, String> {
    match name {
        Some(name) => {
            let places = [PathBuf::from(name), home.join("labs").join(name)];
            let found = places.into_iter().find(|dir| dir.join(SPEC).exists());
            found.ok_or_else(|| format!("there is no run `{name}`: `retrovane lab ps` lists them"))
        }
        None => all(home)
            .pop()
            .ok_or_else(|| "there is no run yet: `retrovane lab run FILE` makes one".to_owned()),
    }
}

/// How a run is.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub run: String,
    pub dir: PathBuf,
    /// running, ended, failed, left where it went on in another future, or cut where its process was killed.
    pub state: &'static str,
    pub now_ns: Option<u64>,
    pub nodes: Vec<ListedNode>,
}

#[derive(Debug, Serialize)]
pub struct ListedNode {
    pub name: String,
    pub addresses: Vec<std::net::IpAddr>,
    pub end: Option<NodeEnd>,
}

/// Looks at the present of a run.
pub fn look(run: &Path) -> Option<Listed> {
    let mut listed = look_at(&futures::present(run))?;
    listed.run = run.file_name()?.to_string_lossy().into_owned();
    Some(listed)
}

/// Looks at a future of a run.
pub fn look_at(dir: &Path) -> Option<Listed> {
    let spec: Spec = read_json(&dir.join(SPEC)).ok()?;
    let standing = ask(dir, &Request::Standing).ok();
    let kept: Option<Kept> = read_json(&dir.join(KEPT)).ok();
    let is_left = futures::present(dir) != dir || kept.as_ref().is_some_and(|kept| kept.is_left);
    let standing = standing.filter(|_| !is_left);
    let state = match (&standing, &kept) {
        _ if is_left => "left",
        (Some(_), _) => "running",
        (None, Some(kept)) if kept.is_good => "ended",
        (None, Some(_)) => "failed",
        (None, None) => "cut",
    };
    let now_ns =
        standing.as_ref().map(|standing| standing.now_ns).or(kept.map(|kept| kept.digest.ended_at_ns));
    let ends = standing.map_or_else(Vec::new, |standing| standing.ends);
    let nodes = spec.nodes.iter().enumerate().map(|(index, node)| ListedNode {
        name: node.name.clone(),
        addresses: node.addresses.clone(),
        end: ends.get(index).copied().flatten(),
    });
    let run = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Some(Listed { run, dir: dir.to_owned(), state, now_ns, nodes: nodes.collect() })
}

pub fn ps(arguments: &PsArguments, settings: &Settings) -> ExitCode {
    let home = match settings.home() {
        Ok(home) => home,
        Err(error) => return exit::failure(error.code(), &error),
    };
    for run in all(&home).iter().filter_map(|dir| look(dir)) {
        if arguments.json {
            println!("{}", serde_json::to_string(&run).unwrap_or_default());
            continue;
        }
        let at = run.now_ns.map_or("-".to_owned(), |now_ns| format!("{:.6} s", now_ns as f64 / 1e9));
        println!("{:10} {:8} {at:>16}  {}", run.run, run.state, run.dir.display());
        for node in run.nodes.iter().filter(|_| run.state == "running") {
            let address = node.addresses.first().map_or(String::new(), ToString::to_string);
            let end = node.end.map_or("runs", |_| "has ended");
            println!("  {:16} {address:14} {end}", node.name);
        }
    }
    ExitCode::SUCCESS
}

/// Tells a run something; says how far it was when that was done.
fn tell(dir: Result<PathBuf, String>, request: &Request, as_json: bool) -> ExitCode {
    let told = dir.and_then(|dir| {
        ask(&dir, request).map_err(|error| {
            format!("the run in {} does not answer, it has ended ({error}): `retrovane lab ps` lists those that run",
                dir.display())
        })
    });
    match told {
        Ok(standing) if as_json => println!("{}", serde_json::to_string(&standing).unwrap_or_default()),
        Ok(standing) => {
            let number =
                standing.checkpoint.map_or_else(String::new, |number| format!("checkpoint {number} "));
            println!("{number}at {:.6} s", standing.now_ns as f64 / 1e9);
        }
        Err(error) => return exit::failure(exit::FAILED, &error),
    }
    ExitCode::SUCCESS
}

fn named(name: Option<&str>, settings: &Settings) -> Result<PathBuf, String> {
    named_run(name, settings).map(|dir| futures::present(&dir))
}

/// The run of a name, or the latest that runs.
pub fn named_run(name: Option<&str>, settings: &Settings) -> Result<PathBuf, String> {
    let home = settings.home().map_err(|error| error.to_string())?;
    match name {
        Some(_) => find_run(&home, name),
        None => {
            let runs = |dir: &PathBuf| ask(dir, &Request::Standing).is_ok();
            all(&home).into_iter().rfind(runs).ok_or_else(|| "no lab runs".to_owned())
        }
    }
}

pub fn stop(arguments: &StopArguments, settings: &Settings) -> ExitCode {
    tell(named(arguments.run.as_deref(), settings), &Request::Stop, arguments.json)
}

fn quoted(text: &str) -> String {
    // A string of JSON is one of TOML.
    serde_json::to_string(text).unwrap_or_default()
}

/// Does what an event of a description says, now.
fn act(name: &RunName, settings: &Settings, event: &str) -> ExitCode {
    let dir = named(name.run.as_deref(), settings);
    let action = dir.as_ref().map_err(Clone::clone).and_then(|dir| {
        let spec: Spec = read_json(&dir.join(SPEC))?;
        let event = format!("event = {{ at = \"0s\", {event} }}");
        read_event(&event, &spec).map_err(|error| error.to_string())
    });
    match action {
        Ok(action) => tell(dir, &Request::Do { action }, name.json),
        Err(error) => exit::failure(exit::USAGE, &error),
    }
}

pub fn exec(arguments: &ExecArguments, settings: &Settings) -> ExitCode {
    let words: Vec<String> = arguments.command.iter().map(|word| quoted(word)).collect();
    let event = format!("do = \"run\", node = {}, command = [{}]", quoted(&arguments.node), words.join(", "));
    act(&arguments.name, settings, &event)
}

pub fn link(arguments: &LinkArguments, settings: &Settings) -> ExitCode {
    let ends = [&arguments.one, &arguments.other].map(|name| quoted(name)).join(", ");
    let mut event = format!("do = \"link\", between = [{ends}]");
    for (name, value) in [
        ("delay", &arguments.delay),
        ("jitter", &arguments.jitter),
        ("rate", &arguments.rate),
        ("queue", &arguments.queue),
    ] {
        if let Some(value) = value {
            event += &format!(", {name} = {}", quoted(value));
        }
    }
    if let Some(loss) = arguments.loss {
        event += &format!(", loss = {loss:?}");
    }
    act(&arguments.name, settings, &event)
}

pub fn checkpoint(arguments: &CheckpointArguments, settings: &Settings) -> ExitCode {
    let every = arguments.every.as_ref();
    let more = every.map(|every| format!(", every = {}, keep = {}", quoted(every), arguments.keep));
    act(&arguments.name, settings, &format!("do = \"checkpoint\"{}", more.unwrap_or_default()))
}
