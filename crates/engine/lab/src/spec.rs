//! `lab.toml`: what a lab is made of.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fabric::LinkSpec;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::quantities;

/// Most nodes: each has an address in 10.0.0.0/16.
const NODES_MAX: usize = 1000;
/// No two nodes start in the same instant, as no two machines do: programs that seed their chance from the
/// time (raft's election timeouts in etcd) would all draw the same, and wait for each other for ever.
const BETWEEN_STARTS_NS: u64 = 1_001;

/// How many checkpoints are kept that are taken every so often, if it is not said.
pub const KEPT_CHECKPOINTS: usize = 16;

/// What is wrong with the file: where, and why.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("{}: {source}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {reason}", .path.display())]
    At { path: PathBuf, line: usize, reason: String },
}

/// By what the lab's clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// By what happens: where all nodes wait, it jumps.
    #[default]
    Virtual,
    /// By the machine's, less the time for which the lab stood still.
    Real,
}

/// What computing takes, by the virtual clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpu {
    #[default]
    None,
    Measured,
}

/// A lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub clock: Clock,
    pub cpu: Cpu,
    pub seed: u64,
    /// How much processor time a thread may take without a call while others could go on, in nanoseconds; never
    /// preempted if `None`.
    #[serde(default)]
    pub preempts_after_ns: Option<u64>,
    /// CLOCK_REALTIME when the lab begins.
    pub begins_at_ns: u64,
    pub nodes: Vec<NodeSpec>,
    pub links: Vec<(usize, usize, LinkSpec)>,
    /// In the order of their times.
    pub events: Vec<Event>,
}

impl Spec {
    /// True where the lab's time depends on the machine's.
    pub fn keeps_clock(&self) -> bool {
        self.clock == Clock::Real || self.cpu == Cpu::Measured
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    pub name: String,
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Files in the node's folder, by their names there: copies of these files.
    pub files: BTreeMap<String, PathBuf>,
    pub addresses: Vec<IpAddr>,
    /// When it gets power.
    pub starts_at_ns: u64,
}

/// Something that is done at a time of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at_ns: u64,
    pub action: Action,
    /// It was asked for while the lab ran.
    #[serde(default)]
    pub is_wish: bool,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// The node loses power.
    Kill {
        node: usize,
    },
    /// The node gets power again, after it lost it if it has.
    Restart {
        node: usize,
    },
    /// The part that each node is in.
    Partition {
        parts: Vec<u32>,
    },
    Heal,
    Link {
        between: (usize, usize),
        spec: LinkSpec,
    },
    Run {
        node: usize,
        command: Vec<String>,
    },
    Checkpoint,
    /// A checkpoint is taken each time so long later, and so many of these are kept; 0: no more of them.
    Every {
        every_ns: u64,
        keep: usize,
    },
    /// What chance draws by from here on.
    Seed {
        seed: u64,
    },
    /// The lab ends.
    Stop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    #[serde(default)]
    clock: Clock,
    #[serde(default)]
    cpu: Cpu,
    #[serde(default = "first_seed")]
    seed: u64,
    preempts_after: Option<Spanned<String>>,
    begins_at: Option<u64>,
    node: BTreeMap<Spanned<String>, RawNode>,
    #[serde(default)]
    link: Vec<Spanned<RawEntry>>,
    #[serde(default)]
    lan: Vec<Spanned<RawEntry>>,
    #[serde(default)]
    event: Vec<Spanned<RawEntry>>,
}

fn first_seed() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, PathBuf>,
    count: Option<usize>,
    starts: Option<String>,
}

/// A link, a LAN or an event.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    between: Option<[String; 2]>,
    nodes: Option<Vec<String>>,
    delay: Option<String>,
    jitter: Option<String>,
    rate: Option<String>,
    loss: Option<f64>,
    reorder: Option<f64>,
    duplicate: Option<f64>,
    queue: Option<String>,
    at: Option<String>,
    r#do: Option<String>,
    node: Option<String>,
    command: Option<Vec<String>>,
    groups: Option<Vec<Vec<String>>>,
    seed: Option<u64>,
    every: Option<String>,
    keep: Option<usize>,
}

