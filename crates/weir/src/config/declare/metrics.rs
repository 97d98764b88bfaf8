//! `[metrics]`.

use std::net::SocketAddr;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::metrics::{Detail, Listen, Metrics};
use super::super::source::Source;
use super::super::table::{Reader, Table, Value};

/// The keys of the table.
pub(super) const KEYS: &[&str] = &["listen", "detail"];

/// The octets of a Unix socket's path that the kernel takes at most (unix(7)).
const LONGEST_PATH: usize = 107;

/// Reads the table. `None` if it has errors.
pub(super) fn read(reader: &mut Reader<'_>, table: &Table<'_>, source: &Source) -> Option<Metrics> {
    let listen = reader.require(table, "listen").and_then(|value| listen(reader, value, source));
    let detail = table.get("detail").map_or(Detail::default(), |value| detail(reader, value));
    Some(Metrics { listen: listen?, detail })
}

/// `ADDRESS:PORT` or `unix:PATH`.
fn listen(reader: &mut Reader<'_>, value: Value<'_>, source: &Source) -> Option<Listen> {
    let text = reader.string(value, "an address with a port, or `unix:` and a path")?;
    let wrong = match text.value.strip_prefix("unix:") {
        Some("") => "`unix:` needs a path behind it".to_owned(),
        Some(path) if path.contains('\0') => "a path has no NUL".to_owned(),
        Some(path) => {
            let path = source.resolve(path);
            if path.as_os_str().len() <= LONGEST_PATH {
                return Some(Listen::Unix(path));
            }
            format!("the path of a Unix socket has {LONGEST_PATH} octets at most")
        }
        None => match text.value.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => "port 0 is no port that a collector could know".to_owned(),
            Ok(address) => {
                if !address.ip().is_loopback() {
                    let message =
                        format!("programs of other hosts can read all metrics at {address}, without a password");
                    let found = Diagnostic::warning(Code::OpenMetrics, text.span, message);
                    reader.report(found.help("use an address of the loopback, with a proxy in front for other hosts"));
                }
                return Some(Listen::Tcp(address));
            }
            Err(_) => format!("`{}` is no address with a port", text.value.escape_debug()),
        },
    };
    let wrong = Diagnostic::error(Code::InvalidValue, text.span, wrong);
    reader.report(wrong.help("write `127.0.0.1:9475`, `[::1]:9475` or `unix:/run/weir/metrics.sock`"));
    None
}

fn detail(reader: &mut Reader<'_>, value: Value<'_>) -> Detail {
    const RULES: Detail = Detail { rules: true, sas: false, prefixes: false };
    const SAS: Detail = Detail { rules: false, sas: true, prefixes: false };
    const PREFIXES: Detail = Detail { rules: false, sas: false, prefixes: true };
    const CHOICES: &[(&str, Detail)] = &[("rules", RULES), ("sas", SAS), ("prefixes", PREFIXES)];
    let some = reader.one_or_more(value).iter();
    let some: Vec<Detail> = some.filter_map(|value| reader.choice(value, "detail of metrics", CHOICES)).collect();
    Detail { rules: some.contains(&RULES), sas: some.contains(&SAS), prefixes: some.contains(&PREFIXES) }
}
