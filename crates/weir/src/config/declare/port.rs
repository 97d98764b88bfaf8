//! The `port` of an interface.

use std::net::IpAddr;

use toml::de::DeValue;
use weir_port::spec::{GeneratorSpec, PcapSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Source};
use super::super::table::{Reader, Table, Value, list};
use super::{FileUse, Uses, device, refuse};

/// The kinds of ports.
const KINDS: &[&str] =
    &["generator", "pcap", "null", "af-packet", "tap", "tun", "ipsec", "vxlan", "geneve", "gue", "gre", "ipip"];

const PCAP_KEYS: &[&str] = &["input", "output", "repeat", "paced"];

const TEMPLATE_KEYS: &[&str] = &[
    "source",
    "destination",
    "protocol",
    "source-port",
    "destination-port",
    "size",
    "flows",
    "ttl",
    "dont-fragment",
    "vlan",
    "source-mac",
    "destination-mac",
    "seed",
];

const STREAM_KEYS: &[&str] = &[
    "capture",
    "rate",
    "count",
    "source",
    "destination",
    "protocol",
    "source-port",
    "destination-port",
    "size",
    "flows",
    "ttl",
    "dont-fragment",
    "vlan",
    "source-mac",
    "destination-mac",
    "seed",
];

/// The shortest frame of Ethernet without its check sequence, and the longest that holds an IP packet.
const FRAMES: (u32, u32) = (60, 65_535 + 14);

/// Flows of a stream, at most.
const MOST_FLOWS: u32 = 1 << 24;

/// Flows of a stream that has ranges for more and does not say how many.
const DEFAULT_FLOWS: u32 = 10_000;

/// Reads a port; what it uses of the system is added to `uses`.
pub(super) fn read(reader: &mut Reader<'_>, value: Value<'_>, source: &Source, uses: &mut Uses) -> Option<PortSpec> {
    if let DeValue::String(_) = value.get_ref() {
        let kind = reader.string(value, "a kind of port")?;
        if kind.value == "null" {
            return Some(PortSpec::Null);
        }
        if KINDS.contains(&kind.value) {
            let (message, settings) = match kind.value {
                kind @ ("tap" | "tun") => {
                    (format!("a `{kind}` port needs the name of its device"), format!("\"{kind}0\""))
                }
                "af-packet" => ("an `af-packet` port needs the name of its device".to_owned(), "\"eth0\"".to_owned()),
                kind => (format!("a `{kind}` port needs settings"), "{ … }".to_owned()),
            };
            let found = Diagnostic::error(Code::WrongType, kind.span, message);
            reader.report(found.help(format!("write `port = {{ {} = {settings} }}`", kind.value)));
        } else {
            unknown(reader, kind);
        }
        return None;
    }
    let table = reader.open_table(value, "a port")?;
    let mut port = None;
    for (key, value) in table.iter() {
        match &**key.get_ref() {
            "generator" => port = generator(reader, value, source, &mut uses.files),
            "pcap" => port = pcap(reader, value, source, &mut uses.files),
            "af-packet" => port = device::af_packet(reader, value, uses),
            "tap" => port = device::tap(reader, value, uses),
            "tun" => port = device::tun(reader, value, uses),
            "null" => {
                let span = reader.span(value.span());
                let found = Diagnostic::error(Code::WrongType, span, "a `null` port has no settings");
                reader.report(found.help("write `port = \"null\"`"));
            }
            // A tunnel or an interface for decrypted packets beside another kind, which is reported below.
            name if KINDS.contains(&name) && table.len() > 1 => {}
            name => {
                let span = reader.span(key.span());
                unknown(reader, At { value: name, span });
            }
        }
    }
    if table.len() != 1 {
        let message = if table.len() == 0 { "the kind of the port is missing" } else { "a port is of one kind" };
        let code = if table.len() == 0 { Code::MissingKey } else { Code::ConflictingKeys };
        reader.report(Diagnostic::error(code, table.span, message).help(format!("it is one of {}", list(KINDS))));
        return None;
    }
    port
}

fn unknown(reader: &mut Reader<'_>, kind: At<&str>) {
    let found = Diagnostic::error(Code::UnknownPort, kind.span, format!("there is no kind of port `{}`", kind.value));
    let found = match kind.value {
        "vlan" => found.help("a VLAN interface has `parent = \"…\"` and `vlan = 10` in place of `port`"),
        name => found.suggest(name, KINDS),
    };
    let help = found.help.clone().unwrap_or_else(|| format!("it is one of {}", list(KINDS)));
    reader.report(found.help(help));
}

