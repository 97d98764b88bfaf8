//! What became of one packet, on one line.

use std::fmt;

use serde::Serialize;

/// A packet's fate, as text ([`fmt::Display`]) and as JSON ([`Serialize`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line<'a> {
    /// The packet's number, from 1.
    pub n: u64,
    /// The interface whose port it came in by.
    #[serde(rename = "in")]
    pub input: &'a str,
    /// `forward`, `drop`, `local` or `held`.
    pub verdict: &'static str,
    /// The interfaces that it left by, each once.
    pub out: Vec<&'a str>,
    /// Why it was dropped.
    pub reason: Option<&'static str>,
    /// The line of the configuration that decided; `None` when weir itself did.
    pub by: Option<String>,
    /// The interfaces that answers to it left by, each once: ICMP errors, echo replies.
    pub answer: Vec<&'a str>,
    /// Its timestamp.
    pub time: String,
    /// The packet, as it came in.
    pub packet: &'a str,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { n, input, verdict, time, packet, .. } = self;
        write!(f, "{n} {input} {time} {packet} -> {verdict}")?;
        if let Some(reason) = self.reason {
            write!(f, " {reason}")?;
        }
        list(f, " ", &self.out)?;
        list(f, "  answer ", &self.answer)?;
        match &self.by {
            Some(by) => write!(f, "  by {by}"),
            None => Ok(()),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, before: &str, names: &[&str]) -> fmt::Result {
    if names.is_empty() { Ok(()) } else { write!(f, "{before}{}", names.join(",")) }
}

/// The names of interfaces, each once, in the order of their first use.
pub(super) fn names<'a>(numbers: &[u32], names: &'a [String]) -> Vec<&'a str> {
    let mut used: Vec<&str> = Vec::new();
    for &number in numbers {
        let name = names.get(number as usize).map_or("?", String::as_str);
        if !used.contains(&name) {
            used.push(name);
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_the_same() {
        let mut line = Line {
            n: 7,
            input: "wan",
            verdict: "forward",
            out: vec!["lan", "dmz"],
            reason: None,
            by: Some("edge.toml:12".into()),
            answer: Vec::new(),
            time: "T".into(),
            packet: "P",
        };
        assert_eq!(line.to_string(), "7 wan T P -> forward lan,dmz  by edge.toml:12");
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"n":7,"in":"wan","verdict":"forward","out":["lan","dmz"],"reason":null,"by":"edge.toml:12","answer":[],"time":"T","packet":"P"}"#
        );
        line =
            Line { verdict: "drop", reason: Some("ttl-expired"), by: None, out: vec![], answer: vec!["wan"], ..line };
        assert_eq!(line.to_string(), "7 wan T P -> drop ttl-expired  answer wan");
    }

    #[test]
    fn interfaces_are_named_once() {
        let all = ["a".to_owned(), "b".to_owned()];
        assert_eq!(names(&[1, 1, 0, 1, 9], &all), ["b", "a", "?"]);
    }
}
