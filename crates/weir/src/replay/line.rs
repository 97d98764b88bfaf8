//! The verdict on a packet, on one line.

use std::fmt;

use serde::Serialize;

use super::access::{Allowed, Bound, Filter, Fragment};
use super::bridge::Bridged;
use super::classify::Classified;
use super::fast_path::FastPath;
use super::nat::Translated;
use super::sa::Association;
use super::spd::PolicyMatch;
use super::steer::Steered;
use super::tunnel::Passed;
use super::validation::Validation;

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
    /// The punt device that it went to the host by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The decision about its source; `None` if it was not validated.
    pub sav: Option<Validation>,
    /// The decision of bindings about the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Bound>,
    /// The treatment as a fragment by access lists, if a rule matches fields that only first fragments have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<Fragment>,
    /// The decisions of access lists, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acl: Vec<Filter>,
    /// The verdicts of the interface's allowlists on its source, up to the one that refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowed>,
    /// The decisions of classifier tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classify: Vec<Classified>,
    /// The effects of rules that translate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nat: Vec<Translated>,
    /// The steer rules that it matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steer: Vec<Steered>,
    /// The policies of SPDs that it matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spd: Vec<PolicyMatch>,
    /// The SAs that encrypted or decrypted it, or refused to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sa: Vec<Association>,
    /// The tunnels that it was put into or taken out of, or that refused it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<Passed>,
    /// The bridges that it came to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<Bridged>,
    /// Whether its flow was learned, or why not; `None` where no flows are learned.
    #[serde(rename = "fast-path", skip_serializing_if = "Option::is_none")]
    pub fast_path: Option<FastPath>,
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
        if let Some(device) = &self.host {
            write!(f, "  host {device}")?;
        }
        if let Some(by) = &self.by {
            write!(f, "  by {by}")?;
        }
        for steer in &self.steer {
            write!(f, "  steer {steer}")?;
        }
        for classified in &self.classify {
            write!(f, "  classify {classified}")?;
        }
        for nat in &self.nat {
            write!(f, "  nat {nat}")?;
        }
        for spd in &self.spd {
            write!(f, "  spd {spd}")?;
        }
        for sa in &self.sa {
            write!(f, "  sa {sa}")?;
        }
        for tunnel in &self.tunnels {
            write!(f, "  tunnel {tunnel}")?;
        }
        for bridge in &self.bridges {
            write!(f, "  bridge {bridge}")?;
        }
        let Some(sav) = &self.sav else { return Ok(()) };
        let refused = self.reason.is_some_and(|reason| reason.starts_with("sav-"));
        if sav.verdict == "exempt" || sav.verdict == "invalid" && !refused {
            write!(f, "  sav {} {}", sav.policy, sav.verdict)?;
            if let Some(by) = sav.by.first() {
                write!(f, " by {}", by.whence())?;
            }
        }
        match &sav.nearest {
            Some(nearest) => write!(f, "  nearest {}", nearest.rule.whence()),
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
    use super::super::validation::{Nearest, Rule};
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
            host: None,
            sav: None,
            bindings: None,
            fragments: Vec::new(),
            acl: Vec::new(),
            allow: Vec::new(),
            classify: Vec::new(),
            nat: Vec::new(),
            steer: Vec::new(),
            spd: Vec::new(),
            sa: Vec::new(),
            tunnels: Vec::new(),
            bridges: Vec::new(),
            fast_path: None,
            time: "T".into(),
            packet: "P",
        };
        assert_eq!(line.to_string(), "7 wan T P -> forward lan,dmz  by edge.toml:12");
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"n":7,"in":"wan","verdict":"forward","out":["lan","dmz"],"reason":null,"by":"edge.toml:12","answer":[],"sav":null,"time":"T","packet":"P"}"#
        );
        line =
            Line { verdict: "drop", reason: Some("ttl-expired"), by: None, out: vec![], answer: vec!["wan"], ..line };
        assert_eq!(line.to_string(), "7 wan T P -> drop ttl-expired  answer wan");
        line = Line { verdict: "local", reason: None, answer: vec![], host: Some("wan-host".into()), ..line };
        assert_eq!(line.to_string(), "7 wan T P -> local  host wan-host");
        assert_eq!(serde_json::to_value(&line).unwrap()["host"], "wan-host");
    }

    #[test]
    fn policies_and_sas_are_named() {
        let rule =
            |place: &str| Rule { rule: "R".into(), place: Some(place.into()), text: None, said_by: None, time: None };
        let secured = |direction, effect| PolicyMatch { spd: "edge".into(), direction, effect, by: rule("a:7") };
        let sa =
            |direction, effect| Association { name: "east".into(), direction, effect, spi: Some(0x1001), by: None };
        let mut line = Line {
            n: 1,
            input: "lan",
            verdict: "forward",
            out: vec!["wan"],
            reason: None,
            by: Some("r:9".into()),
            answer: Vec::new(),
            host: None,
            sav: None,
            bindings: None,
            fragments: Vec::new(),
            acl: Vec::new(),
            allow: Vec::new(),
            classify: Vec::new(),
            nat: Vec::new(),
            steer: vec![],
            spd: vec![secured("out", "protected")],
            sa: vec![sa("out", "encrypted")],
            tunnels: Vec::new(),
            bridges: Vec::new(),
            fast_path: None,
            time: "T".into(),
            packet: "P",
        };
        let text = "1 lan T P -> forward wan  by r:9  spd edge out protected by a:7  sa east encrypted spi 0x1001";
        assert_eq!(line.to_string(), text);
        let json = serde_json::to_value(&line).unwrap();
        assert_eq!((&json["sa"][0]["name"], &json["sa"][0]["spi"]), (&"east".into(), &4097.into()));
        line = Line {
            verdict: "drop",
            reason: Some("esp-auth"),
            out: vec![],
            steer: vec![],
            spd: vec![],
            sa: vec![sa("in", "refused")],
            ..line
        };
        assert_eq!(line.to_string(), "1 lan T P -> drop esp-auth  by r:9  sa east refused spi 0x1001");
    }

    #[test]
    fn what_was_not_valid_says_so_even_where_it_goes_on() {
        let rule =
            |place: &str| Rule { rule: "R".into(), place: Some(place.into()), text: None, said_by: None, time: None };
        let sav = Validation {
            policy: "edge".into(),
            mechanism: "table",
            interface: "wan".into(),
            source: "10.0.0.1".parse().unwrap(),
            verdict: "invalid",
            passes: true,
            action: "permit",
            why: "W".into(),
            by: vec![rule("a:1")],
            nearest: Some(Nearest { rule: rule("b:2"), why: "N".into() }),
        };
        let mut line = Line {
            n: 1,
            input: "wan",
            verdict: "forward",
            out: vec!["lan"],
            reason: None,
            by: Some("r:9".into()),
            answer: Vec::new(),
            host: None,
            sav: Some(sav.clone()),
            bindings: None,
            fragments: Vec::new(),
            acl: Vec::new(),
            allow: Vec::new(),
            classify: Vec::new(),
            nat: Vec::new(),
            steer: Vec::new(),
            spd: Vec::new(),
            sa: Vec::new(),
            tunnels: Vec::new(),
            bridges: Vec::new(),
            fast_path: None,
            time: "T".into(),
            packet: "P",
        };
        assert_eq!(line.to_string(), "1 wan T P -> forward lan  by r:9  sav edge invalid by a:1  nearest b:2");
        let json = serde_json::to_value(&line).unwrap();
        assert_eq!(json["sav"]["by"][0]["place"], "a:1");
        assert_eq!((&json["sav"]["nearest"]["place"], &json["sav"]["nearest"]["why"]), (&"b:2".into(), &"N".into()));
        line = Line {
            verdict: "drop",
            reason: Some("sav-table"),
            by: Some("a:1".into()),
            out: vec![],
            sav: Some(Validation { passes: false, ..sav.clone() }),
            ..line
        };
        assert_eq!(line.to_string(), "1 wan T P -> drop sav-table  by a:1  nearest b:2");
        line.sav = Some(Validation { verdict: "valid", nearest: None, ..sav.clone() });
        assert_eq!(line.to_string(), "1 wan T P -> drop sav-table  by a:1");
        (line.verdict, line.reason, line.by) = ("forward", None, Some("r:9".into()));
        line.sav = Some(Validation { verdict: "exempt", nearest: None, ..sav });
        assert_eq!(line.to_string(), "1 wan T P -> forward  by r:9  sav edge exempt by a:1");
    }

    #[test]
    fn interfaces_are_named_once() {
        let all = ["a".to_owned(), "b".to_owned()];
        assert_eq!(names(&[1, 1, 0, 1, 9], &all), ["b", "a", "?"]);
    }
}
