//! `[sa.NAME]`: a pair of SAs with one peer.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use weir_crypto::Algorithm;
use weir_plane::model::{
    Encapsulation, Lifetime, Lifetimes, MssClamp, OuterDf, OuterDscp, OuterLabel, SaKey, SaMode, Tfc,
};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Source;
use super::super::table::{Reader, Table, Value, list};
use super::mss::mss_clamp;
use super::{At, refuse};

const KEYS: &[&str] = &[
    "mode",
    "vrf",
    "local",
    "remote",
    "algorithm",
    "esn",
    "out",
    "in",
    "window",
    "workers",
    "encapsulation",
    "interface",
    "dscp",
    "ecn",
    "df",
    "flow-label",
    "hop-limit",
    "lifetime",
    "tfc",
    "dummies",
    "mss-clamp",
];

/// Keys about the outer header of tunnel mode.
const OF_TUNNELS: &[&str] = &["dscp", "ecn", "df", "flow-label", "hop-limit", "tfc"];

/// SPIs from 1 to 255 are reserved (RFC 4303, 2.1), and 0 means none.
const LEAST_SPI: u32 = 256;

/// The port of ESP in UDP (RFC 3948, 2.1).
const PORT: u16 = 4500;

/// The time without outbound packets after which a keepalive is sent, unless another is given (RFC 3948, 4).
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Numbers of the anti-replay window, unless another size is given.
const WINDOW: u32 = 64;

/// The lengths that packets may be padded to.
const LEAST_PADDED: u16 = 64;
const MOST_PADDED: u16 = 1500;

/// The greatest rate of dummy packets, in packets per second.
const MOST_DUMMIES: u32 = 10_000;

/// The greatest limit of a lifetime.
const MOST: u64 = i64::MAX as u64;

/// The hop limit of the outer header, unless another is given.
const HOP_LIMIT: u8 = 64;

/// A pair of SAs.
pub(in super::super) struct Sa {
    pub(in super::super) name: At<String>,
    pub(in super::super) mode: SaMode,
    pub(in super::super) vrf: Option<At<String>>,
    pub(in super::super) local: At<IpAddr>,
    pub(in super::super) remote: At<IpAddr>,
    pub(in super::super) algorithm: At<Algorithm>,
    pub(in super::super) esn: bool,
    pub(in super::super) outbound: Option<Keyed>,
    pub(in super::super) inbound: Option<Keyed>,
    pub(in super::super) is_shared: bool,
    pub(in super::super) window: u32,
    pub(in super::super) encapsulation: Option<Encapsulation>,
    pub(in super::super) interface: Option<At<String>>,
    pub(in super::super) dscp: OuterDscp,
    pub(in super::super) ecn: bool,
    pub(in super::super) df: OuterDf,
    pub(in super::super) flow_label: OuterLabel,
    pub(in super::super) hop_limit: u8,
    pub(in super::super) lifetimes: Lifetimes,
    pub(in super::super) tfc: Option<Tfc>,
    pub(in super::super) dummies: u32,
    pub(in super::super) mss_clamp: Option<MssClamp>,
}

/// The SPI and the key of an SA.
pub(in super::super) struct Keyed {
    pub(in super::super) spi: At<u32>,
    /// The file, as it is named and where it is; `None` if the algorithm needs no key.
    pub(in super::super) file: Option<At<PathBuf>>,
    /// The key, once the file was read.
    pub(in super::super) key: Option<SaKey>,
}

