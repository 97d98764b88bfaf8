//! The records at a collector, as another program's decoder reads them.

use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use netflow_parser::variable_versions::field_value::{DurationValue, FieldValue};
use netflow_parser::variable_versions::ipfix::{FlowSetBody, IPFix};
use netflow_parser::{NetflowPacket, NetflowParser};
use weir_packet::parse;
use weir_packet::text::{Macs, PacketText};
use weir_packet::wire::MacAddress;
use weir_plane::sample::{Cause, Treatment};
use weir_plane::sav::By;

use super::message::MESSAGE;
use super::*;

const MACS: Macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };

fn sample(text: &str, snap: u16) -> Sample {
    let frame = text.parse::<PacketText>().unwrap().frame(MACS);
    let l3 = usize::from(parse::ethernet(&frame).unwrap().l3);
    let parsed = if frame[l3] >> 4 == 4 { parse::ipv4(&frame, l3) } else { parse::ipv6(&frame, l3) };
    Sample::new(&frame, snap, parsed.unwrap())
}

/// A collector that remembers templates, and its messages.
struct Listener {
    socket: UdpSocket,
    parser: NetflowParser,
    /// Data records so far.
    records: u32,
}

impl Listener {
    fn new() -> Listener {
        Listener::on(UdpSocket::bind("127.0.0.1:0").unwrap())
    }

    fn on(socket: UdpSocket) -> Listener {
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        Listener { socket, parser: NetflowParser::default(), records: 0 }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// All messages that came, whose headers are right.
    fn messages(&mut self, unix: u64) -> Vec<IPFix> {
        let mut messages = Vec::new();
        let mut buffer = [0; 65536];
        while let Ok(octets) = self.socket.recv(&mut buffer) {
            assert!(octets <= MESSAGE, "{octets}");
            let parsed = self.parser.parse_bytes(&buffer[..octets]);
            assert!(parsed.error.is_none(), "{:?}", parsed.error);
            let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else { panic!("{parsed:?}") };
            assert_eq!(usize::from(message.header.length), octets);
            assert_eq!(u64::from(message.header.export_time), unix);
            assert_eq!((message.header.sequence_number, message.header.observation_domain_id), (self.records, 1));
            for set in &message.flowsets {
                self.records += match &set.body {
                    FlowSetBody::Data(data) => data.fields.len() as u32,
                    FlowSetBody::OptionsData(data) => data.fields.len() as u32,
                    FlowSetBody::NoTemplate(missing) => panic!("{missing:?}"),
                    _ => 0,
                };
            }
            messages.push(message.clone());
        }
        messages
    }
}

type Fields = HashMap<String, FieldValue>;

/// The records of samples, and the names of interfaces, in the order in which they came.
fn records(messages: &[IPFix]) -> (Vec<Fields>, Vec<Fields>) {
    let by_name =
        |record: &Vec<_>| record.iter().map(|(name, value)| (format!("{name:?}"), FieldValue::clone(value))).collect();
    let (mut samples, mut names) = (Vec::new(), Vec::new());
    for set in messages.iter().flat_map(|message| &message.flowsets) {
        match &set.body {
            FlowSetBody::Data(data) => samples.extend(data.fields.iter().map(by_name)),
            FlowSetBody::OptionsData(data) => names.extend(data.fields.iter().map(by_name)),
            _ => {}
        }
    }
    (samples, names)
}

fn known(time: u64, now: u64) -> Known<'static> {
    let interface: &dyn Fn(u32) -> Option<Arc<str>> = &|number| (number < 9).then(|| format!("if{number}").into());
    Known { time, interface, now: Time(now), unix: 1_800_000_000 }
}

fn value<'a>(record: &'a Fields, name: &str) -> &'a FieldValue {
    record.get(&format!("IANA({name})")).unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