fn pcap(reader: &mut Reader<'_>, value: Value<'_>, source: &Source, files: &mut Vec<FileUse>) -> Option<PortSpec> {
    let table = reader.table(value, "a pcap port", PCAP_KEYS)?;
    let mut file = |reader: &mut Reader<'_>, key, written| {
        let path = reader.path(table.get(key)?)?;
        let resolved = source.resolve(path.value);
        files.push(FileUse { path: resolved.clone(), span: path.span, written });
        Some(resolved)
    };
    let input = file(reader, "input", false);
    let output = file(reader, "output", true);
    let repeat = table.get("repeat").and_then(|value| reader.boolean(value)).unwrap_or(false);
    let paced = table.get("paced").and_then(|value| reader.boolean(value)).unwrap_or(false);
    if !table.has("input") {
        refuse(reader, &table, &["repeat", "paced"], "has no meaning without `input`");
        if !table.has("output") && !reader.is_damaged(table.span) {
            let found = Diagnostic::error(Code::MissingKey, table.span, "a pcap port needs `input`, `output` or both");
            reader.report(found);
        }
    }
    Some(PortSpec::Pcap(PcapSpec { input, output, repeat, paced }))
}

fn generator(reader: &mut Reader<'_>, value: Value<'_>, source: &Source, files: &mut Vec<FileUse>) -> Option<PortSpec> {
    let values = reader.one_at_least(value, "stream");
    let streams: Vec<_> = values.iter().map(|value| stream(reader, value, source, files)).collect();
    let streams: Option<Vec<_>> = streams.into_iter().collect();
    Some(PortSpec::Generator(GeneratorSpec { streams: streams? }))
}

fn stream(reader: &mut Reader<'_>, value: Value<'_>, source: &Source, files: &mut Vec<FileUse>) -> Option<StreamSpec> {
    let table = reader.table(value, "a stream", STREAM_KEYS)?;
    let rate = table.get("rate").and_then(|value| reader.quantity(value, "a rate"));
    let count = table.get("count").and_then(|value| reader.quantity(value, "a count"));
    let packets = match table.get("capture") {
        Some(value) => {
            refuse(reader, &table, TEMPLATE_KEYS, "has no meaning beside `capture`: the packets are the file's");
            let path = reader.path(value)?;
            let resolved = source.resolve(path.value);
            files.push(FileUse { path: resolved.clone(), span: path.span, written: false });
            StreamSource::Capture(resolved)
        }
        None => StreamSource::Template(template(reader, &table)?),
    };
    Some(StreamSpec { source: packets, rate, count })
}

