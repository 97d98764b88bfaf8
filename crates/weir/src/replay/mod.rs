//! Replays: captures through the graph of a live gateway, with a line for each packet.
//!
//! Only ports, clock and randomness differ from `weir run`. `merge` puts the packets of all captures in the order of
//! their timestamps, a [`Harness`] runs the graph over them, [`sink`] takes the packets that leave, and a [`Line`] has
//! the verdict on each. [`explanation`] does the same for a single packet, with all details.
//!
//! **Vectors.** A replay takes packets that arrived together, as a live gateway does. A vector holds a packet and the
//! packets that follow within [`WINDOW`], up to 256. The clock stands at the latest of their timestamps while the graph
//! runs. Nothing else moves the clock, and it never goes back. Equal inputs, configuration and seed give equal results,
//! to the octet.

pub(crate) mod access;
pub mod bridge;
mod by;
pub mod classify;
pub mod explanation;
mod fast_path;
pub mod host;
mod input;
mod keys;
mod line;
pub(crate) mod merge;
pub mod nat;
pub mod peer;
mod portless;
mod quoted;
pub mod sa;
pub mod sink;
pub mod spd;
pub(crate) mod station;
pub mod steer;
pub mod tunnel;
pub mod validation;
mod way;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use weir_base::clock::Time;
use weir_packet::text;
use weir_packet::vector::VECTOR;
use weir_packet::wire::MacAddress;
use weir_plane::harness::{Harness, HarnessError, Options as HarnessOptions, Outcome, Verdict};
use weir_plane::model::{Gateway, InterfaceKind};
use weir_plane::reason::Reason;
use weir_plane::stats::{Conservation, DropStats};
use weir_port::pcap::CaptureError;

use crate::render::time::utc;
pub use fast_path::FastPath;
pub use input::Input;
pub use keys::NoKeys;
pub use line::Line;
use merge::{Merge, Own, PassedOver, Source, Taken};
use peer::PeerError;
use portless::Portless;
use sink::{Files, Nowhere};
use validation::Validation;

/// Packets that arrive within so many nanoseconds are one vector: 100 µs.
pub const WINDOW: u64 = 100_000;

/// Between packets that are so many nanoseconds apart the worker runs without any: 100 ms.
const REST: u64 = 100_000_000;
/// Nanoseconds in which the worker visits all sessions.
const TURN: u64 = 1_000_000_000;

/// Buffers that suffice for a vector of the longest packets, and for all that is made of one.
const SMALL: u32 = 4 * VECTOR as u32;
const LARGE: u32 = 2 * VECTOR as u32;

/// How to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Seeds everything random.
    pub seed: u64,
    /// Drop packets for neighbours that the configuration does not name, instead of making up hardware addresses.
    pub strict_neighbors: bool,
    /// Packets of a vector, at most: 1 ..= 256.
    pub vector: usize,
    /// Take unicast frames to any station for frames to the gateway.
    pub any_mac: bool,
    /// Seal packets by the keys of the configuration, and not by random ones: for keys that no gateway uses.
    pub own_keys: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { seed: 0, strict_neighbors: false, vector: VECTOR, any_mac: false, own_keys: false }
    }
}

/// Why nothing was replayed, or not everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An input names an interface that is not there.
    #[error(transparent)]
    Interface(#[from] NotAnInput),
    /// A peer protects no such packet.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A capture cannot be read, or one cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Nothing says which of the stations of a capture the gateway is to be.
    #[error(
        "{}: has frames from {} to {} and back, and nothing says which of them came in by `{interface}`: set the hardware \
         address (`mac`) of the interface to that of the gateway that the capture was taken at",
        path.display(), stations[0], stations[1]
    )]
    Stations {
        /// The file.
        path: PathBuf,
        /// The interface.
        interface: String,
        /// The two stations.
        stations: [MacAddress; 2],
    },
    /// The folder for the output captures cannot be created.
    #[error("{}: cannot be created: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no room for buffers or routes.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// There are no keys for packets that leave.
    #[error(transparent)]
    Keys(#[from] NoKeys),
    /// A line could not be written.
    #[error(transparent)]
    Line(io::Error),
}

