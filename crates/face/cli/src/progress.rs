//! Bars that show how far a long work is.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::settings::Settings;

/// A bar on stderr; a hidden one where stderr is no terminal, or quiet is wanted.
pub fn bar(settings: &Settings, doing: &'static str, template: &str) -> ProgressBar {
    if settings.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    // Work that is done at once shows nothing: the bar is drawn from its first update on.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(style);
    bar.set_message(doing);
    bar
}

/// A bar that counts bytes.
pub fn bytes(settings: &Settings, doing: &'static str) -> ProgressBar {
    bar(settings, doing, "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
}

/// A bar that counts events.
pub fn events(settings: &Settings, doing: &'static str) -> ProgressBar {
    bar(settings, doing, "{msg} {bar:30} {human_pos}/{human_len} events {eta}")
}

/// A bar that counts the tries of a hunt.
pub fn tries(settings: &Settings, doing: &'static str, total: u64) -> ProgressBar {
    let bar = bar(settings, doing, "{msg} {bar:30} {pos}/{len} tries, none failed, {elapsed}");
    bar.set_length(total);
    bar
}

/// Shows a state.
pub fn show(bar: &ProgressBar, done: u64, total: u64) {
    // A replay of a moment needs no bar, and its output should not be torn.
    if bar.elapsed() >= Duration::from_millis(500) {
        bar.set_length(total);
        bar.set_position(done);
    }
}
