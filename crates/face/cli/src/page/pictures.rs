//! Pictures of what an X11 program showed, for the page: small, few, and as data of the page.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use display::Picture;
use replayer::{Real, ReplayOptions, replay};

use crate::exit::CommandError;
use crate::policy::{Moment, PolicyArguments};
use crate::replay::begin;
use crate::settings::Settings;
use crate::show::{Show, Wanted, title_of};

const PICTURES_MAX: usize = 30;
const WIDTH_MAX: u32 = 320;
/// Of all pictures together.
const BYTES_MAX: usize = 6 << 20;

/// A picture behind an event.
pub struct Taken {
    pub at: Moment,
    /// For an `img`.
    pub address: String,
}

/// Replays the trace on a display, and takes pictures where the program sent something to its own.
///
/// # Errors
/// [`CommandError::Usage`] where there is nothing to show, and those of the replay and of the display.
pub fn take(trace_dir: &Path, display: &str, settings: &Settings) -> Result<Vec<Taken>, CommandError> {
    let display = Some(display.to_owned());
    // As fast as it goes, and to the end.
    let wanted = Wanted { display, until: None, pace: Some(f64::INFINITY), title: title_of(trace_dir) };
    let (applied, show) = Show::apply(wanted, &PolicyArguments::default(), trace_dir)?;
    let mut applied = begin(applied, trace_dir, settings)?;
    let began = show.begin_with_pictures(PICTURES_MAX);
    let outcome = replay(ReplayOptions {
        real: applied.plan.take().map(|plan| Real { plan, begun: Some(began) }),
        ..settings.replay_of(trace_dir.to_owned())
    });
    let pictures = show.pictures();
    show.end(settings.quiet);
    if let Some(divergence) = outcome.map_err(|error| CommandError::BadReplay(error.to_string()))?.divergence
    {
        return Err(CommandError::BadReplay(divergence.to_string()));
    }
    within(pictures?)
}

/// Each as data, as long as there is room; what shows nothing new is left out.
fn within(pictures: Vec<(Moment, Picture)>) -> Result<Vec<Taken>, CommandError> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut left = BYTES_MAX;
    let mut before = None;
    for (at, picture) in pictures {
        let small = picture.smaller(WIDTH_MAX);
        if before.as_ref() == Some(&small) {
            continue;
        }
        let address = format!("data:image/png;base64,{}", BASE64.encode(small.to_png()?));
        let Some(rest) = left.checked_sub(address.len()) else { break };
        left = rest;
        taken.push(Taken { at, address });
        before = Some(small);
    }
    Ok(taken)
}
