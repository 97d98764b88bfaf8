//! `weir replay`: captures through the graph, with a line for each packet.

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::configuration;
use super::error::Error;
use crate::render::errors;
use crate::render::number::plural;
use crate::render::sum::Sum;
use crate::replay::peer::PeerError;
use crate::replay::{Input, Line, Options, Replay as Run, ReplayError, Summary};

/// Sends captured packets through the gateway and reports the verdict on each
#[derive(Debug, Args)]
pub struct Replay {
    /// The configuration, a TOML file
    config: PathBuf,
    /// A capture (pcap or pcapng) and the interface that its packets come in by; captures are merged by their timestamps
    #[arg(long = "in", value_name = "IF=FILE", value_parser = input, required = true, num_args = 1..)]
    inputs: Vec<Input>,
    /// Folder for captures of the output: NAME.pcap for each interface
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// Write a JSON object for each packet
    #[arg(long)]
    json: bool,
    /// Drop packets for neighbours that the configuration does not name; else hardware addresses are made up
    #[arg(long)]
    strict_neighbors: bool,
    /// Take unicast frames to any station for frames to the gateway
    #[arg(long)]
    any_mac: bool,
    /// Seal packets by the keys of the configuration, else by random ones. Only for keys that no gateway uses: numbers begin
    /// with 1, and a number that is used twice under one key gives away the key's secrets
    #[arg(long)]
    own_keys: bool,
    /// Seeds everything random; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

pub(super) fn input(text: &str) -> Result<Input, String> {
    match text.split_once('=') {
        Some((interface, path)) if !interface.is_empty() && !path.is_empty() => {
            let (interface, captured_on) = match interface.split_once('#') {
                None => (interface, None),
                Some((interface, number)) => {
                    let wrong =
                        || format!("`#{number}` is no number of an interface of the capture, as in `wan#2=any.pcap`");
                    (interface, Some(number.parse().map_err(|_| wrong())?))
                }
            };
            Ok(Input { interface: interface.to_owned(), path: PathBuf::from(path), captured_on })
        }
        _ => Err("write INTERFACE=FILE, as in `wan=wan.pcap`; the configuration stands before --in".to_owned()),
    }
}

impl Replay {
    pub(super) fn run(&self) -> Result<(), Error> {
        let gateway = configuration::load(&self.config, self.json)?;
        let options = Options {
            seed: self.seed,
            strict_neighbors: self.strict_neighbors,
            any_mac: self.any_mac,
            own_keys: self.own_keys,
            ..Options::default()
        };
        let mut replay = Run::new(gateway, &self.inputs, self.out_dir.as_deref(), options)?;
        let mut lines = Lines { out: BufWriter::new(io::stdout().lock()), json: self.json, closed: false };
        // Captures are written to their end, even if the reader of the lines has closed the pipe.
        let go_on = self.out_dir.is_some();
        let done = replay.run(|line| match lines.write(line) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && go_on => {
                lines.closed = true;
                Ok(())
            }
            result => result,
        });
        let flushed = lines.flush();
        drop(lines);
        let result = match (done, flushed) {
            (Err(error), _) => Err(error),
            (Ok(()), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe && go_on => Ok(()),
            (Ok(()), flushed) => flushed.map_err(ReplayError::Line),
        };
        let summary = replay.summary();
        if !matches!(result, Err(ReplayError::Line(_))) {
            // A failure to write the report cannot be reported.
            let _ = io::stderr().write_all(summary_text(&summary, &replay).as_bytes());
        }
        result?;
        match summary.conservation.imbalance() {
            0 => Ok(()),
            _ => Err(Error::Failed("not every packet is accounted for: this is a defect of weir".to_owned())),
        }
    }
}

impl From<ReplayError> for Error {
    fn from(error: ReplayError) -> Error {
        match error {
            ReplayError::Interface(error) => Error::Usage(error.to_string()),
            ReplayError::Peer(PeerError::Harness(error)) => ReplayError::Harness(error).into(),
            ReplayError::Peer(error) => Error::Usage(error.to_string()),
            ReplayError::Line(error) if error.kind() == io::ErrorKind::BrokenPipe => Error::Closed,
            ReplayError::Line(error) => Error::Failed(format!("cannot write to standard output: {error}")),
            error => Error::Failed(error.to_string()),
        }
    }
}

/// Standard output.
struct Lines<W: io::Write> {
    out: BufWriter<W>,
    json: bool,
    /// The reader has closed the pipe.
    closed: bool,
}

impl<W: io::Write> Lines<W> {
    fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        if self.json {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)?;
            self.out.write_all(b"\n")
        } else {
            writeln!(self.out, "{line}")
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed { Ok(()) } else { self.out.flush() }
    }
}

/// Formats the summary of a replay for standard error.
fn summary_text(summary: &Summary, replay: &Run) -> String {
    let verdicts = Summary::VERDICTS.iter().zip(summary.verdicts).map(|(name, count)| format!("{name} {count}"));
    let verdicts: Vec<String> = verdicts.collect();
    let seconds = summary.span.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let mut text = format!(
        "\n{} in {seconds:.3} s of captured time: {}\n",
        plural(summary.packets, "packet"),
        verdicts.join(", ")
    );
    if summary.cut > 0 {
        text += &format!("{} captured only in part, and taken as they are\n", plural(summary.cut, "packet"));
    }
    text += &summary.passed_over.text();
    if summary.missing > 0 {
        text += &format!("{} missing in the captures of tunnels\n", plural(summary.missing, "packet"));
    }
    let drops: Vec<weir_plane::stats::DropStats> =
        summary.drops.iter().filter(|drop| drop.packets > 0).cloned().collect();
    if !drops.is_empty() {
        text += "\n";
        text += &errors::table(&drops);
    }
    text += "\n";
    text += &Sum::new(&summary.conservation).text();
    let strangers = summary.drops.iter().any(|drop| drop.reason == "not-our-mac" && drop.packets * 2 > summary.packets);
    if strangers {
        text += &stations(replay);
    }
    text
}

/// Describes the remedy if a capture was taken at another station.
fn stations(replay: &Run) -> String {
    let harness = replay.harness();
    let interfaces = harness.model().interfaces.iter().enumerate();
    let macs = interfaces.filter_map(|(index, interface)| {
        let mac = weir_packet::wire::MacAddress(harness.interface_mac(index as u32)?);
        Some(format!("{} has {mac}", interface.name))
    });
    let macs: Vec<String> = macs.collect();
    format!(
        "most packets are for other stations; to take another gateway's place, set its hardware addresses (`mac`), or, if the \
         capture holds only what came in, take all frames with --any-mac: {}\n",
        macs.join(", ")
    )
}
