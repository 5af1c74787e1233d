//! What is left out of packs for strangers: values and streams are masked, and what a replay of the rest holds is
//! searched for them.
//!
//! Invariant: a trace is handed out only where no value of what was masked is found in it, in any form that
//! `secrets` knows, nor in the memory that it leads to.

mod contents;
mod copying;
mod memory;
mod places;
mod secrets;
mod streams;
mod wanted;

use std::path::{Path, PathBuf};

use clap::Args;
use replayer::PrivateFolder;
use serde_json::{Value, json};
use trace_store::{TraceReader, copy_changed};

use crate::exit::CommandError;
use crate::settings::Settings;
use crate::wording;
use copying::Copying;
use memory::Checked;
use places::Places;
use secrets::Secrets;
use streams::Walk;
use wanted::Wanted;

/// So many writes that hang on what was masked, in other forms than it was read, are found by replays.
const WRITES_MAX: usize = 32;

/// Options of what makes packs.
#[derive(Args, Debug)]
pub struct RedactArguments {
    /// Also mask env:NAME (its value, wherever it is), value:TEXT, or all bytes of a stream: stdin, file:PATH, ...
    #[arg(long, value_name = "WHAT", requires = "redact")]
    mask: Vec<String>,
    /// A stream that is left as it is, as tcp:*:5432
    #[arg(long, value_name = "PATTERN", requires = "redact")]
    leave: Vec<String>,
}

/// A masked copy of a trace, as long as it is wanted.
pub struct Masked {
    folder: PrivateFolder,
    /// Names, with how often their values were found.
    values: Vec<(String, u64)>,
    /// Names, with the bytes that were masked.
    streams: Vec<(String, u64)>,
    files: Vec<String>,
    /// What processes passed on of all this.
    passed_on: u64,
    /// What is not masked.
    unmasked: Vec<String>,
    checked: Checked,
    secrets: Secrets,
}

impl RedactArguments {
    /// True if more than the usual is masked.
    pub fn is_given(&self) -> bool {
        !self.mask.is_empty()
    }

    /// Makes the copy, and searches it.
    ///
    /// # Errors
    /// [`CommandError::Usage`]; [`CommandError::NotMasked`] where a value is left.
    pub fn masked(&self, trace: &TraceReader, settings: &Settings) -> Result<Masked, CommandError> {
        let wanted = Wanted::parse(&self.mask, &self.leave)?;
        let mut walk = Walk::of(trace, &wanted)?;
        let secrets = Secrets::new(std::mem::take(&mut walk.secrets));
        let mut writes = 0;
        let (folder, places, files, checked) = loop {
            let mut places = Places::of(trace, &walk, &wanted, &secrets)?;
            let folder = PrivateFolder::on_disk()
                .map_err(|source| CommandError::Try { doing: "make a folder", source })?;
            let mut copying = Copying {
                wanted: &wanted,
                secrets: &secrets,
                places: &mut places,
                written: &walk.written,
                files: Vec::new(),
                refused: Vec::new(),
            };
            copy_changed(trace, &copy_in(&folder), &mut copying)?;
            let (files, mut left) = (copying.files, copying.refused);
            let copy = TraceReader::open(&copy_in(&folder))?;
            left.extend(copying::left_in(&copy, &secrets)?);
            if left.is_empty() {
                let mut checked = memory::replays(&copy, settings);
                if let Some((lane, event)) = checked.sends.filter(|_| writes < WRITES_MAX) {
                    walk.mask_write(lane, event);
                    writes += 1;
                    continue;
                }
                checked = memory::search(checked, &copy, &secrets, settings)?;
                if checked.left.is_empty() {
                    break (folder, places, files, checked);
                }
                left = checked.left;
            }
            left.dedup();
            return Err(CommandError::NotMasked(left.join("; ")));
        };
        let values = secrets.all().iter().enumerate();
        let values = values
            .map(|(index, secret)| (secret.name.clone(), places.found.get(&index).copied().unwrap_or(0)))
            .collect();
        let streams = walk.streams.iter().enumerate();
        let streams = streams
            .map(|(index, name)| (name.clone(), places.bytes.get(&index).copied().unwrap_or(0)))
            .collect();
        let (passed_on, unmasked) = (places.passed_on, unmasked(&walk, &places, writes));
        Ok(Masked { folder, values, streams, files, passed_on, unmasked, checked, secrets })
    }
}

fn copy_in(folder: &PrivateFolder) -> PathBuf {
    folder.path().join("trace")
}

/// What could not be masked, in lines for the user.
fn unmasked(walk: &Walk, places: &Places, writes: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if walk.unknown {
        lines.push("not followed: descriptors that came in messages".to_owned());
    }
    if places.contents.is_cut {
        lines.push("not followed: what processes passed on of more than 8 MiB that they read".to_owned());
    }
    if writes != 0 {
        lines.push("not followed: what programs read again of what they made of it".to_owned());
    }
    if places.named != 0 {
        lines.push(format!(
            "not masked: {} paths and arguments that hold parts of it (--mask value:TEXT)",
            places.named
        ));
    }
    lines
}

impl Masked {
    /// The directory of the copy.
    pub fn dir(&self) -> PathBuf {
        copy_in(&self.folder)
    }

    /// Masks a text that was made of the trace itself.
    pub fn mask_text(&self, text: String) -> String {
        let mut bytes = text.into_bytes();
        self.secrets.mask(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True for a file in which no value is.
    pub fn is_clean(&self, path: &Path) -> bool {
        std::fs::read(path).is_ok_and(|content| self.secrets.find(&content).next().is_none())
    }

    /// What was done, in lines for the user.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, places) in &self.values {
            lines.push(format!("masked: {} ({places} places)", wording::printable(name.as_bytes())));
        }
        for (name, bytes) in self.streams.iter().filter(|(_, bytes)| *bytes != 0) {
            let name = wording::printable(name.as_bytes());
            lines.push(format!("masked: {name} ({})", wording::bytes(*bytes)));
        }
        for name in &self.files {
            lines.push(format!("masked: content of {}", wording::printable(name.as_bytes())));
        }
        if self.passed_on != 0 {
            lines.push(format!("masked: {} of it that processes passed on", wording::bytes(self.passed_on)));
        }
        lines.extend(self.unmasked.iter().cloned());
        lines.push(match &self.checked.stops {
            None => "the masked trace replays to its end".to_owned(),
            Some(place) => format!("the masked trace replays up to {place}"),
        });
        lines.push(format!(
            "memory: none of the values at the end of {} processes{}",
            self.checked.processes,
            match self.checked.unseen.len() {
                0 => String::new(),
                unseen => format!("; {unseen} could not be looked at"),
            }
        ));
        lines.push("not masked: all else that the program read (--mask)".to_owned());
        lines
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let named = |list: &[(String, u64)], what: &str| -> Vec<Value> {
            list.iter().map(|(name, count)| json!({ "name": name, what: count })).collect()
        };
        json!({
            "values": named(&self.values, "places"),
            "streams": named(&self.streams, "bytes"),
            "files": self.files,
            "passed_on_bytes": self.passed_on,
            "unmasked": self.unmasked,
            "replays": self.checked.stops.is_none(),
            "processes_checked": self.checked.processes,
            "processes_unseen": self.checked.unseen,
        })
    }
}
