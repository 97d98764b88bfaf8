//! Scenarios of sessions, of translation and of SPDs, one in each file of `tests/sessions/`, `tests/nat/` and `tests/spd/`: a
//! configuration, packets with their times, and the verdict on each. Those in `read/` were written from the documentation and the RFCs, without the code.
//!
//! ```text
//! # a remark
//! config … end                       the configuration, in TOML
//! reload … end                       another one, put into force
//! at SECONDS INTERFACE PACKET -> INTERFACE | local | drop REASON
//! at SECONDS INTERFACE icmp-error TYPE CODE from ADDRESS to ADDRESS about { PACKET } -> …
//! at … -> INTERFACE as PACKET        also the packet that leaves, but for its TTL
//! at … -> drop REASON answer INTERFACE as PACKET      the ICMP error about it
//! together … end                     the packets between are in one vector
//! flows SESSIONS HALF-OPEN           how many there are now
//! clear [RULE]                       sessions that a rule without its action matches end
//! clear-nat [RULE]                   translations likewise
//! translations N                     how many translations there are now
//! policies SPD OUT/IN …              packets that its rules matched, in the order in which they are matched
//! check $a = 5 | check $a != $b | check $a in 1024-65535
//! ```
//!
//! `$NAME` stands for a port or an identifier. In a packet behind `as` that is no `icmp-error`, a name that was not seen before
//! takes the value that the packet has there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
use weir_plane::stats::SpdRuleRow;
use weir_port::Transmitter;

/// A gateway that runs a scenario.
struct Rig {
    harness: Harness,
    file: String,
    line: usize,
    ordinal: u32,
    /// The frames that left, each with the number of its packet and of its interface.
    left: Left,
    /// The values of names.
    names: HashMap<String, u16>,
}

type Left = Arc<Mutex<Vec<(u32, u32, Vec<u8>)>>>;

/// A packet of a scenario.
struct Sent<'t> {
    line: usize,
    time: Time,
    interface: u32,
    frame: Vec<u8>,
    expected: &'t str,
}

struct Sink {
    interface: u32,
    left: Left,
}