/// Why packets cannot come in by an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnInput {
    /// There is no such interface.
    #[error("there is no interface `{name}`; {}", known(.ports, .suggestion.as_deref()))]
    Unknown {
        /// The requested name.
        name: String,
        /// The interfaces that packets can come in by.
        ports: Vec<String>,
        /// The one that may have been meant.
        suggestion: Option<String>,
    },
    /// The interface is a VLAN: frames arrive on its parent.
    #[error("`{name}` is a VLAN of `{parent}`: frames arrive there with their tags, so name `{parent}`")]
    Vlan {
        /// The requested name.
        name: String,
        /// Its parent.
        parent: String,
    },
    /// The interface is a tunnel: packets come in by it out of others.
    #[error("`{name}` is a tunnel: packets come in by it out of packets of other interfaces")]
    Tunnel {
        /// The interface.
        name: String,
    },
    /// The interface is the gateway's own station on a bridge.
    #[error("`{name}` has no port: frames come in by it from the ports of its bridge")]
    Bridge {
        /// The interface.
        name: String,
    },
    /// The interface has no port: decrypted packets come in by it.
    #[error(
        "`{name}` has no port: packets come in by it once an SA has decrypted them. Name the interface that their packets of ESP come in by"
    )]
    Ipsec {
        /// The interface.
        name: String,
    },
}

fn known(ports: &[String], suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None if ports.is_empty() => "the configuration has none".to_owned(),
        None => format!("packets can come in by {}", ports.join(", ")),
    }
}

/// The interface of the model that frames for `name` arrive on.
///
/// # Errors
/// When there is none of that name, or it has no port of its own.
pub fn port(gateway: &Gateway, name: &str) -> Result<u32, NotAnInput> {
    let is_port = |kind: &InterfaceKind| matches!(kind, InterfaceKind::Port { .. });
    match gateway.interfaces.iter().position(|interface| interface.name == name) {
        Some(index) => match gateway.interfaces[index].kind {
            InterfaceKind::Port { .. } => Ok(index as u32),
            InterfaceKind::Vlan { parent, .. } => {
                let parent = gateway.interfaces[parent.0 as usize].name.clone();
                Err(NotAnInput::Vlan { name: name.to_owned(), parent })
            }
            InterfaceKind::Ipsec => Err(NotAnInput::Ipsec { name: name.to_owned() }),
            InterfaceKind::Tunnel(_) => Err(NotAnInput::Tunnel { name: name.to_owned() }),
            InterfaceKind::Bridge(_) => Err(NotAnInput::Bridge { name: name.to_owned() }),
        },
        None => {
            let ports = gateway.interfaces.iter().filter(|interface| is_port(&interface.kind));
            let ports: Vec<String> = ports.map(|interface| interface.name.clone()).collect();
            let near = ports.iter().map(|port| (strsim::damerau_levenshtein(port, name), port));
            let near = near.filter(|&(distance, port)| distance <= (port.len() / 3).max(1)).min();
            let suggestion = near.map(|(_, port)| port.clone());
            Err(NotAnInput::Unknown { name: name.to_owned(), ports, suggestion })
        }
    }
}

/// The harness of a replay: buffers never run short, whatever the configuration says of them, and no packet is sealed by a key
/// in use.
pub(crate) fn harness(mut gateway: Gateway, options: Options) -> Result<Harness, ReplayError> {
    if !options.own_keys {
        keys::replace(&mut gateway)?;
    }
    gateway.buffers.small = gateway.buffers.small.max(SMALL);
    gateway.buffers.large = gateway.buffers.large.max(LARGE);
    let options = HarnessOptions { seed: options.seed, invent_neighbors: !options.strict_neighbors };
    Ok(Harness::new(gateway, options)?)
}

