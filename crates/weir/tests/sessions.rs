//! Scenarios of sessions, one in each file of `tests/sessions/`: a configuration, packets with their times, and the verdict on
//! each. Those in `read/` were written from the documentation and the RFCs, without the code.
//!
//! ```text
//! # a remark
//! config … end                       the configuration, in TOML
//! reload … end                       another one, put into force
//! at SECONDS INTERFACE PACKET -> INTERFACE | local | drop REASON
//! at SECONDS INTERFACE icmp-error TYPE CODE from ADDRESS to ADDRESS about { PACKET } -> …
//! together … end                     the packets between are in one vector
//! flows SESSIONS HALF-OPEN           how many there are now
//! clear [RULE]                       sessions that a rule without its action matches end
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use weir::config;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::text::{Macs, PacketText};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::Gateway;
use weir_port::Transmitter;

/// A gateway that runs a scenario.
struct Rig {
    harness: Harness,
    file: String,
    line: usize,
    ordinal: u32,
}

/// A packet of a scenario.
struct Sent<'t> {
    line: usize,
    time: Time,
    interface: u32,
    frame: Vec<u8>,
    expected: &'t str,
}

struct Sink;

impl Transmitter for Sink {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        frame.len()
    }
}

fn model(file: &str, text: &str) -> Gateway {
    let loaded = config::parse_str(file, text);
    let problems = loaded.text(false);
    loaded.gateway.unwrap_or_else(|| panic!("{file}: {problems}"))
}

impl Rig {
    fn new(file: &str, model: Gateway) -> Rig {
        let options = Options { seed: 1, invent_neighbors: true };
        let mut rig = Rig { harness: Harness::new(model, options).unwrap(), file: file.into(), line: 0, ordinal: 0 };
        rig.connect();
        rig
    }

    fn connect(&mut self) {
        for index in 0..self.harness.model().interfaces.len() as u32 {
            self.harness.connect(index, Box::new(Sink));
        }
    }

    fn interface(&self, name: &str) -> u32 {
        let interfaces = &self.harness.model().interfaces;
        let index = interfaces.iter().position(|interface| interface.name == name);
        index.unwrap_or_else(|| panic!("{}:{}: no interface {name}", self.file, self.line)) as u32
    }

    /// Reads `SECONDS INTERFACE PACKET -> EXPECTED`.
    fn packet<'t>(&self, text: &'t str) -> Sent<'t> {
        let wrong = |what: &str| -> ! { panic!("{}:{}: {what}: {text}", self.file, self.line) };
        let Some((rest, expected)) = text.split_once(" -> ") else { wrong("no ` -> `") };
        let mut words = rest.splitn(3, ' ');
        let (Some(time), Some(interface), Some(packet)) = (words.next(), words.next(), words.next()) else {
            wrong("a time, an interface and a packet")
        };
        let milliseconds = time.parse::<f64>().unwrap_or_else(|_| wrong("no time")) * 1000.0;
        let time = Time((milliseconds.round() as u64 + 1_000_000) * 1_000_000);
        let interface = self.interface(interface);
        let mac = self.harness.interface_mac(interface).unwrap_or_else(|| wrong("no hardware address"));
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 9, interface as u8]), to: MacAddress(mac) };
        let frame = match packet.strip_prefix("icmp-error ") {
            Some(error) => icmp_error(error, macs).unwrap_or_else(|| wrong("no ICMP error")),
            None => described(packet, macs).unwrap_or_else(|| wrong("no packet")),
        };
        Sent { line: self.line, time, interface, frame, expected: expected.trim() }
    }

    /// Sends packets in one vector, and compares the verdict on each.
    fn send(&mut self, packets: Vec<Sent<'_>>) {
        let first = self.ordinal;
        for sent in &packets {
            self.harness.set_time(sent.time);
            assert!(self.harness.inject(sent.interface, &sent.frame, sent.time, self.ordinal));
            self.ordinal += 1;
        }
        let outcomes = self.harness.run();
        for (ordinal, sent) in (first..).zip(packets) {
            let outcome = outcomes.iter().find(|outcome| outcome.ordinal == ordinal);
            let outcome = outcome.unwrap_or_else(|| panic!("{}:{}: no outcome", self.file, sent.line));
            let found = match outcome.verdict {
                Verdict::Forward => outcome.out.first().map_or("?".into(), |&out| self.harness.interface_name(out)),
                Verdict::Drop(reason) => format!("drop {}", reason.name()),
                Verdict::Local => "local".into(),
                Verdict::Held => "held".into(),
            };
            assert_eq!(found, sent.expected, "{}:{}: {:?}", self.file, sent.line, outcome.acl);
        }
    }

    fn run(&mut self, rest: &[&str]) {
        let mut lines = (self.line + 1..).zip(rest);
        while let Some((number, line)) = lines.next() {
            self.line = number;
            let line = line.trim();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "" | "#" => {}
                "at" => {
                    let packet = self.packet(rest);
                    self.send(vec![packet]);
                }
                "together" => {
                    let block = lines.by_ref().take_while(|(_, line)| line.trim() != "end").collect::<Vec<_>>();
                    let packets = block.into_iter().map(|(number, line)| {
                        self.line = number;
                        self.packet(line.trim().strip_prefix("at ").unwrap_or_else(|| panic!("{number}: no `at`")))
                    });
                    let packets = packets.collect();
                    self.send(packets);
                }
                "flows" => {
                    let flows = self.harness.flows(&FlowFilter::default(), FlowOrder::Age, usize::MAX);
                    let half_open = flows.rows.iter().filter(|row| row.half_open).count();
                    let found = format!("{} {half_open}", flows.total);
                    assert_eq!(found, rest.trim(), "{}:{number}: {:#?}", self.file, flows.rows);
                }
                "clear" => {
                    self.harness.clear_flows(&filter(rest));
                }
                "reload" => {
                    let block = lines.by_ref().take_while(|(_, line)| line.trim() != "end");
                    let text: Vec<&str> = block.map(|(_, line)| *line).filter(|line| line.trim() != "config").collect();
                    let model = model(&self.file, &text.join("\n"));
                    self.harness.reload(model).unwrap();
                    self.connect();
                }
                _ if word.starts_with('#') => {}
                _ => panic!("{}:{number}: {line}", self.file),
            }
        }
    }
}