impl Transmitter for Sink {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let packets = frame.places().iter().map(|&place| &vector[place]);
        let frames = packets.map(|packet| (packet.ordinal(), self.interface, packet.data().to_vec()));
        self.left.lock().unwrap().extend(frames);
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
        let harness = Harness::new(model, options).unwrap();
        let (left, names) = (Left::default(), HashMap::new());
        let mut rig = Rig { harness, file: file.into(), line: 0, ordinal: 0, left, names };
        rig.connect();
        rig
    }

    fn connect(&mut self) {
        for index in 0..self.harness.model().interfaces.len() as u32 {
            self.harness.connect(index, Box::new(Sink { interface: index, left: self.left.clone() }));
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
        let packet = self.named(packet).unwrap_or_else(|name| wrong(&format!("no value of ${name}")));
        let frame = frame(&packet, macs).unwrap_or_else(|| wrong("no packet"));
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
        self.left.lock().unwrap().clear();
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
            let (expected, packet) = match sent.expected.split_once(" as ") {
                Some((expected, packet)) => (expected, Some(packet)),
                None => (sent.expected, None),
            };
            let (expected, answer) = match expected.split_once(" answer ") {
                Some((expected, answer)) => (expected, Some(answer)),
                None => (expected, None),
            };
            assert_eq!(
                found, expected,
                "{}:{}: {:?} {:?} {:?}",
                self.file, sent.line, outcome.acl, outcome.nat, outcome.spd
            );
            if let Some(packet) = packet {
                let interface = answer.unwrap_or(expected);
                let numbers = if answer.is_some() { &outcome.answers } else { &outcome.out };
                let names: Vec<String> = numbers.iter().map(|&out| self.harness.interface_name(out)).collect();
                assert!(names.iter().any(|name| name == interface), "{}:{}: {names:?}", self.file, sent.line);
                self.line = sent.line;
                self.compare(ordinal, packet, answer.is_some());
            }
        }
    }

    /// A text of packets with the values of its names, or the first name that has none.
    fn named(&self, text: &str) -> Result<String, String> {
        let words = text.split(' ').map(|word| match word.strip_prefix('$') {
            Some(name) => self.names.get(name).map(u16::to_string).ok_or_else(|| name.to_owned()),
            None => Ok(word.to_owned()),
        });
        Ok(words.collect::<Result<Vec<String>, String>>()?.join(" "))
    }

    /// Compares the packet that left, or an ICMP error about it, with a text, in which names may be new.
    fn compare(&mut self, ordinal: u32, text: &str, is_answer: bool) {
        let left = self.left.lock().unwrap().clone();
        let at = format!("{}:{}", self.file, self.line);
        let (_, _, found) = left.iter().find(|(of, ..)| *of == ordinal).unwrap_or_else(|| panic!("{at}: nothing left"));
        let found = &found[14..];
        // From the port or identifier of the first name on, of the packet that has left.
        let l4 = if found[0] >> 4 == 4 { usize::from(found[0] & 0xf) * 4 } else { 40 };
        let word = |at: usize| u16::from_be_bytes([found[l4 + at], found[l4 + at + 1]]);
        let words: Vec<&str> = text.split(' ').collect();
        let to = words.iter().position(|word| *word == "to").unwrap_or(words.len());
        for (place, name) in words.iter().enumerate().filter_map(|(at, word)| Some((at, word.strip_prefix('$')?))) {
            let value = match words[place - 1] {
                "id" => word(4),
                _ if place < to => word(0),
                _ => word(2),
            };
            self.names.entry(name.to_owned()).or_insert(value);
        }
        let text = self.named(text).unwrap_or_else(|name| panic!("{at}: no value of ${name}"));
        let macs = Macs { from: MacAddress([2; 6]), to: MacAddress([4; 6]) };
        let mut expected = frame(&text, macs).unwrap_or_else(|| panic!("{at}: no packet: {text}")).split_off(14);
        // Errors of the gateway have a precedence, and may not be fragmented.
        let free = if is_answer { [1..2, 4..8] } else { [0..0, 0..0] };
        free.into_iter().for_each(|range| expected[range.clone()].copy_from_slice(&found[range]));
        if found[0] >> 4 == 4 {
            assert!(checksum::is_valid(&found[..l4]), "{at}: the checksum of the header: {found:x?}");
            expected[8] = found[8];
            expected[10..12].copy_from_slice(&found[10..12]);
        } else {
            expected[7] = found[7];
        }
        assert_eq!(found, expected, "{at}: {}", weir_packet::text::packet_summary(found));
    }

    /// Checks a statement about names.
    fn check(&self, text: &str) {
        let at = format!("{}:{}", self.file, self.line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let value = |word: &str| -> u16 {
            let known = word.strip_prefix('$').map(|name| self.names.get(name).copied());
            known.unwrap_or_else(|| word.parse().ok()).unwrap_or_else(|| panic!("{at}: no value of {word}"))
        };
        let holds = match words[..] {
            [one, "=", other] => value(one) == value(other),
            [one, "!=", other] => value(one) != value(other),
            [one, "in", range] => {
                let (first, last) = range.split_once('-').unwrap_or_else(|| panic!("{at}: no range"));
                (value(first)..=value(last)).contains(&value(one))
            }
            _ => panic!("{at}: {text}"),
        };
        assert!(holds, "{at}: {text}: {:?}", self.names);
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
                "translations" => {
                    let found = self.harness.translations(&FlowFilter::default(), usize::MAX);
                    assert_eq!(found.total.to_string(), rest.trim(), "{}:{number}: {:#?}", self.file, found.rows);
                }
                "policies" => {
                    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                    let spds = self.harness.spds();
                    let spd = spds.iter().find(|spd| spd.name == name).unwrap_or_else(|| panic!("no SPD {name}"));
                    let counts = |row: &SpdRuleRow| format!("{}/{}", row.output.packets, row.input.packets);
                    let found: Vec<String> = spd.rules.iter().map(counts).collect();
                    assert_eq!(found.join(" "), rest.trim(), "{}:{number}: {:#?}", self.file, spd.rules);
                }
                "check" => self.check(rest),
                "clear" => {
                    self.harness.clear_flows(&filter(rest));
                }
                "clear-nat" => {
                    self.harness.clear_flows(&FlowFilter { translations: true, ..filter(rest) });
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
    FlowFilter { rule, ..FlowFilter::default() }
}

/// A frame as text says, of a packet or an `icmp-error`.
fn frame(text: &str, macs: Macs) -> Option<Vec<u8>> {
    match text.strip_prefix("icmp-error ") {
        Some(error) => icmp_error(error, macs),
        None => described(text, macs),
    }
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
    run_all("tests/sessions");
}

#[test]
fn scenarios_of_translation() {
    run_all("tests/nat");
}

#[test]
fn scenarios_of_spds() {
    run_all("tests/spd");
}

/// Runs the scenarios of a folder.
fn run_all(folder: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut files = list(&folder);
    files.extend(list(&folder.join("read")));
    if let Ok(only) = std::env::var("WEIR_TEST_SCENARIO") {
        files.retain(|path| path.to_string_lossy().contains(&only));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "scenarios");
    let mut failed = Vec::new();
    for file in files {
        if std::panic::catch_unwind(|| scenario(&file)).is_err() {
            failed.push(file);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