/// Reads a pair that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>, source: &Source) -> Option<Sa> {
    let table = reader.table(value, "a pair of SAs", KEYS)?;
    let mode = match table.get("mode") {
        Some(value) => {
            let modes = [("tunnel", SaMode::Tunnel), ("transport", SaMode::Transport)];
            reader.choice(value, "mode of an SA", &modes)
        }
        None => Some(SaMode::Tunnel),
    };
    if mode == Some(SaMode::Transport) {
        refuse(reader, &table, OF_TUNNELS, "has no meaning in transport mode, which has no header of its own");
    }
    let local = reader.require(&table, "local").and_then(|value| reader.host_address(value));
    let remote = reader.require(&table, "remote").and_then(|value| reader.host_address(value));
    let algorithm = reader.require(&table, "algorithm").and_then(|value| algorithm(reader, value));
    let is_protected = algorithm.as_ref().is_none_or(|own| own.value.has_integrity());
    let outbound = table.get("out").map(|value| keyed(reader, value, source, is_protected));
    let inbound = table.get("in").map(|value| keyed(reader, value, source, is_protected));
    if outbound.is_none() && inbound.is_none() && !reader.is_excused(&table, "out") && !reader.is_excused(&table, "in")
    {
        let found = Diagnostic::error(Code::MissingKey, table.span, "a pair of SAs needs `out`, `in` or both");
        reader.report(found.help("write `out = { spi = 0x1001, key-file = \"out.key\" }`"));
    }
    if !is_protected {
        refuse(
            reader,
            &table,
            &["window"],
            "has no meaning with `null`: a forged packet would move it (RFC 4303, 3.4.3)",
        );
    }
    let window = match table.get("window") {
        None => Some(if is_protected { WINDOW } else { 0 }),
        Some(value) => window(reader, value),
    };
    let workers = table
        .get("workers")
        .map_or(Some(false), |value| reader.choice(value, "way of sharing an SA", &[("one", false), ("shared", true)]));
    let encapsulation = table.get("encapsulation").map(|value| encapsulation(reader, value));
    let dscp = table.get("dscp").map_or(Some(OuterDscp::Copy), |value| dscp(reader, value));
    let df = table.get("df").map_or(Some(OuterDf::Copy), |value| {
        let choices = [("copy", OuterDf::Copy), ("set", OuterDf::Set), ("clear", OuterDf::Clear)];
        reader.choice(value, "rule for the DF bit", &choices)
    });
    let flow_label = table.get("flow-label").map_or(Some(OuterLabel::Flow), |value| {
        let choices = [("flow", OuterLabel::Flow), ("copy", OuterLabel::Copy), ("zero", OuterLabel::Zero)];
        reader.choice(value, "rule for the flow label", &choices)
    });
    let hop_limit =
        table.get("hop-limit").map_or(Some(HOP_LIMIT), |value| reader.u8(value, "the hop limit", 1..=u8::MAX));
    let lifetimes = table.get("lifetime").map_or(Some(Lifetimes::default()), |value| lifetimes(reader, value));
    let tfc = table.get("tfc").map(|value| tfc(reader, value));
    let dummies = table.get("dummies").map_or(Some(0), |value| dummies(reader, value));
    let clamp = table.get("mss-clamp").map(|value| mss_clamp(reader, value));
    Some(Sa {
        name,
        mode: mode?,
        vrf: table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name")),
        local: local?,
        remote: remote?,
        algorithm: algorithm?,
        esn: boolean(reader, &table, "esn", false),
        outbound: optional(outbound)?,
        inbound: optional(inbound)?,
        is_shared: workers?,
        window: window?,
        encapsulation: optional(encapsulation)?,
        interface: table.get("interface").and_then(|value| reader.reference(value, "an interface's name")),
        dscp: dscp?,
        ecn: boolean(reader, &table, "ecn", true),
        df: df?,
        flow_label: flow_label?,
        hop_limit: hop_limit?,
        lifetimes: lifetimes?,
        tfc: optional(tfc)?,
        dummies: dummies?,
        mss_clamp: optional(clamp)?,
    })
}

/// Returns `None` for a value that could not be read, and `Some(None)` for a value that is not there.
fn optional<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}

fn boolean(reader: &mut Reader<'_>, table: &Table<'_>, key: &str, default: bool) -> bool {
    table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(default)
}

fn algorithm(reader: &mut Reader<'_>, value: Value<'_>) -> Option<At<Algorithm>> {
    let name = reader.string(value, "the name of an algorithm")?;
    match name.value.parse() {
        Ok(algorithm) => Some(At { value: algorithm, span: name.span }),
        Err(_) => {
            let names: Vec<String> = Algorithm::all().iter().map(Algorithm::to_string).collect();
            let message = format!("there is no algorithm `{}`", name.value);
            let found = Diagnostic::error(Code::InvalidValue, name.span, message);
            // Of names that go on with digits, the one with the longest ICV.
            let goes_on = |full: &&String| {
                let rest = full.strip_prefix(name.value).unwrap_or_default();
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            };
            let longer = names.iter().filter(goes_on).max_by_key(|full| (full.len(), full.as_str()));
            let found = match longer {
                Some(longer) => found.help(format!("did you mean `{longer}`?")),
                None => found.suggest(name.value, names.iter().map(String::as_str)),
            };
            let help = found.help.clone();
            let examples = ["aes128gcm16", "aes256gcm16", "chacha20poly1305", "aes256-sha256", "null-sha256"];
            reader.report(found.help(help.unwrap_or_else(|| format!("such names are {}", list(&examples)))));
            None
        }
    }
}

fn keyed(reader: &mut Reader<'_>, value: Value<'_>, source: &Source, is_protected: bool) -> Option<Keyed> {
    let table = reader.table(value, "an SA", &["spi", "key-file"])?;
    let spi = reader.require(&table, "spi").and_then(|value| {
        let span = reader.span(value.span());
        Some(At { value: reader.u32(value, "an SPI", LEAST_SPI..=u32::MAX)?, span })
    });
    if !is_protected {
        refuse(reader, &table, &["key-file"], "has no meaning with `null`, which has no key");
        return Some(Keyed { spi: spi?, file: None, key: None });
    }
    let file = reader.require(&table, "key-file").and_then(|value| reader.path(value));
    let file = file.map(|path| At { value: source.resolve(path.value), span: path.span });
    Some(Keyed { spi: spi?, file: Some(file?), key: None })
}