fn number(record: &Fields, name: &str) -> u64 {
    match value(record, name) {
        FieldValue::DataNumber(number) => number.as_u64().unwrap(),
        FieldValue::ProtocolType(protocol) => u64::from(u8::from(*protocol)),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_collector_reads_what_was_sampled() {
    let mut listener = Listener::new();
    let mut collector = Collector::open(listener.address(), Time(0));
    let cases = [
        (
            "udp from 192.0.2.7 port 53 to 198.51.100.9 port 4000 length 1000",
            (53, 4000),
            17,
            By::UrpfStrict,
            Treatment::Dropped,
            140,
        ),
        (
            "tcp from 2001:db8::7 port 1 to 2001:db8:1::9 port 65535 length 500",
            (1, 65535),
            6,
            By::Acl,
            Treatment::Dropped,
            129,
        ),
        ("icmp from 10.0.0.1 to 10.0.0.2 vlan 5", (0, 0), 1, By::Special, Treatment::Dropped, 128),
        (
            "udp from 10.0.0.1 to 10.0.0.2 fragment 1480 length 700 vlan 5 inner 6",
            (0, 0),
            17,
            By::Table,
            Treatment::RateLimited,
            138,
        ),
        ("esp from 2001:db8::1 to 2001:db8::2 spi 77", (0, 0), 50, By::Table, Treatment::Passed, 64),
        ("udp from 10.0.0.1 port 7 to 10.0.0.2 port 8", (7, 8), 17, By::Table, Treatment::Redirected, 64),
    ];
    let mut sent = Vec::new();
    for (at, (text, _, _, by, treatment, _)) in cases.iter().enumerate() {
        for snap in [64, 128, 256] {
            let mut sample = sample(text, snap);
            (sample.cause, sample.treatment) = (Cause::Invalid { policy: 0, by: *by }, *treatment);
            (sample.interface, sample.one_in) = (at as u32 % 3, 1000);
            collector.send(&sample, &known(1_700_000_000_123_456_789 + at as u64, 5));
            sent.push((at, sample));
        }
    }
    collector.flush(Time(5), 1_800_000_000);

    let messages = listener.messages(1_800_000_000);
    let (samples, names) = records(&messages);
    assert_eq!(samples.len(), sent.len());
    for (record, (at, sample)) in samples.iter().zip(&sent) {
        let (text, ports, protocol, _, _, status) = &cases[*at];
        let mut words = text.split(' ');
        let mut address = |word| {
            IpAddr::V6(match words.find(|found| *found == word).and_then(|_| words.next()).unwrap().parse().unwrap() {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            })
        };
        let (source, destination) = (address("from"), address("to"));
        let read = |v4: &str, v6: &str| match record.get(&format!("IANA({v4})")) {
            Some(FieldValue::Ip4Addr(address)) => IpAddr::V6(address.to_ipv6_mapped()),
            None => match value(record, v6) {
                FieldValue::Ip6Addr(address) => IpAddr::V6(*address),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(read("SourceIpv4address", "SourceIpv6address"), source);
        assert_eq!(read("DestinationIpv4address", "DestinationIpv6address"), destination);
        assert_eq!((number(record, "SourceTransportPort"), number(record, "DestinationTransportPort")), *ports);
        assert_eq!(number(record, "ProtocolIdentifier"), *protocol);
        assert_eq!(number(record, "IngressInterface"), u64::from(sample.interface));
        assert_eq!(number(record, "IpTotalLength"), u64::from(sample.length) - u64::from(sample.parsed.l3));
        assert_eq!(number(record, "DataLinkFrameSize"), u64::from(sample.length));
        assert_eq!(number(record, "DataLinkFrameType"), 1);
        // As octets: the decoder's names for reasons of drops are one off.
        let FieldValue::ForwardingStatus(found) = value(record, "ForwardingStatus") else { panic!("{record:?}") };
        assert_eq!(u8::from(*found), *status);
        assert_eq!(value(record, "SamplingProbability"), &FieldValue::Float64(0.001));
        assert_eq!(value(record, "DataLinkFrameSection"), &FieldValue::Vec(sample.frame().to_vec()));
        let FieldValue::Duration(DurationValue::NanosNtp { seconds, fraction }) =
            value(record, "ObservationTimeNanoseconds")
        else {
            panic!("{record:?}")
        };
        let nanoseconds = (u64::from(*fraction) * 1_000_000_000) >> 32;
        assert_eq!((u64::from(*seconds) - 2_208_988_800, nanoseconds), (1_700_000_000, 123_456_789 + *at as u64));
    }
    // Each interface once, and before its first sample.
    let name = |record: &Fields| match value(record, "InterfaceName") {
        FieldValue::String(name) => (number(record, "IngressInterface"), name.value.clone()),
        other => panic!("{other:?}"),
    };
    let names: Vec<_> = names.iter().map(name).collect();
    assert_eq!(names, [(0, "if0".to_owned()), (1, "if1".to_owned()), (2, "if2".to_owned())]);

    let totals = collector.sent();
    assert_eq!((totals.samples, totals.lost, totals.refused), (18, 0, 0));
    assert_eq!(totals.messages, messages.len() as u64);
    assert_eq!(totals.bytes, messages.iter().map(|message| u64::from(message.header.length)).sum::<u64>());
    assert_eq!(collector.failure(), None);
}

#[test]
fn of_packets_that_a_rule_logs_it_is_said_what_the_rule_did() {
    let mut listener = Listener::new();
    let mut collector = Collector::open(listener.address(), Time(0));
    // RFC 7270, 4.12: forwarded; dropped by an access list; dropped by a policer.
    let cases = [(Treatment::Passed, 64), (Treatment::Dropped, 129), (Treatment::RateLimited, 138)];
    let sent: Vec<_> = [false, true].into_iter().flat_map(|output| cases.map(|case| (output, case))).collect();
    for (at, (output, (treatment, _))) in (0..).zip(&sent) {
        let mut sample = sample("tcp from 2001:db8::7 port 1 to 2001:db8:1::9 port 443", 128);
        (sample.cause, sample.treatment) = (Cause::Logged { rule: 7, output: *output }, *treatment);
        (sample.interface, sample.one_in) = (at, 1);
        collector.send(&sample, &known(0, 0));
    }
    collector.flush(Time(0), 1_800_000_000);
    let (samples, names) = records(&listener.messages(1_800_000_000));
    let status = |record: &Fields| match value(record, "ForwardingStatus") {
        FieldValue::ForwardingStatus(status) => u64::from(u8::from(*status)),
        other => panic!("{other:?}"),
    };
    let read: Vec<_> = samples.iter().map(|record| (status(record), number(record, "IngressInterface"))).collect();
    let expected: Vec<_> = sent.iter().zip(0..).map(|((_, (_, status)), at)| (*status, at)).collect();
    assert_eq!((read, names.len()), (expected, 6));
    assert!(samples.iter().all(|record| number(record, "DestinationTransportPort") == 443));
}

/// Templates in messages: the numbers of their sets.
fn templates(messages: &[IPFix]) -> Vec<u16> {
    let sets = messages.iter().flat_map(|message| &message.flowsets).map(|set| set.header.header_id);
    sets.filter(|&number| number < 256).collect()
}

#[test]
fn templates_are_sent_again() {
    let mut listener = Listener::new();
    let mut collector = Collector::open(listener.address(), Time(0));
    let sample = sample("udp from 192.0.2.7 port 1 to 192.0.2.8 port 2", 64);
    let mut send = |now: u64| {
        collector.send(&sample, &known(0, now));
        collector.flush(Time(now), 1_800_000_000);
        let messages = listener.messages(1_800_000_000);
        (templates(&messages), records(&messages).1.len())
    };
    assert_eq!(send(0), (vec![2, 3], 1));
    assert_eq!(send(REFRESH - 1), (vec![], 0));
    assert_eq!(send(REFRESH), (vec![2, 3], 1), "and with them the names that they are about");
    assert_eq!(send(REFRESH + 1), (vec![], 0));
}

#[test]
fn a_flood_of_samples_fills_messages_and_no_more() {
    let mut listener = Listener::new();
    let mut collector = Collector::open(listener.address(), Time(0));
    let mut expected = 0;
    for snap in 64..=256 {
        let sample = sample("udp from 2001:db8::7 port 1 to 2001:db8::8 port 2 length 400", snap);
        collector.send(&sample, &known(0, 0));
        expected += 1;
    }
    collector.flush(Time(0), 1_800_000_000);
    let messages = listener.messages(1_800_000_000);
    assert_eq!(records(&messages).0.len(), expected);
    // All but the templates and the last are as full as can be: another record would not have fitted.
    for message in &messages[1..messages.len() - 1] {
        assert!(usize::from(message.header.length) > MESSAGE - 350, "{}", message.header.length);
    }
}

#[test]
fn a_collector_that_is_away_is_noticed_and_gets_templates_when_it_is_back() {
    // An absent collector keeps its port, so that no other test gets it: a connected socket receives from its peer
    // only.
    let away = UdpSocket::bind("127.0.0.1:0").unwrap();
    away.connect("127.0.0.1:9").unwrap();
    let address = away.local_addr().unwrap();
    let mut collector = Collector::open(address, Time(0));
    let sample = sample("udp from 192.0.2.7 port 1 to 192.0.2.8 port 2", 64);
    let mut send = |now| {
        collector.send(&sample, &known(0, now));
        collector.flush(Time(now), 1_800_000_000);
        // The refusal is on its way.
        std::thread::sleep(Duration::from_millis(20));
        (collector.failure().map(str::to_owned), collector.sent())
    };
    let (mut failure, mut sent) = send(0);
    for now in 1..=10 {
        (failure, sent) = send(now);
    }
    assert_eq!(failure.as_deref(), Some(&*format!("{address}: nobody listens")));
    assert!(sent.refused > 0 && sent.lost == 0, "{sent:?}");
    drop(away);
    let socket = UdpSocket::bind(address).unwrap();
    let (mut back, mut templates) = (Listener::on(socket), 0);
    for now in 11..=20 {
        // No word from there is no news yet.
        failure = send(now).0;
        assert!(failure.is_some());
    }
    for now in 20..30 {
        failure = send(now + RETRY).0;
    }
    assert_eq!(failure, None);
    let mut buffer = [0; 2048];
    while let Ok(octets) = back.socket.recv(&mut buffer) {
        let parsed = back.parser.parse_bytes(&buffer[..octets]);
        let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else { panic!("{parsed:?}") };
        for set in &message.flowsets {
            templates += u32::from(set.header.header_id == 2);
            assert!(!matches!(set.body, FlowSetBody::NoTemplate(_)), "a sample came before its template");
        }
    }
    assert!(templates > 0);
}

#[test]
fn what_has_no_ip_header_is_lost() {
    let listener = Listener::new();
    let mut collector = Collector::open(listener.address(), Time(0));
    let mut cut = sample("udp from 192.0.2.7 port 1 to 192.0.2.8 port 2", 64);
    cut.parsed.l3 = 60;
    collector.send(&cut, &known(0, 0));
    cut.parsed.l3 = 6;
    collector.send(&cut, &known(0, 0));
    assert_eq!((collector.sent().lost, collector.sent().samples), (2, 0));
}
