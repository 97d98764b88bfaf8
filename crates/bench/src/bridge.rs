//! `weir bench bridge`: frames between stations of a bridge, all of which are known.
//!
//! Half of the stations are configured behind one port, the others are learned from the frames that they send by the other. Each frame is from
//! another station to another one, in random order, so that no line of the MAC table is in a cache when it is needed.

use std::io::Write as _;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::tsc;
use weir_packet::wire::MacAddress;
use weir_plane::model::{Bridge, BridgePort, BridgeStation, Gateway, Interface, InterfaceIndex, Origin};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, machine as cpu, model};

/// Octets of a frame.
const SIZE: usize = 60;

/// Stations, and the ticks that the whole graph may take for a frame.
const CASES: [(u32, f64); 2] = [(10_000, 25.0), (1_000_000, 40.0)];

/// The measurement of `weir bench bridge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bridged {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The cost of a case, in ticks per frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Stations.
    pub macs: u32,
    /// The node `bridge-input`.
    pub input: Figure,
    /// The node `bridge-forward`.
    pub forward: Figure,
    /// All nodes.
    pub graph: Figure,
    /// The target for all nodes.
    pub target: Option<Target>,
}

impl Report for Bridged {
    const SCHEMA: &'static str = "weir.bench.bridge/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Stations", |case| case.macs.to_string())
            .number("Input", 1, |case| case.input.median)
            .number("Forward", 1, |case| case.forward.median)
            .number("Graph", 1, |case| case.graph.median)
            .target(|case| case.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("ticks are per frame of {SIZE} octets: medians of {} turns; all stations known", self.turns))
            .line("input, forward: the nodes bridge-input and bridge-forward; graph: all nodes")
            .table(table)
    }
}

impl Bridged {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or frames do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Bridged, Error> {
        cpu::pin(cpu)?;
        let (turns, windows) = if quick { (2, 2) } else { (7, 5) };
        let cases = CASES.into_iter().map(|(macs, most)| measure(macs, most, (turns, windows)));
        let cases = cases.collect::<Result<_, _>>()?;
        Ok(Bridged { tick_frequency: tsc::frequency(), cpu: cpu::cpu_name(), turns, cases })
    }
}

fn measure(macs: u32, most: f64, (turns, windows): (usize, usize)) -> Result<Case, Error> {
    let capture = capture(macs / 2).map_err(Error::Scratch)?;
    let gateway = gateway(capture.path(), macs);
    let mut run = Run::new(&gateway)?;
    run.add(&gateway, &[Node::BridgeForward], Outcome::Forwarded)?;
    let samples = run.turns(turns, windows, macs as usize / 2)?;
    let [own]: &[Samples; 1] = samples.as_slice().try_into().expect("a version has samples");
    let graph = own.graph();
    Ok(Case {
        macs,
        input: own.node(Node::BridgeInput),
        forward: own.node(Node::BridgeForward),
        target: Some(Target::at_most(most, graph.median)),
        graph,
    })
}

/// The address of a station: `side` 0 sends, 1 receives.
fn station(side: u8, number: u32) -> MacAddress {
    let [a, b, c, d] = number.to_be_bytes();
    MacAddress([2, side, a, b, c, d])
}

/// A capture with a frame for each pair of stations, in random order.
fn capture(pairs: u32) -> std::io::Result<tempfile::NamedTempFile> {
    let mut random = Random::from_seed(5);
    let [mut from, mut to] = [(); 2].map(|()| (0..pairs).collect::<Vec<u32>>());
    for all in [&mut from, &mut to] {
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last as u64 + 1) as usize);
        }
    }
    let mut file = tempfile::NamedTempFile::new()?;
    let mut writer = std::io::BufWriter::new(file.as_file_mut());
    // The header of a capture of Ethernet frames.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        writer.write_all(&word.to_ne_bytes())?;
    }
    for (from, to) in from.into_iter().zip(to) {
        let mut frame = [0; SIZE];
        frame[..6].copy_from_slice(&station(1, to).0);
        frame[6..12].copy_from_slice(&station(0, from).0);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        for word in [0, 0, SIZE as u32, SIZE as u32] {
            writer.write_all(&word.to_ne_bytes())?;
        }
        writer.write_all(&frame)?;
    }
    writer.flush()?;
    drop(writer);
    Ok(file)
}

/// A bridge of two ports, between which the frames of a capture go.
fn gateway(capture: &std::path::Path, macs: u32) -> Gateway {
    let net = "192.0.2.1/24".parse().expect("a constant prefix");
    let stream = StreamSpec { source: StreamSource::Capture(capture.to_owned()), rate: None, count: None };
    let frames = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
    let port = |name: &str, port| Interface { addresses: Vec::new(), ..model::interface(name, port, net) };
    let interfaces = vec![port("a", frames), port("b", PortSpec::Null)];
    let mut bridge = Bridge::new("br", Origin(0));
    let origin = Origin(0);
    bridge.ports = [0, 1].map(|at| BridgePort { interface: InterfaceIndex(at), group: None, origin }).to_vec();
    bridge.macs = macs * 2;
    let known = |number| BridgeStation { mac: station(1, number), interface: InterfaceIndex(1), origin };
    bridge.stations = (0..macs / 2).map(known).collect();
    Gateway { interfaces, bridges: vec![bridge], ..model::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_go_to_known_stations() {
        let cases = vec![measure(2000, 25.0, (1, 1)).unwrap()];
        assert!(cases[0].forward.median > 0.0 && cases[0].input.median > 0.0, "{cases:?}");
        let report = Bridged { tick_frequency: 1e9, cpu: "none".into(), turns: 1, cases };
        assert_eq!(serde_json::from_str::<Bridged>(&report.json()).unwrap(), report);
        assert!(report.text().contains("2000"), "{}", report.text());
    }
}
