use std::io;
use std::path::PathBuf;

/// What keeps a display from showing something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "there is no display: set DISPLAY, or start one (Xvfb :5 -screen 0 1280x1024x24) and give --display :5"
    )]
    NoDisplay,
    #[error("the display {name} cannot be connected to: {why}")]
    Connect { name: String, why: String },
    #[error("the connection to the display ended: {0}")]
    Lost(#[from] io::Error),
    #[error("the display's window is closed")]
    Closed,
    #[error("the display refuses {what} (error {code})")]
    Refused { what: &'static str, code: u8 },
    #[error("{0}")]
    Unlike(String),
    #[error("what the recorded program sent to its display is no X11: {0}")]
    NoX11(&'static str),
    #[error("the program drew nothing up to this position")]
    Nothing,
    #[error("the replay ended before all was shown")]
    Cut,
    #[error("the window does not appear: the window manager of {0} does not map it")]
    NotMapped(String),
    #[error("{path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
}