/// Reads a description.
///
/// # Errors
/// The file cannot be read, or says what cannot be: the line, and why.
pub fn read(path: &Path) -> Result<Spec, SpecError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.to_owned(), source })?;
    let reader = Reader { path, text: &text };
    let raw: RawSpec = toml::from_str(&text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let names_router =
            ROUTERS.iter().any(|key| error.message().starts_with(&format!("unknown field `{key}`")));
        reader.at(&span, if names_router { NO_ROUTERS } else { error.message() })
    })?;
    reader.spec(raw)
}

/// Reads what is to be done of an event that is written as in a description, for the nodes and links of `spec`.
///
/// # Errors
/// What is wrong with it.
pub fn read_event(text: &str, spec: &Spec) -> Result<Action, SpecError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct One {
        event: Spanned<RawEntry>,
    }
    let reader = Reader { path: Path::new("event"), text };
    let one: One = toml::from_str(text)
        .map_err(|error| reader.at(&error.span().unwrap_or_default(), error.message()))?;
    reader.event(&one.event, &spec.nodes, &spec.links).map(|event| event.action)
}

/// How often checkpoints are taken, in nanoseconds; 0: no more of them.
///
/// # Errors
/// What is wrong with the text.
pub fn every_ns(text: &str) -> Result<u64, String> {
    const EVERY_MIN_NS: u64 = 1_000_000;
    match quantities::time_ns(text)? {
        1..EVERY_MIN_NS => Err(format!("a checkpoint every {text} is too often: each 1ms at most")),
        every_ns => Ok(every_ns),
    }
}

/// How much processor time a thread may take without a call while others could go on, if it is not said.
const PREEMPTS_AFTER_NS: u64 = 2_000_000_000;

/// Keys by which somebody describes a way over several links.
const ROUTERS: [&str; 9] =
    ["router", "routers", "route", "routes", "via", "gateway", "forward", "forwards", "switch"];
