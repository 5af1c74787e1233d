//! What logging costs, as the paper's section 6.2 asked: calls that give memory (read) and
//! calls that take it (write), by their number and by their size; and the size of the log.

use std::ffi::OsString;

use crate::figures::{Curve, Figure, linear, log};
use crate::measure::{bytes_under, median};
use crate::session::{Ready, Session};

/// What a call costs more in the paper, in microseconds.
const PAPERS_US: f64 = 30.0;

const CALLS: [&str; 2] = ["read", "write"];
const COUNTS: [u64; 5] = [2_000, 4_000, 8_000, 16_000, 32_000];
const COUNT_BYTES: u64 = 4096;
const SIZES: [u64; 5] = [4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20];
/// Calls of each size.
const SIZE_COUNT: u64 = 100;

/// One kind of call, so often, with so many bytes.
struct Point {
    native_us: f64,
    recorded_us: f64,
    log_kb: f64,
}

/// Prints the table and gives the figures.
pub fn measure(session: &Session) -> Result<Vec<Figure>, String> {
    println!("\nlogging, medians of {} rounds (the paper: {PAPERS_US} us a call)", session.rounds);
    println!("call     count   KB each  native us  recorded us  more us a call   log KB");
    let mut figures = figures();
    for call in CALLS {
        let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
        for count in COUNTS {
            let point = measure_point(session, call, count, COUNT_BYTES)?;
            curves[0].push((count as f64, point.recorded_us - point.native_us));
            curves[2].push((count as f64, point.log_kb));
        }
        for bytes in SIZES {
            let point = measure_point(session, call, SIZE_COUNT, bytes)?;
            curves[1].push(((bytes >> 10) as f64, (point.recorded_us - point.native_us) / SIZE_COUNT as f64));
        }
        for (figure, points) in figures.iter_mut().zip(curves) {
            figure.curves.push(Curve::measured(call, points));
        }
    }
    let paper = COUNTS.map(|count| (count as f64, count as f64 * PAPERS_US));
    figures[0].curves.push(Curve::of_paper("paper: 30 us a call", paper.to_vec()));
    Ok(figures.into())
}

fn figures() -> [Figure; 3] {
    let figure = |name: &str, title: &str, x, y| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        x,
        y,
        curves: Vec::new(),
    };
    [
        figure(
            "figure-5-logging-by-calls",
            "Figure 5: more time by the number of calls, 4 KB each",
            linear("calls"),
            log("us more than native"),
        ),
        figure(
            "figure-6-logging-by-size",
            "Figure 6: more time of one call by its size",
            log("KB in one call"),
            log("us more than native, a call"),
        ),
        figure(
            "figure-7-size-of-the-log",
            "Figure 7: size of the log by the number of calls, 4 KB each",
            linear("calls"),
            log("KB on disk"),
        ),
    ]
}

fn measure_point(session: &Session, call: &str, count: u64, bytes: u64) -> Result<Point, String> {
    let mut ready = session.ready_micro("logging")?;
    ready.argv.extend([call.into(), count.to_string().into(), bytes.to_string().into()] as [OsString; 3]);
    let (mut native, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..session.rounds {
        native.push(inner_us(session.native(&ready)?)?);
        recorded.push(inner_us(session.recorded(&ready)?)?);
    }
    let point = Point {
        native_us: median(&native),
        recorded_us: median(&recorded),
        log_kb: log_kb(session, &mut ready)?,
    };
    println!(
        "{call:<5} {count:>8} {:>9} {:>10.0} {:>12.0} {:>15.2} {:>8.0}",
        bytes >> 10,
        point.native_us,
        point.recorded_us,
        (point.recorded_us - point.native_us) / count as f64,
        point.log_kb,
    );
    Ok(point)
}

/// The trace of the latest recording, less that of a run without any call.
fn log_kb(session: &Session, ready: &mut Ready) -> Result<f64, String> {
    let all = bytes_under(&session.trace());
    ready.argv[2] = "0".into();
    session.recorded(ready)?;
    Ok(all.saturating_sub(bytes_under(&session.trace())) as f64 / 1024.0)
}

fn inner_us(taken: crate::session::Taken) -> Result<f64, String> {
    let inner = taken.inner.ok_or("the program did not tell its time")?;
    Ok(inner.as_secs_f64() * 1e6)
}
