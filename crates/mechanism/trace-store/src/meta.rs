//! What a trace says about itself in JSON: [`Meta`] at its beginning, [`Summary`]
//! at its end.
//!
//! Deliberately absent: environment variables, which hold secrets and which no
//! listing needs. (The recorded memory of the program holds them anyway.)

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::contents::LaneEnd;
use crate::record::FORMAT_VERSION;

/// What was recorded, where and how. Written when the recording starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the trace's format.
    pub format: u32,
    /// Version of the tool that recorded.
    pub tool: String,
    /// The program and its arguments.
    #[serde(with = "lossless::list")]
    pub command: Vec<OsString>,
    /// The directory it started in.
    #[serde(with = "lossless::path")]
    pub cwd: PathBuf,
    /// When the recording started, RFC 3339 in UTC.
    pub started: String,
    /// The same in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Release of the recording host's kernel.
    pub kernel: String,
    /// Model of the recording host's processor.
    pub cpu: String,
    /// How system calls were intercepted.
    pub interception: String,
    /// Options of the recording that are not the default.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl Meta {
    /// The description of a recording that starts now on this host.
    pub fn now(command: Vec<OsString>, cwd: PathBuf, interception: &str) -> Meta {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Meta {
            format: FORMAT_VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            cwd,
            started: rfc3339(since.as_secs(), since.subsec_millis()),
            started_unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: cpu_model(),
            interception: interception.to_owned(),
            options: BTreeMap::new(),
        }
    }

    /// When the recording started.
    pub fn started_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started_unix_ns)
    }

    /// The time of so many milliseconds after the start, RFC 3339 in UTC.
    pub fn time_after(&self, millis: u32) -> String {
        let since = Duration::from_nanos(self.started_unix_ns) + Duration::from_millis(u64::from(millis));
        rfc3339(since.as_secs(), since.subsec_millis())
    }
}

/// How a recording ended. Written when it is finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// End of the program's first lane.
    pub exit: LaneEnd,
    /// Length of the recording in nanoseconds.
    pub duration_ns: u64,
    /// What the user should know: why recording stopped before the program did,
    /// or what was not recorded.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Sums over all lanes of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub lanes: u64,
    pub events: u64,
    pub chunks: u64,
    /// Bytes of events.
    pub raw_bytes: u64,
    /// Bytes that they take in the file, without the chunks' headers.
    pub stored_bytes: u64,
}

/// What the summary's record holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Closing {
    pub summary: Summary,
    pub totals: Totals,
}

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn cpu_model() -> String {
    // The first processor's part: the kernel looks at each that is read of.
    let mut info = [0; 1024];
    let bytes = File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut info)).unwrap_or(0);
    String::from_utf8_lossy(&info[..bytes])
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Formats a time in UTC. The date comes from the count of days by the usual
/// arithmetic on eras of 400 years that start on the first of March.
pub(crate) fn rfc3339(unix_seconds: u64, millis: u32) -> String {
    let (days, second_of_day) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Arguments and paths are bytes on Linux: JSON has them as a string where they
/// are UTF-8, else as an array of numbers, so that nothing is lost.
pub(crate) mod lossless {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use serde::{Deserialize, Serialize};

    #[derive(Serialize)]
    #[serde(untagged)]
    enum Borrowed<'a> {
        Text(&'a str),
        Bytes(&'a [u8]),
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Owned {
        Text(String),
        Bytes(Vec<u8>),
    }

    fn borrow(value: &OsStr) -> Borrowed<'_> {
        match value.to_str() {
            Some(text) => Borrowed::Text(text),
            None => Borrowed::Bytes(value.as_bytes()),
        }
    }

    fn own(value: Owned) -> OsString {
        match value {
            Owned::Text(text) => text.into(),
            Owned::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }

    pub mod list {
        use super::*;

        pub fn serialize<S: serde::Serializer>(list: &[OsString], to: S) -> Result<S::Ok, S::Error> {
            to.collect_seq(list.iter().map(|value| borrow(value)))
        }

        pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<OsString>, D::Error> {
            Ok(Vec::<Owned>::deserialize(from)?.into_iter().map(own).collect())
        }
    }

    pub mod path {
        use std::path::{Path, PathBuf};

        use super::*;

        pub fn serialize<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
            borrow(path.as_os_str()).serialize(to)
        }

        pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
            Ok(own(Owned::deserialize(from)?).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn times_are_what_the_date_command_says() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_399, 5), "2000-02-28T23:59:59.005Z");
        assert_eq!(rfc3339(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_709_251_200, 0), "2024-03-01T00:00:00.000Z");
        assert_eq!(rfc3339(4_102_444_799, 999), "2099-12-31T23:59:59.999Z");
    }

    #[test]
    fn arguments_that_are_no_text_survive() {
        let strange = OsString::from_vec(vec![b'a', 0xff, b'b']);
        let meta = Meta::now(vec!["echo".into(), strange.clone()], strange.into(), "user-dispatch");
        let json = serde_json::to_string(&meta).expect("meta has nothing that JSON cannot say");
        assert!(json.contains("\"echo\""), "text stays readable: {json}");
        assert_eq!(serde_json::from_str::<Meta>(&json).expect("it was just written"), meta);
    }
}
