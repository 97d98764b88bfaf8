//! The changes of a reload.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Report;
use super::history::awaited;
use super::number::plural;
use crate::config::Loaded;

/// The outcome of a reload that succeeded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reloaded {
    /// The generation that runs now.
    pub generation: u64,
    /// Added objects, in words.
    pub added: Vec<String>,
    /// Removed objects.
    pub removed: Vec<String>,
    /// Changed objects.
    pub changed: Vec<String>,
    /// Changes that were made while the gateway ran, and that ended because the configuration says something else now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Translations that ended, as the rules give them other addresses now, or none.
    #[serde(default, skip_serializing_if = "super::acl::changed::is_zero")]
    pub translations: usize,
    /// Learned bindings that ended: their lists do not learn any more, or their interfaces are gone.
    #[serde(default, skip_serializing_if = "super::acl::changed::is_zero")]
    pub bindings: usize,
    /// Loops of bridges that the devices of this host make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<String>,
    /// When the gateway goes back unless the reload is confirmed, in seconds of the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_by: Option<u64>,
    /// Routes now.
    pub routes: usize,
    /// Routes before.
    pub routes_before: usize,
    /// Warnings about the configuration, when there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Findings>,
}

/// Changes that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The object of the live edits: `acl edge-in`, `group servers`.
    pub of: String,
    /// Rules that had come and are gone.
    pub rules: usize,
    /// The first live edits that ended, with their reasons; empty if all of them ended because the object was declared
    /// differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// How many parts there are beside these.
    #[serde(default, skip_serializing_if = "super::acl::changed::is_zero")]
    pub more: usize,
}

/// The findings in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// As `weir check` prints it.
    pub text: String,
    /// As `weir check --json` prints it.
    pub check: Box<RawValue>,
}

impl Findings {
    /// Of a configuration; `None` when nothing was found.
    pub fn of(loaded: &Loaded) -> Option<Findings> {
        if loaded.diagnostics.is_empty() {
            return None;
        }
        // What was printed as JSON is JSON.
        let check = RawValue::from_string(loaded.json()).ok()?;
        Some(Findings { text: loaded.text(false), check })
    }
}

impl Reloaded {
    /// The outcome in a few words, for the log.
    pub fn brief(&self) -> String {
        let routes = plural(self.routes as u64, "route");
        let ended = match self.translations {
            0 => String::new(),
            ended => format!(", {} ended", plural(ended as u64, "translation")),
        };
        format!("generation {}, {routes}{ended}", self.generation)
    }
}

impl Report for Reloaded {
    const SCHEMA: &'static str = "weir.reload/1";

    /// Formats the report without warnings, which are not part of the requested output.
    fn text(&self) -> String {
        let mut text = String::new();
        let _ =
            writeln!(text, "generation {}, routes {} (before: {})", self.generation, self.routes, self.routes_before);
        for (sign, lines) in [('+', &self.added), ('-', &self.removed), ('~', &self.changed)] {
            for line in lines {
                let _ = writeln!(text, "{sign} {line}");
            }
        }
        for line in self.lost.iter().flat_map(Lost::lines) {
            let _ = writeln!(text, "! {line}");
        }
        if self.translations > 0 {
            let _ = writeln!(text, "! {} ended", plural(self.translations as u64, "translation"));
        }
        if self.bindings > 0 {
            let _ = writeln!(text, "! {} ended", plural(self.bindings as u64, "learned binding"));
        }
        for line in &self.loops {
            let _ = writeln!(text, "! {line}");
        }
        if let Some(by) = self.confirm_by {
            let _ = writeln!(text, "{}", awaited(by));
        }
        text
    }
}

impl Lost {
    /// In lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Lost { of, rules, parts, more } = self;
        if parts.is_empty() {
            let gone = match rules {
                0 => String::new(),
                rules => format!(", among them {}", plural(*rules as u64, "rule")),
            };
            return vec![format!("{of}: the configuration declares it anew; its live edits are lost{gone}")];
        }
        let more = (*more > 0).then(|| format!("{of}: and {more} more rule{}", if *more == 1 { "" } else { "s" }));
        parts.iter().map(|part| format!("{of}: {part}")).chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_a_change() {
        let nothing = Reloaded { generation: 2, routes: 5, routes_before: 5, ..Default::default() };
        assert_eq!(nothing.text(), "generation 2, routes 5 (before: 5)\n");
        assert_eq!(nothing.brief(), "generation 2, 5 routes");
        let reloaded = Reloaded {
            generation: 3,
            added: vec!["interface lan".into()],
            removed: vec!["interface dmz".into()],
            changed: vec!["interface wan".into()],
            translations: 2,
            bindings: 3,
            loops: vec!["bridge lan: frames circle".into()],
            lost: vec![
                Lost { of: "acl edge-in".into(), rules: 3, ..Lost::default() },
                Lost { of: "group web".into(), ..Lost::default() },
                Lost { of: "acl spare".into(), rules: 2, parts: vec!["rule 7 is gone".into()], more: 1 },
            ],
            ..Default::default()
        };
        let text = "\
generation 3, routes 0 (before: 0)
+ interface lan
- interface dmz
~ interface wan
! acl edge-in: the configuration declares it anew; its live edits are lost, among them 3 rules
! group web: the configuration declares it anew; its live edits are lost
! acl spare: rule 7 is gone
! acl spare: and 1 more rule
! 2 translations ended
! 3 learned bindings ended
! bridge lan: frames circle
";
        assert_eq!(reloaded.text(), text);
        assert_eq!(reloaded.brief(), "generation 3, 0 routes, 2 translations ended");
        assert_eq!(read::<Reloaded>(&json(&reloaded)).unwrap().text(), text);
    }

    #[test]
    fn warnings_are_carried_both_ways() {
        let loaded = crate::config::parse_str("edge.toml", "version = 1\n");
        assert!(loaded.gateway.is_some() && !loaded.diagnostics.is_empty());
        let reloaded = Reloaded { warnings: Findings::of(&loaded), ..Default::default() };
        let read = read::<Reloaded>(&json(&reloaded)).unwrap().warnings.unwrap();
        assert_eq!(read.text, loaded.text(false));
        assert_eq!(read.check.get(), loaded.json());
    }
}
