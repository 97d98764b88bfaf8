//! `weir capture`: packets of a running gateway, into a file.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::target;
use crate::control::CaptureRequest;
use crate::control::client::ClientError;
use crate::render;
use crate::render::captures::{Captures, Direction, Row};
use crate::render::number::plural;

/// Captures packets of a running gateway as they come in and leave, until Ctrl-C or a limit
#[derive(Debug, Args)]
pub struct Capture {
    #[command(flatten)]
    connection: Connection,
    /// The file, in the pcapng format; `-`: standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Only packets that this filter matches: a rule of an access list without its action, such as `tcp to any port 443`
    #[arg(long = "match", value_name = "FILTER")]
    filter: Option<String>,
    /// Only packets of this interface
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,
    /// Only packets of this direction
    #[arg(long, value_enum, value_name = "DIRECTION")]
    direction: Option<Direction>,
    /// Ends after so many packets [default: 10000]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Ends after so many seconds
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Octets of each packet, at most [default: 2048]
    #[arg(long, value_name = "OCTETS")]
    snap: Option<usize>,
    /// Packets per second, at most [default: 10000]
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Write the counts as JSON
    #[arg(long)]
    json: bool,
}

impl Capture {
    pub(super) fn run(self) -> Result<(), Error> {
        let Capture { connection, out, filter, interface, direction, count, duration, snap, rate, json } = self;
        let request = CaptureRequest { filter, interface, direction, count, duration, snap, rate };
        request.check().map_err(Error::Usage)?;
        let to_stdout = out.as_os_str() == "-";
        if to_stdout && json {
            return Err(Error::Usage("`--json` and `--out -` would both write to standard output".to_owned()));
        }
        let client = connection.client();
        let direction = request.direction.map(|direction| match direction {
            Direction::In => "in".to_owned(),
            Direction::Out => "out".to_owned(),
        });
        let target = target(
            "/v1/capture",
            [
                ("match", request.filter),
                ("interface", request.interface),
                ("direction", direction),
                ("count", request.count.map(|own| own.to_string())),
                ("duration", request.duration.map(|own| own.to_string())),
                ("snap", request.snap.map(|own| own.to_string())),
                ("rate", request.rate.map(|own| own.to_string())),
            ],
        );
        let mut sink: Option<Box<dyn Write>> = None;
        let number = client.stream(&target, |octets| {
            // Only a capture that has begun takes the place of a file.
            let sink = match &mut sink {
                Some(sink) => sink,
                None if to_stdout => sink.insert(Box::new(io::stdout())),
                None => sink.insert(Box::new(weir_base::file::replace(&out).map_err(|error| failed(&out, &error))?)),
            };
            let written = sink.write_all(octets).and_then(|()| sink.flush());
            written.map_err(|error| match error.kind() {
                ErrorKind::BrokenPipe if to_stdout => Error::Closed,
                _ => failed(&out, &error),
            })
        })?;
        let (captures, _) = match client.show::<Captures>("/v1/show/captures") {
            Err(ClientError::NoGateway { .. }) => {
                let name = name(&out);
                return Err(Error::Failed(format!(
                    "the gateway ended during the capture; {name} has the packets until then"
                )));
            }
            shown => shown?,
        };
        let Some(row) = captures.captures.into_iter().find(|row| row.number == number) else { return Ok(()) };
        if json {
            return print(&(render::json(&Captures { captures: vec![row] }) + "\n"));
        }
        // The packets are written, even if nobody reads this.
        let _ = writeln!(io::stderr(), "{}", summary(&row, &out));
        Ok(())
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Failed(format!("{}: {error}", path.display()))
}

fn name(out: &Path) -> String {
    if out.as_os_str() == "-" { "standard output".to_owned() } else { out.display().to_string() }
}

/// The counts of a capture, in a sentence.
fn summary(row: &Row, out: &Path) -> String {
    let mut text = format!("captured {} in {}", plural(row.packets, "packet"), name(out));
    if row.over_rate > 0 {
        text.push_str(&format!("; {} not copied because of --rate", row.over_rate));
    }
    if row.no_room > 0 {
        text.push_str(&format!("; {} not copied as no buffer was free", row.no_room));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::captures::State;

    #[test]
    fn what_is_missing_is_said() {
        let row = |no_room, over_rate| Row {
            number: 1,
            state: State::Ended,
            filter: None,
            interface: None,
            direction: None,
            packets: 1,
            matched: 9,
            no_room,
            over_rate,
        };
        let said = |no_room, over_rate| summary(&row(no_room, over_rate), Path::new("a.pcapng"));
        assert_eq!(said(0, 0), "captured 1 packet in a.pcapng");
        assert_eq!(
            said(3, 2),
            "captured 1 packet in a.pcapng; 2 not copied because of --rate; 3 not copied as no buffer was free"
        );
    }
}