/// The sessions that a rule without its action matches; all without a rule.
fn filter(rule: &str) -> FlowFilter {
    let rule = Some(rule.trim()).filter(|rule| !rule.is_empty()).map(|rule| {
        let text = format!("version = 1\n[acl.filter]\nrules = [\"permit {rule}\"]\n");
        model("filter", &text).acls[0].rules[0].clone()
    });
    FlowFilter { rule }
}

/// A frame as text says; `bad-checksum` before it spoils the checksum of its IPv4 header.
fn described(text: &str, macs: Macs) -> Option<Vec<u8>> {
    text.parse::<PacketText>().ok().map(|text| text.frame(macs))
}

/// Reads `TYPE CODE from ADDRESS to ADDRESS about { [bad-checksum] PACKET }`.
fn icmp_error(text: &str, macs: Macs) -> Option<Vec<u8>> {
    let (head, quoted) = text.split_once(" about {")?;
    let quoted = quoted.trim().strip_suffix('}')?.trim();
    let (is_bad, quoted) = match quoted.strip_prefix("bad-checksum ") {
        Some(quoted) => (true, quoted),
        None => (false, quoted),
    };
    let head = head.replace('/', " ");
    let words: Vec<&str> = head.split_whitespace().collect();
    let [kind, code, "from", from, "to", to] = words[..] else { return None };
    let mut quote = described(quoted, macs)?.split_off(14);
    if is_bad {
        quote[10] ^= 0x55;
    }
    let v4 = from.contains('.');
    let protocol = if v4 { "icmp" } else { "icmp6" };
    let length = if v4 { 28 } else { 48 } + quote.len();
    let mut frame =
        described(&format!("{protocol} from {from} to {to} type {kind} code {code} length {length}"), macs)?;
    let at = frame.len() - quote.len();
    frame[at..].copy_from_slice(&quote);
    // The checksum covers the quotation, whose place held zeros.
    let sum_at = at - 6;
    let before = u16::from_be_bytes([frame[sum_at], frame[sum_at + 1]]);
    let quotation = !checksum::of(&quote);
    let sum = u32::from(!before) + u32::from(quotation);
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[sum_at..sum_at + 2].copy_from_slice(&folded.to_be_bytes());
    Some(frame)
}

fn scenario(path: &Path) {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.trim() == "config").unwrap_or_else(|| panic!("{file}: no config"));
    let end = start + lines[start..].iter().position(|line| line.trim() == "end").expect("the end of the config");
    let mut rig = Rig::new(&file, model(&file, &lines[start + 1..end].join("\n")));
    rig.line = end + 1;
    rig.run(&lines[end + 1..]);
    let conservation = rig.harness.conservation();
    assert_eq!(conservation.imbalance(), 0, "{file}: {conservation:?}");
}

#[test]
fn scenarios() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let list = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let mut files = list(&folder);
    files.extend(list(&folder.join("read")));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(files.len() > 3, "scenarios");
    let mut failed = Vec::new();
    for file in files {
        if std::panic::catch_unwind(|| scenario(&file)).is_err() {
            failed.push(file);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
