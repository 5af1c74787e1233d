//! A future of a lab: it runs the lab again until a checkpoint, stands there, and goes on when it is told to.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use clap::Args;
use lab::{Control, GoOn, Halt, Kin, Spec, StopReason, Stopper, Taken};
use nix::sys::signal::{SigSet, Signal};

use crate::exit;
use crate::lab::future_process::{Said, Told, say};
use crate::lab::futures::{ORDERS, Orders};
use crate::lab::kept::{SPEC, read_json};
use crate::lab::running::{self, Answering};
use crate::lab::show::Shown;
use crate::lab::start::Run;
use crate::settings::Settings;

#[derive(Args, Debug)]
pub struct FutureArguments {
    /// The folder of the future, with its orders
    dir: PathBuf,
}

/// The socket to the keeper; several threads write to it.
#[derive(Clone)]
struct Line(Arc<UnixStream>);

impl Line {
    fn say(&self, said: &Said) {
        say(&self.0, said);
    }
}

/// The keeper's end of standard input; what the lab's own programs have there is nothing.
fn take_line() -> std::io::Result<Line> {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Line(Arc::new(socket)))
}

pub fn run(arguments: &FutureArguments, settings: &Settings) -> ExitCode {
    // Nothing of a lab outlives `lab run`.
    let _ = nix::sys::prctl::set_pdeathsig(Some(Signal::SIGKILL));
    // The keeper has blocked those that `lab run` hands on.
    let _ = SigSet::empty().thread_set_mask();
    let known = read_json::<Orders>(&arguments.dir.join(ORDERS))
        .and_then(|orders| Ok((orders, read_json::<Spec>(&arguments.dir.join(SPEC))?)));
    let (orders, spec) = match known {
        Ok(known) => known,
        Err(error) => return exit::failure(exit::BAD_TRACE, &error),
    };
    let (home, line) = match (settings.home(), take_line()) {
        (Ok(home), Ok(line)) => (home, line),
        (Err(error), _) => return exit::failure(error.code(), &error),
        (_, Err(error)) => return exit::failure(exit::FAILED, &error),
    };
    let run = Run {
        dir: arguments.dir.clone(),
        home,
        spec,
        as_json: orders.as_json,
        quiet: settings.quiet,
        shadows: 0,
        sums_memory: false,
    };
    let is_live = Arc::new(AtomicBool::new(false));
    let (stands, stood) = channel();
    let (go, goes_on) = channel();
    let (took, left) = (line.clone(), line.clone());
    let kin = Kin {
        clock: orders.clock,
        sums_memory: false,
        halt: Some(Halt { number: orders.number, stands, goes_on }),
        notice: Some(Box::new(move |taken| took.say(&Said::Took(taken.number)))),
        silent: None,
        left: Some(Box::new(move || left.say(&Said::Left))),
        number: number_among_labs(&arguments.dir),
    };
    let (answering, live) = (Arc::new(Mutex::new(None)), Arc::clone(&is_live));
    let (own, kept) = (run.clone(), Arc::clone(&answering));
    let begun = move |stopper, control| {
        let ear = Ear { run: own, stopper, control, stood, go, is_live: live, answering: kept };
        ear.begin(&line);
    };
    let end = run.record(kin, Box::new(begun), Box::new(|_| ()));
    drop(answering.lock().map(|mut answering| answering.take()));
    match end {
        Ok(end) if is_live.load(Ordering::Acquire) => run.tell(end),
        Ok(Some(end)) => match end.error {
            Some(error) => exit::failure(exit::FAILED, &error),
            // Nobody wants to go there any more.
            None if end.stopped.is_some() => ExitCode::SUCCESS,
            None => exit::failure(exit::FAILED, &"the lab ran again, and ended before it came there"),
        },
        Ok(None) => ExitCode::from(exit::FAILED),
        Err(code) => code,
    }
}

/// The run's first future has the number of its process, which is this one's parent; those later follow.
fn number_among_labs(dir: &std::path::Path) -> usize {
    let own = dir.file_name().and_then(|name| name.to_str()?.parse::<usize>().ok());
    nix::unistd::getppid().as_raw() as usize + own.unwrap_or(0)
}

/// What hears the keeper.
struct Ear {
    run: Run,
    stopper: Stopper,
    control: Control,
    stood: Receiver<Taken>,
    go: Sender<GoOn>,
    is_live: Arc<AtomicBool>,
    answering: Arc<Mutex<Option<Answering>>>,
}

impl Ear {
    fn begin(self, line: &Line) {
        let Ear { run, stopper, control, stood, go, is_live, answering } = self;
        let place = Arc::new(Mutex::new(None));
        let (says, known) = (line.clone(), Arc::clone(&place));
        std::thread::spawn(move || {
            while let Ok(taken) = stood.recv() {
                if let Ok(mut known) = known.lock() {
                    *known = Some(taken.clone());
                }
                says.say(&Said::Stands(taken));
            }
        });
        let hears = line.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(&*hears.0).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    // A lab that has ended since says so.
                    Ok(Told::Go(on @ GoOn::Further { .. })) => drop(go.send(on)),
                    Ok(Told::Go(on @ GoOn::Live { .. })) => {
                        is_live.store(true, Ordering::Release);
                        let answers = running::answer(&run.dir, None, control.clone(), stopper.clone(), None);
                        if let Err(error) = &answers {
                            diagnostics::tell!("retrovane: `lab` commands cannot reach this future: {error}");
                        }
                        if let Ok(mut answering) = answering.lock() {
                            *answering = answers.ok();
                        }
                        if let Some(taken) = place.lock().ok().and_then(|mut place| place.take()) {
                            Shown::new(&run.spec, run.as_json, None).back(&taken);
                        }
                        // A lab that has ended since says so.
                        let _ = go.send(on);
                    }
                    Ok(Told::Leave) => stopper.stop(StopReason::Left),
                    Err(_) => break,
                }
            }
            stopper.stop(StopReason::Recording);
        });
    }
}
