//! `[sampler.NAME]`, and `sample` of whatever has packets sampled.

use std::net::SocketAddr;

use weir_plane::model::SampleFiles;
use weir_plane::sample::SNAP;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Source;
use super::super::table::{Reader, Table, Value};
use super::{At, FileUse, refuse};

const KEYS: &[&str] = &["pcap", "ipfix", "snap-length", "rate", "max-bytes", "max-files"];
const OF_FILES: &[&str] = &["max-bytes", "max-files"];

/// Octets of a packet that are kept, unless another number is given: all headers of nearly all packets.
const SNAP_LENGTH: u16 = 128;
const LEAST_SNAP_LENGTH: u16 = 64;

/// Samples in a second.
const RATE: u32 = 1000;
const MOST_RATE: u32 = 1_000_000;

/// Octets of a file.
const MAX_BYTES: u64 = 64_000_000;
const LEAST_MAX_BYTES: u64 = 1000;
const MOST_MAX_BYTES: u64 = 1_000_000_000_000;

const MAX_FILES: u16 = 4;
const MOST_MAX_FILES: u16 = 1000;

/// Where samples go.
pub(in super::super) struct Sampler {
    pub(in super::super) name: At<String>,
    pub(in super::super) pcap: Option<SampleFiles>,
    /// The file, and that it is written.
    pub(in super::super) file: Option<FileUse>,
    pub(in super::super) ipfix: Option<SocketAddr>,
    pub(in super::super) snap_length: u16,
    pub(in super::super) rate: u32,
}

/// The sampled packets, and the sampler.
pub(in super::super) struct Sampling {
    pub(in super::super) one_in: u32,
    pub(in super::super) to: At<String>,
}

/// Reads a sampler that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>, source: &Source) -> Option<Sampler> {
    let table = reader.table(value, "a sampler", KEYS)?;
    let path = table.get("pcap").and_then(|value| reader.path(value));
    let ipfix = table.get("ipfix").and_then(|value| collector(reader, value));
    let snap_length = number(reader, &table, "snap-length", |reader, value| {
        reader.u16(value, "the octets kept of a packet", LEAST_SNAP_LENGTH..=SNAP as u16)
    });
    let rate = number(reader, &table, "rate", |reader, value| reader.u32(value, "a rate of samples", 1..=MOST_RATE));
    let max_bytes = number(reader, &table, "max-bytes", bytes);
    let max_files = number(reader, &table, "max-files", |reader, value| {
        reader.u16(value, "the number of files", 1..=MOST_MAX_FILES)
    });
    if !table.has("pcap") {
        refuse(reader, &table, OF_FILES, "has no meaning without `pcap`");
        if !table.has("ipfix") && !reader.is_excused(&table, "pcap") && !reader.is_excused(&table, "ipfix") {
            let message = "a sampler needs `pcap`, `ipfix` or both";
            let found = Diagnostic::error(Code::MissingKey, table.span, message);
            reader.report(found.help("`pcap` names a file to write, `ipfix` the address and port of a collector"));
        }
    }
    let file = path.map(|path| FileUse { path: source.resolve(path.value), span: path.span, written: true });
    let pcap = file.as_ref().map(|file| SampleFiles {
        path: file.path.clone(),
        max_bytes: max_bytes.unwrap_or(MAX_BYTES),
        max_files: max_files.unwrap_or(MAX_FILES),
    });
    let (snap_length, rate) = (snap_length.unwrap_or(SNAP_LENGTH), rate.unwrap_or(RATE));
    Some(Sampler { name, pcap, file, ipfix, snap_length, rate })
}

/// Reads the `sample` of a policy.
pub(super) fn sampling(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Sampling> {
    let table = reader.table(value, "`sample`", &["one-in", "to"])?;
    let one_in = reader.require(&table, "one-in");
    let one_in = one_in.and_then(|value| reader.u32(value, "the packets of which one is taken", 1..=u32::MAX));
    let to = reader.require(&table, "to").and_then(|value| reader.reference(value, "a sampler's name"));
    Some(Sampling { one_in: one_in?, to: to? })
}

fn number<'d, T>(
    reader: &mut Reader<'_>,
    table: &Table<'d>,
    key: &str,
    read: impl FnOnce(&mut Reader<'_>, Value<'d>) -> Option<T>,
) -> Option<T> {
    table.get(key).and_then(|value| read(reader, value))
}

/// A number of octets, perhaps with k, M or G.
fn bytes(reader: &mut Reader<'_>, value: Value<'_>) -> Option<u64> {
    let bytes = reader.quantity(value, "the octets of a file")?;
    if !(LEAST_MAX_BYTES..=MOST_MAX_BYTES).contains(&bytes) {
        let message =
            super::super::table::outside(&bytes.to_string(), "the octets of a file", LEAST_MAX_BYTES, MOST_MAX_BYTES);
        reader.error(Code::OutOfRange, value, message);
        return None;
    }
    Some(bytes)
}

/// The address and port of a collector.
fn collector(reader: &mut Reader<'_>, value: Value<'_>) -> Option<SocketAddr> {
    let text = reader.string(value, "a collector's address and port, as in `192.0.2.1:4739`")?;
    let invalid = |message: String| Diagnostic::error(Code::InvalidAddress, text.span, message);
    let Ok(address) = text.value.parse::<SocketAddr>() else {
        let found = invalid(format!("`{}` is no address with a port", text.value));
        reader.report(match text.value.parse::<std::net::IpAddr>() {
            // The port of IPFIX over UDP (RFC 7011, 10.3.1).
            Ok(address) => found.help(format!("write `{}`", SocketAddr::new(address, 4739))),
            Err(_) => found.help("it looks like `192.0.2.1:4739` or `[2001:db8::1]:4739`"),
        });
        return None;
    };
    if address.port() == 0 || address.ip().is_unspecified() {
        reader.report(invalid(format!("nobody can be reached at `{address}`")));
        return None;
    }
    Some(address)
}