/// A packet of a vector, until its fate is known.
struct Pending {
    number: u64,
    time: Time,
    input: usize,
    packet: String,
}

/// A replay under way.
pub struct Replay {
    harness: Harness,
    merge: Merge,
    inputs: Vec<String>,
    /// By the harness' numbers.
    names: Vec<String>,
    files: Option<Files>,
    /// With `files`, if there are interfaces without a port.
    portless: Option<Portless>,
    vector: usize,
    /// The time up to which the worker has run without packets, or has taken one.
    rested: Time,
    pending: Vec<Pending>,
    /// Fragments that wait for the first of their datagram, by number, and what became of them so far.
    waiting: BTreeMap<u64, (Pending, Outcome)>,
    summary: Summary,
}

/// The summary of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Packets read.
    pub packets: u64,
    /// Of them, those of which the captures hold only the beginning.
    pub cut: u64,
    /// Packets that were passed over, and count for nothing else.
    pub passed_over: PassedOver,
    /// Packets that are missing in the captures of interfaces without a port.
    pub missing: u64,
    /// Packets by verdict: forward, drop, local, held.
    pub verdicts: [u64; 4],
    /// Timestamps of the first packet and of the latest.
    pub span: Option<(Time, Time)>,
    /// Drops by reason, of input packets and of answers to them.
    pub drops: Vec<DropStats>,
    /// Where all packets went.
    pub conservation: Conservation,
}

impl Summary {
    /// The verdicts in the order of [`Summary::verdicts`].
    pub const VERDICTS: [&str; 4] = ["forward", "drop", "local", "held"];
}

