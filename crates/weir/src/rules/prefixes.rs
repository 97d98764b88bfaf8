//! A text of prefixes, one a line.

use ipnet::IpNet;

use super::findings::{Findings, Kind};
use super::prefix;
use super::text::{self, Line};
use super::words::{Problem, shown};

/// Reads a text of prefixes, one a line. Also returns warnings.
///
/// # Errors
/// If any prefix cannot be understood: the first of these places, and their number.
pub(crate) fn read(text: &str) -> Result<(Vec<Line<IpNet>>, Findings), Findings> {
    text::read(text, |line, sink| {
        let word = line.split('#').next().unwrap_or_default().trim_ascii_end();
        let place = 0..word.len();
        let (net, clean) = match prefix::parse(word) {
            Ok(read) => read,
            Err(help) => {
                let message = format!("`{}` is no prefix", shown(word));
                sink.error(place, Problem::new(Kind::Prefix, message).help(help));
                return None;
            }
        };
        if let Some(v4) = prefix::unmapped(net) {
            let message = format!("`{}`: no packet has an IPv4-mapped address", shown(word));
            sink.error(place, Problem::new(Kind::Prefix, message).help(format!("write `{v4}`")));
            return None;
        }
        if !clean {
            let message = format!("`{}` has bits set behind its length; it is taken as {net}", shown(word));
            sink.warning(place, Problem::new(Kind::HostBits, message).help(format!("write `{net}`")));
        }
        Some(net)
    })
}