const NO_ROUTERS: &str = "there are no routers in a lab: nodes reach those that they have a link to; \
    describe the way as one link, with the delays of all and the least rate";

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn at(&self, span: &Range<usize>, reason: impl Into<String>) -> SpecError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        SpecError::At { path: self.path.to_owned(), line, reason: reason.into() }
    }

    fn spec(&self, raw: RawSpec) -> Result<Spec, SpecError> {
        const NEW_YEAR_2026_NS: u64 = 1_767_225_600_000_000_000;
        let mut nodes = Vec::new();
        // In the order in which they stand in the file.
        let mut described: Vec<_> = raw.node.into_iter().collect();
        described.sort_by_key(|(name, _)| name.span().start);
        for (name, node) in described {
            self.add_nodes(&mut nodes, &name, &node)?;
        }
        let mut links = Vec::new();
        for link in &raw.link {
            let span = link.span();
            let Some([one, other]) = &link.get_ref().between else {
                return Err(self.at(&span, "a link needs `between`, two nodes"));
            };
            let [one, other] = [self.find(&nodes, one, &span)?, self.find(&nodes, other, &span)?];
            let spec = self.quality(link.get_ref(), &LinkSpec::default(), &span)?;
            links.push((one, other, spec));
        }
        for lan in &raw.lan {
            self.add_lan(&mut links, &nodes, lan)?;
        }
        if raw.link.is_empty() && raw.lan.is_empty() {
            // One LAN of all.
            let pairs = (0..nodes.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
            links.extend(pairs.map(|(one, other)| (one, other, LinkSpec::default())));
        }
        let mut events = Vec::new();
        for event in &raw.event {
            events.push(self.event(event, &nodes, &links)?);
        }
        events.sort_by_key(|event| event.at_ns);
        let begins_at_ns = raw.begins_at.map_or(NEW_YEAR_2026_NS, |seconds| seconds * 1_000_000_000);
        let (clock, cpu, seed) = (raw.clock, raw.cpu, raw.seed);
        let preempts_after_ns = self.preempts_after_ns(raw.preempts_after.as_ref())?;
        Ok(Spec { clock, cpu, seed, preempts_after_ns, begins_at_ns, nodes, links, events })
    }

    fn preempts_after_ns(&self, said: Option<&Spanned<String>>) -> Result<Option<u64>, SpecError> {
        match said {
            None => Ok(Some(PREEMPTS_AFTER_NS)),
            Some(text) if text.get_ref() == "never" => Ok(None),
            Some(text) => {
                let after_ns = quantities::time_ns(text.get_ref());
                after_ns.map(Some).map_err(|reason| self.at(&text.span(), reason))
            }
        }
    }

    fn add_nodes(
        &self,
        nodes: &mut Vec<NodeSpec>,
        name: &Spanned<String>,
        raw: &RawNode,
    ) -> Result<(), SpecError> {
        let span = name.span();
        let name = name.get_ref();
        let is_tame = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if name.is_empty() || !is_tame {
            return Err(self.at(&span, format!("`{name}` is no name of a host: letters, digits, `-`")));
        }
        if raw.command.is_empty() {
            return Err(self.at(&span, format!("the node `{name}` has an empty command")));
        }
        for number in 1..=raw.count.unwrap_or(1) {
            let index = nodes.len() + 1;
            if index > NODES_MAX {
                return Err(self.at(&span, format!("more than {NODES_MAX} nodes")));
            }
            let name = if raw.count.is_some() { format!("{name}-{number}") } else { name.clone() };
            let v4 = Ipv4Addr::new(10, 0, (index / 250) as u8, (index % 250) as u8);
            let starts_at_ns = match &raw.starts {
                Some(text) => quantities::time_ns(text).map_err(|reason| self.at(&span, reason))?,
                None => (index as u64 - 1) * BETWEEN_STARTS_NS,
            };
            let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, index as u16);
            nodes.push(NodeSpec {
                name,
                command: raw.command.clone(),
                environment: raw.environment.clone(),
                files: self.files(&raw.files),
                addresses: vec![v4.into(), v6.into()],
                starts_at_ns,
            });
        }
        Ok(())
    }

    /// Files are named as seen from where the description lies.
    fn files(&self, files: &BTreeMap<String, PathBuf>) -> BTreeMap<String, PathBuf> {
        let base = self.path.parent().unwrap_or(Path::new("."));
        files.iter().map(|(name, path)| (name.clone(), base.join(path))).collect()
    }

    fn add_lan(
        &self,
        links: &mut Vec<(usize, usize, LinkSpec)>,
        nodes: &[NodeSpec],
        lan: &Spanned<RawEntry>,
    ) -> Result<(), SpecError> {
        let span = lan.span();
        let members: Vec<usize> = match &lan.get_ref().nodes {
            Some(names) => {
                names.iter().map(|name| self.find(nodes, name, &span)).collect::<Result<_, _>>()?
            }
            None => (0..nodes.len()).collect(),
        };
        let spec = self.quality(lan.get_ref(), &LinkSpec::default(), &span)?;
        for (place, &one) in members.iter().enumerate() {
            links.extend(members[place + 1..].iter().map(|&other| (one, other, spec.clone())));
        }
        Ok(())
    }

    fn find(&self, nodes: &[NodeSpec], name: &str, span: &Range<usize>) -> Result<usize, SpecError> {
        let found = nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| self.at(span, format!("there is no node `{name}`")))
    }

    fn quality(&self, raw: &RawEntry, base: &LinkSpec, span: &Range<usize>) -> Result<LinkSpec, SpecError> {
        let mut spec = base.clone();
        let bad = |reason: String| self.at(span, reason);
        if let Some(text) = &raw.delay {
            spec.delay_ns = quantities::time_ns(text).map_err(bad)?;
        }
        if let Some(text) = &raw.jitter {
            spec.jitter_ns = quantities::time_ns(text).map_err(bad)?;
        }
        if let Some(text) = &raw.rate {
            spec.bits_per_second = quantities::rate(text).map_err(bad)?;
        }
        if let Some(text) = &raw.queue {
            spec.queue_bytes = quantities::bytes(text).map_err(bad)?;
        }
        for (name, given, to) in [
            ("loss", raw.loss, &mut spec.loss),
            ("reorder", raw.reorder, &mut spec.reorder),
            ("duplicate", raw.duplicate, &mut spec.duplicate),
        ] {
            if let Some(given) = given {
                if !(0.0..=1.0).contains(&given) {
                    return Err(bad(format!("`{name}` is a probability, from 0 to 1, and not {given}")));
                }
                *to = given;
            }
        }
        Ok(spec)
    }

    fn event(
        &self,
        raw: &Spanned<RawEntry>,
        nodes: &[NodeSpec],
        links: &[(usize, usize, LinkSpec)],
    ) -> Result<Event, SpecError> {
        let (span, raw) = (raw.span(), raw.get_ref());
        let Some(kind) = raw.r#do.as_deref() else {
            return Err(self.at(&span, "an event needs `do`"));
        };
        let missing = |what: &str| self.at(&span, format!("the event `{kind}` needs `{what}`"));
        // From the beginning on, if it is not said.
        let at = raw.at.as_deref().or(raw.every.as_ref().map(|_| "0s")).ok_or_else(|| missing("at"))?;
        let at_ns = quantities::time_ns(at).map_err(|reason| self.at(&span, reason))?;
        let node = || self.find(nodes, raw.node.as_deref().ok_or_else(|| missing("node"))?, &span);
        let action = match kind {
            "kill" => Action::Kill { node: node()? },
            "restart" => Action::Restart { node: node()? },
            "heal" => Action::Heal,
            "checkpoint" => match &raw.every {
                None => Action::Checkpoint,
                Some(every) => {
                    let keep = raw.keep.unwrap_or(KEPT_CHECKPOINTS);
                    Action::Every {
                        every_ns: every_ns(every).map_err(|reason| self.at(&span, reason))?,
                        keep,
                    }
                }
            },
            "stop" => Action::Stop,
            "seed" => Action::Seed { seed: raw.seed.ok_or_else(|| missing("seed"))? },
            "run" => {
                let command = raw.command.clone().filter(|command| !command.is_empty());
                Action::Run { node: node()?, command: command.ok_or_else(|| missing("command"))? }
            }
            "partition" => {
                let groups = raw.groups.as_ref().ok_or_else(|| missing("groups"))?;
                let mut parts = vec![0; nodes.len()];
                for (index, group) in groups.iter().enumerate() {
                    for name in group {
                        parts[self.find(nodes, name, &span)?] = index as u32 + 1;
                    }
                }
                Action::Partition { parts }
            }
            "link" => {
                let [one, other] = raw.between.as_ref().ok_or_else(|| missing("between"))?;
                let between = (self.find(nodes, one, &span)?, self.find(nodes, other, &span)?);
                let is_it = |link: &&(usize, usize, LinkSpec)| {
                    [(link.0, link.1), (link.1, link.0)].contains(&between)
                };
                let Some((_, _, base)) = links.iter().find(is_it) else {
                    return Err(self.at(&span, format!("`{one}` and `{other}` have no link")));
                };
                Action::Link { between, spec: self.quality(raw, base, &span)? }
            }
            other => {
                let known = "kill, restart, partition, heal, link, run, checkpoint, seed, stop";
                return Err(self.at(&span, format!("nobody knows how to do `{other}`; there are: {known}")));
            }
        };
        Ok(Event { at_ns, action, is_wish: false })
    }
}