fn window(reader: &mut Reader<'_>, value: Value<'_>) -> Option<u32> {
    use weir_packet::esp::{LARGEST_WINDOW, SMALLEST_WINDOW};
    let window = reader.u32(value, "an anti-replay window", 0..=LARGEST_WINDOW)?;
    if window == 0 || window >= SMALLEST_WINDOW && window.is_power_of_two() {
        return Some(window);
    }
    let span = reader.span(value.span());
    let message = format!("an anti-replay window of {window} numbers is not possible");
    let found = Diagnostic::error(Code::InvalidValue, span, message);
    let near = window.next_power_of_two().max(SMALLEST_WINDOW);
    reader.report(found.help(format!(
        "it is a power of two from {SMALLEST_WINDOW} to {LARGEST_WINDOW}, such as {near}, or 0 for none"
    )));
    None
}

fn dscp(reader: &mut Reader<'_>, value: Value<'_>) -> Option<OuterDscp> {
    match value.get_ref() {
        DeValue::String(_) => reader.choice(value, "rule for the DSCP", &[("copy", OuterDscp::Copy)]),
        _ => reader.u8(value, "a DSCP", 0..=63).map(OuterDscp::Fixed),
    }
}

fn encapsulation(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Encapsulation> {
    let table = reader.table(value, "`encapsulation`", &["local-port", "remote-port", "keepalive"])?;
    let port = |reader: &mut Reader<'_>, key: &str| {
        table.get(key).map_or(Some(PORT), |value| reader.u16(value, "a UDP port", 1..=u16::MAX))
    };
    let (local_port, remote_port) = (port(reader, "local-port"), port(reader, "remote-port"));
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    let keepalive = match table.get("keepalive") {
        None => Some(Some(KEEPALIVE)),
        Some(value) if matches!(value.get_ref(), DeValue::String(text) if text == "off") => Some(None),
        Some(value) => reader.duration(value, "the time between keepalives", range, Duration::from_millis(1)).map(Some),
    };
    Some(Encapsulation { local_port: local_port?, remote_port: remote_port?, keepalive: keepalive? })
}

/// Reads the length that packets are padded to.
fn tfc(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Tfc> {
    match value.get_ref() {
        DeValue::String(_) => reader.choice(value, "length of padded packets", &[("mtu", Tfc::Mtu)]),
        _ => reader.u16(value, "the length of padded packets", LEAST_PADDED..=MOST_PADDED).map(Tfc::Length),
    }
}

/// Reads a rate of packets, such as `10pps`.
fn dummies(reader: &mut Reader<'_>, value: Value<'_>) -> Option<u32> {
    let text = reader.string(value, "a rate of packets")?;
    let rate = text.value.strip_suffix("pps").and_then(|number| number.trim().parse().ok());
    let rate = rate.filter(|rate| (1..=MOST_DUMMIES).contains(rate));
    if rate.is_none() {
        let message = format!("`{}` is not a rate of packets from 1pps to {MOST_DUMMIES}pps", text.value);
        reader.report(Diagnostic::error(Code::InvalidValue, text.span, message).help("write such as `10pps`"));
    }
    rate
}

/// Reads `lifetime`, whose hard limits lie behind the soft ones.
fn lifetimes(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Lifetimes> {
    let table = reader.table(value, "`lifetime`", &["soft", "hard"])?;
    let of = |reader: &mut Reader<'_>, key: &str| match table.get(key) {
        None => Some(Lifetime::default()),
        Some(value) => lifetime(reader, value),
    };
    let (soft, hard) = (of(reader, "soft"), of(reader, "hard"));
    let (soft, hard) = (soft?, hard?);
    let is_late = soft.time.zip(hard.time).is_some_and(|(soft, hard)| soft >= hard)
        || soft.octets.zip(hard.octets).is_some_and(|(soft, hard)| soft >= hard)
        || soft.packets.zip(hard.packets).is_some_and(|(soft, hard)| soft >= hard);
    if is_late {
        let span = table.get("soft").map_or(table.span, |value| reader.span(value.span()));
        let message = "the soft lifetime ends no earlier than the hard one";
        let found = Diagnostic::error(Code::InvalidValue, span, message);
        reader.report(found.help("leave time for a new pair of SAs between both: the SA stops at its hard lifetime"));
        return None;
    }
    Some(Lifetimes { soft, hard })
}

/// Reads the limits of a lifetime, at least one.
fn lifetime(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Lifetime> {
    let table = reader.table(value, "a lifetime", &["time", "octets", "packets"])?;
    let range = Duration::from_secs(1)..=Duration::from_secs(10 * 365 * 86_400);
    let time = table.get("time").map(|value| reader.duration(value, "a lifetime", range, Duration::from_secs(1)));
    let mut number = |key: &str, what: &str| table.get(key).map(|value| reader.integer(value, what, 1..=MOST));
    let octets = number("octets", "a number of octets");
    let packets = number("packets", "a number of packets");
    let lifetime = Lifetime { time: optional(time)?, octets: optional(octets)?, packets: optional(packets)? };
    if lifetime.is_unlimited() {
        let found = Diagnostic::error(Code::MissingKey, table.span, "a lifetime needs `time`, `octets` or `packets`");
        reader.report(found.help("write `{ time = \"1h\" }`"));
        return None;
    }
    Some(lifetime)
}
