//! Whose capture is it? The hardware address of the machine that captured frames, as far as the frames say.
//!
//! A machine that does not listen to others captures what it sends and what it is sent: its address is in every unicast
//! frame, and those to it are what came in.

use std::path::Path;

use weir_packet::wire::MacAddress;
use weir_port::pcap::{CaptureError, Reader};

use super::merge::Taken;

/// Packets of a capture that are looked at, at most.
const LOOKED_AT: usize = 100_000;

/// The frames of a capture go to and fro between two stations: either may be the one that captured them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecided(pub(crate) [MacAddress; 2]);

/// Finds the station that unicast frames of a capture have to be sent to if they came in where they were captured: all
/// stations, where no station is in all frames.
///
/// # Errors
/// When the capture cannot be opened.
pub(crate) fn station(path: &Path) -> Result<Result<Taken, Undecided>, CaptureError> {
    let mut reader = Reader::open_cooked(path)?;
    // Addresses that are in every frame so far, and whether one was sent to them.
    let mut common: Option<Vec<([u8; 6], bool)>> = None;
    for _ in 0..LOOKED_AT {
        // The replay, which reads the whole file, reports the place of an error.
        let Ok(Some(record)) = reader.read() else { break };
        let Some((to, rest)) = record.frame.split_first_chunk::<6>() else { continue };
        let Some(from) = rest.first_chunk::<6>() else { continue };
        if record.sent.is_some() || to[0] & 1 != 0 {
            continue;
        }
        let common = common.get_or_insert_with(|| vec![(*to, false), (*from, false)]);
        common.retain_mut(|(station, is_sent_to)| {
            *is_sent_to |= station == to;
            station == to || station == from
        });
    }
    // Without a unicast frame there is nothing to take. A cooked capture says by itself what came in.
    let Some(common) = common else { return Ok(Ok(Taken::Own)) };
    let mut sent_to = common.iter().filter(|(_, is_sent_to)| *is_sent_to).map(|(station, _)| *station);
    Ok(match (sent_to.next(), sent_to.next()) {
        (Some(one), Some(other)) => Err(Undecided([MacAddress(one), MacAddress(other)])),
        (Some(station), None) => Ok(Taken::Station(station)),
        (None, _) => Ok(Taken::Any),
    })
}