impl Replay {
    /// Opens the captures and makes the gateway. With `out_dir`, a capture is made in it for every interface of the
    /// configuration; the folder is made if it is not there.
    ///
    /// # Errors
    /// When an input cannot be, a file cannot be opened or made, or there is no room for the gateway.
    pub fn new(
        gateway: Gateway,
        inputs: &[Input],
        out_dir: Option<&Path>,
        options: Options,
    ) -> Result<Replay, ReplayError> {
        let mut sources = Vec::new();
        for input in inputs {
            let (taken, own) = if options.any_mac { (Taken::Any, Own::Interface) } else { (Taken::Own, Own::Any) };
            let port = port(&gateway, &input.interface)?;
            sources.push(Source { port, path: &input.path, interface: input.captured_on, taken, own });
        }
        let mut harness = harness(gateway, options)?;
        let merge = Merge::open(&sources, |port| harness.interface_mac(port).unwrap_or_default())?;
        let files = match out_dir {
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .map_err(|source| ReplayError::Folder { path: folder.to_owned(), source })?;
                Some(Files::create(folder, harness.model(), inputs)?)
            }
            None => None,
        };
        match &files {
            Some(files) => sink::connect(&mut harness, files),
            None => sink::connect(&mut harness, &Nowhere),
        }
        let portless = files.is_some().then(|| Portless::begin(&mut harness)).flatten();
        Ok(Replay {
            names: names(&harness),
            harness,
            merge,
            inputs: inputs.iter().map(|input| input.interface.clone()).collect(),
            files,
            portless,
            vector: options.vector.clamp(1, VECTOR),
            rested: Time(0),
            pending: Vec::new(),
            waiting: BTreeMap::new(),
            summary: Summary::default(),
        })
    }

    /// Replays all captures. The closure gets the line of each packet in order. The line of a fragment that is held for
    /// its first fragment follows when its verdict is known.
    ///
    /// A capture that turns out unreadable ends there, and the others go on.
    ///
    /// # Errors
    /// At once, if an output packet or a line cannot be written. At the end, for the first capture that could not be
    /// read to its end.
    pub fn run(&mut self, mut tell: impl FnMut(&Line<'_>) -> io::Result<()>) -> Result<(), ReplayError> {
        let mut start = Time(0);
        while let Some(next) = self.merge.next() {
            let full = self.pending.len() >= self.vector || next.record.time.since(start) > WINDOW;
            if full && !self.pending.is_empty() {
                self.settle(&mut tell)?;
                continue;
            }
            if self.pending.is_empty() {
                let time = next.record.time;
                if time.since(self.rested) > REST {
                    self.rest(time, &mut tell)?;
                    continue;
                }
                start = time;
            }
            // Numbers within the harness have 32 bits: pending packets are distinguished by them.
            let number = self.summary.packets + 1;
            if !self.harness.inject(next.port, next.record.frame, next.record.time, number as u32) {
                if self.pending.is_empty() {
                    // Buffers were provided for a whole vector.
                    unreachable!("a packet fits into an empty vector");
                }
                self.settle(&mut tell)?;
                continue;
            }
            self.harness.set_time(next.record.time);
            self.rested = self.rested.max(next.record.time);
            self.summary.packets = number;
            self.summary.cut += u64::from(next.record.original as usize > next.record.frame.len());
            let (first, last) = self.summary.span.unwrap_or((next.record.time, next.record.time));
            self.summary.span = Some((first, last.max(next.record.time)));
            self.pending.push(Pending {
                number,
                time: next.record.time,
                input: next.input,
                packet: text::summary(next.record.frame).to_string(),
            });
            self.merge.advance();
        }
        self.settle(&mut tell)?;
        // What still waits when the captures end.
        for (pending, outcome) in std::mem::take(&mut self.waiting).into_values() {
            self.tell(&pending, Some(&outcome), &mut tell)?;
        }
        self.harness.flush();
        self.written()?;
        match self.merge.failure() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Runs the worker without packets until a time, as it runs in a live gateway. Workers visit all sessions once a second.
    /// So the worker runs a second before that time, too, and visits all sessions.
    fn rest(&mut self, time: Time, tell: &mut impl FnMut(&Line<'_>) -> io::Result<()>) -> Result<(), ReplayError> {
        for time in [Time(time.0.saturating_sub(TURN)), time] {
            if time > self.rested {
                self.harness.set_time(time);
                while self.harness.is_due() {
                    self.settle(tell)?;
                }
                self.rested = time;
            }
        }
        Ok(())
    }

    /// Runs the graph over the vector, and writes the lines of its packets and of released packets.
    fn settle(&mut self, tell: &mut impl FnMut(&Line<'_>) -> io::Result<()>) -> Result<(), ReplayError> {
        let outcomes = self.harness.run();
        if let (Some(portless), Some(files)) = (&mut self.portless, &self.files) {
            portless.write(files, |number| index_of(&self.harness, number));
        }
        self.written()?;
        let mut outcomes: HashMap<u32, Outcome> =
            outcomes.into_iter().map(|outcome| (outcome.ordinal, outcome)).collect();
        let mut told: Vec<(Pending, Option<Outcome>)> = Vec::with_capacity(self.pending.len());
        // Released packets have the lesser numbers.
        for (number, (pending, before)) in std::mem::take(&mut self.waiting) {
            match outcomes.remove(&(number as u32)) {
                Some(later) => told.push((pending, Some(before.and_then(later)))),
                None => drop(self.waiting.insert(number, (pending, before))),
            }
        }
        told.extend(self.pending.drain(..).map(|pending| {
            let outcome = outcomes.remove(&(pending.number as u32));
            (pending, outcome)
        }));
        for (pending, outcome) in told {
            match outcome {
                // The graph has room for a few hundred such, and drops what waits for too long.
                Some(outcome) if outcome.waits => drop(self.waiting.insert(pending.number, (pending, outcome))),
                outcome => self.tell(&pending, outcome.as_ref(), tell)?,
            }
        }
        Ok(())
    }

    /// Writes the line of a packet.
    fn tell(
        &mut self,
        pending: &Pending,
        outcome: Option<&Outcome>,
        tell: &mut impl FnMut(&Line<'_>) -> io::Result<()>,
    ) -> Result<(), ReplayError> {
        let verdict = outcome.map_or(Verdict::Held, |outcome| outcome.verdict);
        let kind = match verdict {
            Verdict::Forward => 0,
            Verdict::Drop(_) => 1,
            Verdict::Local => 2,
            Verdict::Held => 3,
        };
        self.summary.verdicts[kind] += 1;
        let names = |numbers: &[u32]| line::names(numbers, &self.names);
        let line = Line {
            n: pending.number,
            input: &self.inputs[pending.input],
            verdict: verdict.name(),
            out: outcome.map_or_else(Vec::new, |outcome| names(&outcome.out)),
            reason: match verdict {
                Verdict::Drop(reason) => Some(reason.name()),
                _ => None,
            },
            by: outcome.and_then(|outcome| by::place(&self.harness, outcome)).map(|place| place.to_string()),
            answer: outcome.map_or_else(Vec::new, |outcome| names(&outcome.answers)),
            host: outcome.and_then(|outcome| host::of(&self.harness, outcome)).map(|host| host.device),
            sav: outcome
                .and_then(|outcome| outcome.sav.as_ref())
                .map(|decision| Validation::new(&self.harness, decision)),
            bindings: outcome.and_then(|outcome| access::bound(&self.harness, outcome)),
            fragments: outcome.map_or_else(Vec::new, |outcome| access::fragments(&self.names, outcome)),
            nat: outcome.map_or_else(Vec::new, |outcome| nat::translated(&self.harness, outcome)),
            spd: outcome.map_or_else(Vec::new, |outcome| spd::secured(&self.harness, outcome)),
            steer: outcome.map_or_else(Vec::new, |outcome| steer::steered(&self.harness, outcome)),
            sa: outcome.map_or_else(Vec::new, |outcome| sa::associations(&self.harness, outcome)),
            tunnels: outcome.map_or_else(Vec::new, |outcome| tunnel::passed(&self.harness, outcome)),
            bridges: outcome.map_or_else(Vec::new, |outcome| bridge::passed(&self.harness, outcome)),
            fast_path: outcome.and_then(FastPath::of),
            acl: outcome.map_or_else(Vec::new, |outcome| access::filters(&self.harness, &self.names, outcome)),
            allow: outcome.map_or_else(Vec::new, |outcome| access::allowed(&self.harness, outcome)),
            classify: outcome.map_or_else(Vec::new, |outcome| classify::classified(&self.harness, outcome)),
            time: utc(pending.time),
            packet: &pending.packet,
        };
        tell(&line).map_err(ReplayError::Line)
    }

    fn written(&self) -> Result<(), ReplayError> {
        match self.files.as_ref().and_then(Files::failure) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Returns the summary so far.
    pub fn summary(&self) -> Summary {
        let drops = Reason::ALL.iter().map(|&reason| DropStats {
            reason: reason.name().into(),
            description: reason.description().into(),
            severity: reason.severity().name().into(),
            node: reason.node().into(),
            packets: self.harness.drops(reason),
        });
        Summary {
            drops: drops.collect(),
            conservation: self.harness.conservation(),
            passed_over: self.merge.passed_over(),
            missing: self.portless.as_ref().map_or(0, Portless::missing),
            ..self.summary.clone()
        }
    }

    /// The gateway.
    pub fn harness(&self) -> &Harness {
        &self.harness
    }
}

/// The names of all interfaces, by the harness' numbers.
pub(crate) fn names(harness: &Harness) -> Vec<String> {
    let mut names = Vec::new();
    for (index, interface) in harness.model().interfaces.iter().enumerate() {
        let number = harness.interface_number(index as u32).unwrap_or(index as u32) as usize;
        if names.len() <= number {
            names.resize(number + 1, String::new());
        }
        names[number].clone_from(&interface.name);
    }
    names
}

/// The model's index of the interface of one of the harness' numbers.
fn index_of(harness: &Harness, number: u32) -> Option<u32> {
    (0..harness.model().interfaces.len() as u32).find(|&index| harness.interface_number(index) == Some(number))
}
