//! Sessions that begin and end, for watchers.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use weir_packet::wire::protocol::NAMES;
use weir_plane::engine::{SampleReader as Reader, endpoint};
use weir_plane::session_watch::{SessionEvent, SessionNews};
use weir_plane::translation_log::Ends;

use crate::events;
use crate::render::number::{self, plural};

/// Takes the sessions that the workers have noted, up to `limit` of each; returns how many there were.
pub(super) fn drain(reader: &mut Reader, limit: usize, batch: &mut Vec<SessionEvent>) -> usize {
    let read = reader.read_sessions(limit, |event| batch.push(event));
    for event in batch.drain(..) {
        events::publish_session(&event, || text(&event.news(), reader.interface(event.news().interface)));
    }
    let lost = reader.lost_sessions();
    if lost > 0 {
        events::lose_sessions(lost);
    }
    read
}

/// An address with its port or identifier, if it has one.
fn end(news: &SessionNews, (address, word): (IpAddr, u16)) -> String {
    match news.is_request {
        true => format!("{address} id {word}"),
        false => endpoint(address, news.has_ports.then_some(word)),
    }
}

/// An event in words, and its fields.
fn text(news: &SessionNews, interface: Option<Arc<str>>) -> (String, Vec<(&'static str, Value)>) {
    let SessionNews { ended, before, after, age, packets, octets, .. } = *news;
    let ends = |[source, destination]: Ends| [end(news, source), end(news, destination)];
    let kind = if after.is_some() { "translation" } else { "session" };
    let protocol = number::protocol(news.protocol);
    let [source, destination] = ends(before);
    let mut fields: Vec<(_, Value)> =
        vec![("type", kind.into()), ("change", if ended.is_some() { "ended" } else { "began" }.into())];
    let what = match ended {
        None => format!("{kind} began"),
        Some(why) => format!("{kind} ended ({why})"),
    };
    let word = if NAMES.name(news.protocol).is_none() { "protocol " } else { "" };
    let mut line = format!("{what}: {word}{protocol} {source} to {destination}");
    if let Some([source, destination]) = after.map(ends) {
        let _ = write!(line, " as {source} to {destination}");
        fields.extend([("translated-from", source.into()), ("translated-to", destination.into())]);
    }
    if let Some(interface) = interface {
        let _ = write!(line, " on {interface}");
        fields.push(("interface", Value::from(&*interface)));
    }
    fields.extend(
        [("protocol", protocol), ("from", source), ("to", destination)].map(|(name, text)| (name, text.into())),
    );
    if let Some(why) = ended {
        let counts = format!("{} ({} octets)", plural(packets[0], "packet"), octets[0]);
        let answers = format!("{} ({} octets)", plural(packets[1], "reply"), octets[1]);
        let shown = humantime::format_duration(Duration::from_millis(age.as_millis() as u64));
        let _ = write!(line, ", {counts}, {answers} in {shown}");
        // To the millisecond.
        let duration = age.as_millis() as f64 / 1000.0;
        fields.extend([("cause", why.into()), ("duration", duration.into())]);
        fields.extend([("packets", packets[0]), ("octets", octets[0])].map(|(name, count)| (name, count.into())));
        let replies = [("reply-packets", packets[1]), ("reply-octets", octets[1])];
        fields.extend(replies.map(|(name, count)| (name, count.into())));
    }
    (line, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_and_how_much() {
        let at = |address: &str, port| (address.parse().unwrap(), port);
        let began = SessionNews {
            ended: None,
            protocol: 6,
            has_ports: true,
            is_request: false,
            interface: 1,
            before: [at("10.0.0.5", 4000), at("2001:db8::9", 443)],
            after: None,
            age: Duration::ZERO,
            packets: [0; 2],
            octets: [0; 2],
        };
        let line = |news: SessionNews| text(&news, Some("lan".into())).0;
        assert_eq!(line(began), "session began: tcp 10.0.0.5:4000 to [2001:db8::9]:443 on lan");
        let (age, packets, octets) = (Duration::from_micros(61_500_100), [12, 1], [1200, 90]);
        let ended = SessionNews { ended: Some("expired"), age, packets, octets, ..began };
        assert_eq!(
            line(ended),
            "session ended (expired): tcp 10.0.0.5:4000 to [2001:db8::9]:443 on lan, \
             12 packets (1200 octets), 1 reply (90 octets) in 1m 1s 500ms"
        );
        let ping = [at("10.0.0.5", 7), at("198.51.100.9", 7)];
        let out = [at("192.0.2.1", 9), at("198.51.100.9", 9)];
        let ping = SessionNews { protocol: 1, has_ports: false, is_request: true, before: ping, ..began };
        assert_eq!(
            line(SessionNews { after: Some(out), ..ping }),
            "translation began: icmp 10.0.0.5 id 7 to 198.51.100.9 id 7 as 192.0.2.1 id 9 to 198.51.100.9 id 9 on lan"
        );
        let other = SessionNews { protocol: 253, has_ports: false, ..began };
        assert_eq!(line(other), "session began: protocol 253 10.0.0.5 to 2001:db8::9 on lan");
        let (_, fields) = text(&ended, None);
        for field in [
            ("change", "ended".into()),
            ("cause", "expired".into()),
            ("reply-packets", 1.into()),
            ("duration", 61.5.into()),
            ("from", "10.0.0.5:4000".into()),
        ] {
            assert!(fields.contains(&field), "{field:?} in {fields:?}");
        }
    }
}
