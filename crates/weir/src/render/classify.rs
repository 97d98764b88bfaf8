//! `show classify`: classifier tables, or the sessions of one.

use serde::{Deserialize, Serialize};
use weir_plane::model::Gateway;
use weir_plane::stats::ClassifyStats;

use super::Report;
use super::number::octets;
use super::table::{Align, Table as Text};
use crate::rules::classify::{Session as Written, parse_mask};

/// Classifier tables, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classify {
    /// Each table.
    pub tables: Vec<Table>,
}

/// A classifier table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its mask.
    pub mask: String,
    /// Sessions.
    pub sessions: u64,
    /// Sessions at most.
    pub size: u64,
    /// Octets of memory.
    pub bytes: u64,
    /// Interfaces whose ingress begins with it.
    pub input: Vec<String>,
    /// Interfaces whose egress begins with it.
    pub output: Vec<String>,
    /// The table for packets that match no session.
    pub next: Option<String>,
    /// Without a next table: `permit` or `deny`.
    pub miss: Option<String>,
    /// Packets that matched a session.
    pub matched: u64,
    /// Packets that matched none, where there is no next table.
    pub missed: u64,
    /// Where it was declared.
    pub origin: String,
    /// Its sessions, if it is shown alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<Vec<Session>>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Session {
    /// Itself.
    pub session: String,
    /// Packets that matched it.
    pub packets: u64,
    /// Octets from the header of IP on.
    pub bytes: u64,
    /// Seconds since the last packet; `None`: none came.
    pub idle: Option<f64>,
    /// The number of who made it.
    pub opaque: u32,
    /// Where it was declared.
    pub origin: String,
}

impl Classify {
    /// The tables of a gateway. `rows`: with so many of their sessions at most.
    pub fn new(model: &Gateway, tables: Vec<ClassifyStats>, rows: Option<usize>) -> Classify {
        let table = |of: ClassifyStats| {
            let ClassifyStats { table, input, output, next, counted, now, origin } = of;
            let miss = if table.permits_misses { "permit" } else { "deny" };
            let rows = rows.map(|most| {
                // The text of a mask was printed by a mask.
                let mask = parse_mask(&table.text).ok().map(|(mask, _)| mask);
                let row = |(session, count): (&_, &weir_plane::stats::ClassifyCount)| {
                    let written = Written::of(model, &table, session);
                    Session {
                        session: mask.as_ref().map_or_else(String::new, |mask| written.text(mask)),
                        packets: count.packets,
                        bytes: count.octets,
                        idle: count.last.map(|last| now.saturating_sub(last) as f64 / 1e9),
                        opaque: session.opaque,
                        origin: model.origins.place(session.origin).map_or_else(String::new, |place| place.to_string()),
                    }
                };
                table.sessions.iter().zip(&counted.sessions).take(most).map(row).collect()
            });
            Table {
                name: table.name.clone(),
                mask: table.text.to_string(),
                sessions: table.sessions.len() as u64,
                size: table.size.into(),
                bytes: counted.octets as u64,
                input,
                output,
                miss: next.is_none().then(|| miss.to_owned()),
                next,
                matched: counted.sessions.iter().map(|session| session.packets).sum(),
                missed: counted.missed,
                origin,
                rows,
            }
        };
        Classify { tables: tables.into_iter().map(table).collect() }
    }
}

impl Report for Classify {
    const SCHEMA: &'static str = "weir.show.classify/1";

    fn text(&self) -> String {
        if self.tables.is_empty() {
            return "there are no classifier tables\n".to_owned();
        }
        let right = ["Sessions", "Size", "Memory", "Matched", "Unmatched", "Packets", "Octets", "Idle"];
        let columns = |names: &[&'static str]| {
            let align = |name: &&'static str| if right.contains(name) { Align::Right } else { Align::Left };
            names.iter().map(|name| (*name, align(name))).collect::<Vec<_>>()
        };
        let names =
            ["Table", "Mask", "Sessions", "Size", "Memory", "Matched", "Unmatched", "Miss", "In", "Out", "Declared"];
        let mut text = Text::new(&columns(&names));
        for of in self.tables.clone() {
            // The next table counts packets that match no session here.
            let (unmatched, miss) = match (&of.next, of.miss) {
                (Some(next), _) => (String::new(), format!("next {next}")),
                (None, miss) => (of.missed.to_string(), miss.unwrap_or_default()),
            };
            text.row([
                of.name,
                of.mask,
                of.sessions.to_string(),
                of.size.to_string(),
                octets(of.bytes),
                of.matched.to_string(),
                unmatched,
                miss,
                of.input.join(","),
                of.output.join(","),
                of.origin,
            ]);
        }
        let mut all = text.text();
        for of in &self.tables {
            let Some(rows) = &of.rows else { continue };
            let mut text = Text::new(&columns(&["Session", "Packets", "Octets", "Idle", "Declared"]));
            for row in rows.clone() {
                let idle = row.idle.map_or_else(String::new, |idle| format!("{idle:.1}s"));
                text.row([row.session, row.packets.to_string(), row.bytes.to_string(), idle, row.origin]);
            }
            all.push('\n');
            all.push_str(&text.text());
            let left = of.sessions.saturating_sub(rows.len() as u64);
            if left > 0 {
                all.push_str(&format!("… and {left} more (--limit)\n"));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_table_and_one_a_session() {
        let tables = sample::classify();
        assert_eq!(
            tables.text(),
            "\
Table  Mask                 Sessions  Size    Memory  Matched  Unmatched  Miss    In   Out  Declared
edge   l3 ip4 src/24 proto         3  1024  2.00 KiB       17          4  permit  wan  -    edge.toml:50

Session                          Packets  Octets  Idle  Declared
src 192.0.2.0 proto udp deny          17    1700  2.5s  edge.toml:52
src 198.51.100.0 proto 6 permit        0       0     -  edge.toml:53
… and 1 more (--limit)
"
        );
        assert_eq!(read::<Classify>(&json(&tables)).unwrap(), tables);
        // In a chain, the last table alone counts them.
        let mut chained = tables.clone();
        (chained.tables[0].next, chained.tables[0].missed) = (Some("all".into()), 0);
        assert!(chained.text().contains("       17          -  next all  wan  "), "{}", chained.text());
        assert_eq!(Classify { tables: vec![] }.text(), "there are no classifier tables\n");
    }
}
