//! `sav diff`: which sources get another verdict, written as it is found.

use std::io::{self, Write};

use serde::Serialize;

use crate::render::number::plural;
use crate::replay::validation::Rule;
use crate::sav_preview::diff::{Change, Interface, Sink, Totals, Why};

/// The name and version of its JSON.
pub const SCHEMA: &str = "weir.sav.diff/1";

/// The number of prefixes of a range that are listed; a range with more is given by its first and last address.
const IN_A_LINE: usize = 8;

/// As people read it.
pub struct Text<W> {
    out: W,
    /// Something has been written.
    any: bool,
    /// The head of an interface that nothing has changed of yet.
    head: Option<String>,
    changes: u64,
}

impl<W: Write> Text<W> {
    /// Writes to `out`; first, of interfaces that only one side has.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut out: W, alone: &[Vec<String>; 2]) -> io::Result<Text<W>> {
        for (names, side) in alone.iter().zip(["old", "new"]) {
            if !names.is_empty() {
                writeln!(out, "only in the {side} configuration, and not compared: {}", names.join(", "))?;
            }
        }
        Ok(Text { out, any: alone.iter().any(|names| !names.is_empty()), head: None, changes: 0 })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.changes == 0 {
            if self.any {
                writeln!(self.out)?;
            }
            writeln!(self.out, "no source gets another verdict")?;
        }
        self.out.flush()
    }

    fn write_head(&mut self) -> io::Result<()> {
        if let Some(head) = self.head.take() {
            if self.any {
                writeln!(self.out)?;
            }
            self.any = true;
            self.out.write_all(head.as_bytes())?;
        }
        Ok(())
    }
}

fn head(interface: &Interface) -> String {
    let policies = [&interface.old, &interface.new].map(|policy| match policy {
        Some(policy) => format!("{} ({}, {})", policy.name, policy.mechanism, policy.action),
        None => "no policy".to_owned(),
    });
    let [old, new] = policies;
    let mut text = format!("{} {}  {old} -> {new}\n", interface.interface, interface.family);
    for remark in &interface.remarks {
        text += &format!("  {remark}\n");
    }
    text
}

impl<W: Write> Sink for Text<W> {
    fn begin(&mut self, interface: &Interface) -> io::Result<()> {
        self.head = Some(head(interface));
        let policies = [&interface.old, &interface.new].map(|policy| policy.as_ref().map(|policy| policy.action));
        // What changes of more than sources is worth a head of its own.
        if policies[0] != policies[1] || !interface.remarks.is_empty() { self.write_head() } else { Ok(()) }
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.write_head()?;
        self.changes += 1;
        write!(self.out, "  {} -> {} ", change.old.name(), change.new.name())?;
        if change.prefixes.len() > IN_A_LINE {
            let Change { first, last, prefixes, .. } = change;
            writeln!(self.out, " {first} - {last} ({} prefixes)", prefixes.len())?;
        } else {
            change.prefixes.iter().try_for_each(|prefix| write!(self.out, " {prefix}"))?;
            writeln!(self.out)?;
        }
        for (why, side) in change.why.iter().flatten().zip(["old", "new"]) {
            match why {
                Why::Words(words) => writeln!(self.out, "    {side}  {words}")?,
                Why::Policy(validation) => {
                    writeln!(self.out, "    {side}  {}", validation.why)?;
                    for line in validation.by.iter().flat_map(Rule::lines) {
                        writeln!(self.out, "         {line}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        self.head = None;
        let totals: Vec<String> = totals
            .iter()
            .map(|(old, new, ranges)| format!("{} {} -> {}", plural(ranges, "range"), old.name(), new.name()))
            .collect();
        if totals.is_empty() { Ok(()) } else { writeln!(self.out, "  {}", totals.join(", ")) }
    }
}

/// As JSON: one object, written as it comes.
pub struct Json<W> {
    out: W,
    interfaces: u64,
    changes: u64,
}

#[derive(Serialize)]
struct Ways {
    old: &'static str,
    new: &'static str,
    ranges: u64,
}

impl<W: Write> Json<W> {
    /// Writes to `out`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut out: W, alone: &[Vec<String>; 2]) -> io::Result<Json<W>> {
        write!(out, "{{\"schema\":\"{SCHEMA}\",\"only-old\":")?;
        serde_json::to_writer(&mut out, &alone[0])?;
        out.write_all(b",\"only-new\":")?;
        serde_json::to_writer(&mut out, &alone[1])?;
        out.write_all(b",\"interfaces\":[")?;
        Ok(Json { out, interfaces: 0, changes: 0 })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"]}\n")?;
        self.out.flush()
    }
}

impl<W: Write> Sink for Json<W> {
    fn begin(&mut self, interface: &Interface) -> io::Result<()> {
        if self.interfaces > 0 {
            self.out.write_all(b",")?;
        }
        (self.interfaces, self.changes) = (self.interfaces + 1, 0);
        let object = serde_json::to_string(interface)?;
        // The changes are its last member.
        self.out.write_all(object.strip_suffix('}').unwrap_or(&object).as_bytes())?;
        self.out.write_all(b",\"changes\":[")
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        if self.changes > 0 {
            self.out.write_all(b",")?;
        }
        self.changes += 1;
        Ok(serde_json::to_writer(&mut self.out, change)?)
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        let totals = totals.iter().map(|(old, new, ranges)| Ways { old: old.name(), new: new.name(), ranges });
        let totals: Vec<Ways> = totals.collect();
        self.out.write_all(b"],\"totals\":")?;
        serde_json::to_writer(&mut self.out, &totals)?;
        self.out.write_all(b"}")
    }
}