fn template(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<TemplateSpec> {
    let source = reader.require(table, "source").and_then(|value| reader.address_range(value));
    let destination = reader.require(table, "destination").and_then(|value| reader.address_range(value));
    let protocols = [("udp", Transport::Udp), ("tcp", Transport::Tcp), ("icmp", Transport::Icmp)];
    let protocol = match table.get("protocol") {
        Some(value) => reader.choice(value, "protocol", &protocols),
        None => Some(Transport::Udp),
    };
    if protocol == Some(Transport::Icmp) {
        let why = "has no meaning for ICMP, which has no ports; `source-port` is the echo's identifier";
        refuse(reader, table, &["destination-port"], why);
    }
    let source_port = match table.get("source-port") {
        Some(value) => reader.port_range(value, "a source port"),
        None => Some((1024, 1024)),
    };
    let destination_port = match table.get("destination-port") {
        Some(value) => reader.port_range(value, "a destination port"),
        None => Some((9, 9)),
    };
    let ttl = table.get("ttl").and_then(|value| reader.u8(value, "the TTL", 0..=u8::MAX)).unwrap_or(64);
    let dont_fragment = table.get("dont-fragment").and_then(|value| reader.boolean(value)).unwrap_or(false);
    let vlan = match table.get("vlan") {
        Some(value) => reader.vlan(value).map(|(outer, inner)| {
            let inner = inner.map(|vid| (0x8100, vid));
            std::iter::once((outer.tpid, outer.vid)).chain(inner).collect()
        }),
        None => Some(Vec::new()),
    };
    let source_mac = table.get("source-mac").and_then(|value| reader.mac(value)).map(|mac| mac.0);
    let destination_mac = table.get("destination-mac").and_then(|value| reader.mac(value)).map(|mac| mac.0);
    let seed = seed(reader, table);
    let size = match table.get("size") {
        Some(value) => size(reader, value),
        None => Some(SizeSpec::Fixed(64)),
    };
    if let (Some(source), Some(destination)) = (&source, &destination)
        && source.value.0.is_ipv4() != destination.value.0.is_ipv4()
    {
        let message = "source and destination are not of one family";
        let found = Diagnostic::error(Code::FamilyMismatch, destination.span, message);
        let found = found.label(family(destination.value.0)).related(source.span, family(source.value.0));
        reader.report(found);
    }
    let (source, destination, protocol) = (source?.value, destination?.value, protocol?);
    let (source_port, destination_port, vlan) = (source_port?, destination_port?, vlan?);
    if let (Some(value), Some(size)) = (table.get("size"), size) {
        check_size(reader, value, size, headers(source.0, protocol, vlan.len()));
    }
    let ports = |range: (u16, u16)| u128::from(range.1 - range.0) + 1;
    let combinations = addresses(source).saturating_mul(addresses(destination)).saturating_mul(ports(source_port));
    let combinations = match protocol {
        Transport::Icmp => combinations,
        Transport::Udp | Transport::Tcp => combinations.saturating_mul(ports(destination_port)),
    };
    let flows = match table.get("flows") {
        Some(value) => {
            let flows = reader.u32(value, "the number of flows", 1..=MOST_FLOWS)?;
            if u128::from(flows) > combinations {
                let message = format!("{flows} flows are wanted, but the ranges of this stream make {combinations}");
                reader.error(Code::TooManyFlows, value, message);
            }
            flows
        }
        None => u32::try_from(combinations).unwrap_or(u32::MAX).min(DEFAULT_FLOWS),
    };
    let size = size?;
    Some(TemplateSpec {
        source,
        destination,
        protocol,
        source_port,
        destination_port,
        size,
        flows,
        ttl,
        dont_fragment,
        vlan,
        source_mac,
        destination_mac,
        seed,
    })
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// How many addresses lie in a range.
fn addresses(range: (IpAddr, IpAddr)) -> u128 {
    match range {
        (IpAddr::V4(first), IpAddr::V4(last)) => u128::from(last.to_bits().saturating_sub(first.to_bits())) + 1,
        (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits().saturating_sub(first.to_bits()).saturating_add(1),
        _ => 1,
    }
}

/// Octets of the headers of a template's frames.
fn headers(source: IpAddr, protocol: Transport, tags: usize) -> u32 {
    let ip = if source.is_ipv4() { 20 } else { 40 };
    let transport = match protocol {
        Transport::Udp | Transport::Icmp => 8,
        Transport::Tcp => 20,
    };
    14 + 4 * tags as u32 + ip + transport
}

fn size(reader: &mut Reader<'_>, value: Value<'_>) -> Option<SizeSpec> {
    const WHAT: &str = "a frame's size";
    let (least, most) = FRAMES;
    match value.get_ref() {
        DeValue::Integer(_) => reader.u32(value, WHAT, least..=most).map(SizeSpec::Fixed),
        DeValue::String(text) if text == "imix" => Some(SizeSpec::Imix),
        DeValue::String(_) => {
            let (first, last) =
                reader.number_range(value, WHAT, "`1500`, `64-1500` or `imix`", u64::from(least), u64::from(most))?;
            let (first, last) = (u32::try_from(first).ok()?, u32::try_from(last).ok()?);
            Some(if first == last { SizeSpec::Fixed(first) } else { SizeSpec::Range(first, last) })
        }
        _ => reader.wrong_type(value, "an integer, a range such as `64-1500`, or `imix`"),
    }
}

fn check_size(reader: &mut Reader<'_>, value: Value<'_>, size: SizeSpec, headers: u32) {
    let least = match size {
        SizeSpec::Fixed(size) | SizeSpec::Range(size, _) => size,
        // The generator lengthens the shortest frames of the mix where headers need it.
        SizeSpec::Imix => return,
    };
    if least < headers {
        let message = format!("a frame of {least} octets cannot hold its headers, which take {headers}");
        reader.error(Code::FrameTooSmall, value, message);
    }
}

/// A `seed`; 1 where there is none.
pub(super) fn seed(reader: &mut Reader<'_>, table: &Table<'_>) -> u64 {
    table.get("seed").and_then(|value| reader.integer(value, "a seed", 0..=i64::MAX as u64)).unwrap_or(1)
}
