//! The tables that were changed, and their changes.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_plane::model::{ClassifySession, ClassifyTable, Gateway, Origin};

use super::super::lists::Said;
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::action::action;
use crate::render::changes::{Edit, Kind as EditKind};
use crate::render::classify::Classify;
use crate::render::classify_changed::Changed;
use crate::render::reloaded::Lost;
use crate::render::remark::Remark;
use crate::rules::Findings;
use crate::rules::classify::{Mask, Session, parse_mask, parse_session, parse_value, written};
use crate::saved::TableEdit;
use crate::suggest::closest;

/// Sessions of a table that are gone after a reload and reported one by one, at most.
const MOST_PARTS: usize = 20;

/// The tables that were changed while the gateway ran, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables(BTreeMap<String, Edited>);

/// The changes of a table.
#[derive(Debug, Clone)]
struct Edited {
    /// The table as the configuration declares it.
    declared: ClassifyTable,
    /// Live sessions by their values.
    added: BTreeMap<Vec<u8>, (Session, Said)>,
    /// Sessions of the configuration that are gone, in words.
    removed: BTreeMap<Vec<u8>, (String, Said)>,
}

fn mask_of(table: &ClassifyTable) -> Mask {
    // The text of a table's mask was printed by a mask.
    parse_mask(&table.text).map(|(mask, _)| mask).unwrap_or_else(|wrong| unreachable!("a mask in force: {wrong}"))
}

impl Tables {
    /// Adds sessions, one a line, on a copy; a session of the same value goes. Returns the gateway with the changed table, the
    /// tables, and the outcome.
    pub(crate) fn add(
        &self,
        gateway: &Gateway,
        table: &str,
        said: &Said,
        text: &str,
    ) -> Result<(Gateway, Tables, Changed), Box<Refusal>> {
        let (at, mut edited) = self.edited(gateway, table)?;
        let mask = mask_of(&edited.declared);
        let sessions = lines(text, |line| {
            let session = parse_session(line, &mask)?.0;
            Ok((session.value.clone(), session))
        })?;
        let mut wrong = Remarks::default();
        for (line, (_, session)) in &sessions {
            if let Err(message) = action(gateway, &edited.declared, session) {
                wrong.push(|| Remark { line: Some(*line), message, ..Remark::default() });
            }
        }
        if !wrong.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, wrong).into());
        }
        let before: HashSet<&[u8]> = gateway.classify[at].sessions.iter().map(|session| &*session.value).collect();
        let (mut added, mut replaced) = (0, 0);
        for (_, (value, session)) in sessions {
            let is_there = edited.added.contains_key(&value) || before.contains(value.as_slice());
            *(if is_there { &mut replaced } else { &mut added }) += 1;
            edited.removed.remove(&value);
            edited.added.insert(value, (session, said.clone()));
        }
        // A session that the configuration has as well is no edit, however it names the interface of a next hop.
        edited.end_saved(gateway);
        self.put_back(gateway, (at, edited), said, (added, replaced, 0))
    }

    /// Deletes sessions by their values, one a line, likewise.
    pub(crate) fn delete(
        &self,
        gateway: &Gateway,
        table: &str,
        said: &Said,
        text: &str,
    ) -> Result<(Gateway, Tables, Changed), Box<Refusal>> {
        let (at, mut edited) = self.edited(gateway, table)?;
        let mask = mask_of(&edited.declared);
        let values = lines(text, |line| Ok((parse_value(line, &mask)?, ())))?;
        let in_force: HashMap<&[u8], &ClassifySession> =
            gateway.classify[at].sessions.iter().map(|session| (&*session.value, session)).collect();
        let declared: HashMap<&[u8], String> = edited
            .declared
            .sessions
            .iter()
            .map(|session| (&*session.value, written(gateway, &edited.declared, session)))
            .collect();
        let mut absent = Remarks::default();
        let (mut removed, mut deleted) = (Vec::new(), 0);
        for (line, (value, ())) in values {
            if !in_force.contains_key(value.as_slice()) {
                let message = format!("the table `{table}` has no such session");
                absent.push(|| Remark { line: Some(line), message, ..Remark::default() });
                continue;
            }
            deleted += 1;
            removed.push((declared.get(value.as_slice()).cloned(), value));
        }
        if !absent.is_empty() {
            return Err(Refusal::of_rules(Kind::Conflict, absent).into());
        }
        for (words, value) in removed {
            edited.added.remove(&value);
            if let Some(words) = words {
                edited.removed.insert(value, (words, said.clone()));
            }
        }
        self.put_back(gateway, (at, edited), said, (0, 0, deleted))
    }

    fn edited(&self, gateway: &Gateway, table: &str) -> Result<(usize, Edited), Box<Refusal>> {
        let Some(at) = gateway.classify.iter().position(|known| known.name == table) else {
            let lists: Vec<String> = gateway.classify.iter().map(|table| table.name.clone()).collect();
            let help = match closest(table, &lists) {
                Some(name) => format!("did you mean `{name}`?"),
                None if lists.is_empty() => "there is none".to_owned(),
                None => format!("there are {}", lists.join(", ")),
            };
            let message = format!("there is no classifier table `{table}`; {help}");
            return Err(Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }.into());
        };
        let fresh =
            || Edited { declared: gateway.classify[at].clone(), added: BTreeMap::new(), removed: BTreeMap::new() };
        Ok((at, self.0.get(table).cloned().unwrap_or_else(fresh)))
    }

    fn put_back(
        &self,
        gateway: &Gateway,
        (at, edited): (usize, Edited),
        said: &Said,
        (added, replaced, deleted): (usize, usize, usize),
    ) -> Result<(Gateway, Tables, Changed), Box<Refusal>> {
        let mut gateway = gateway.clone();
        let (table, _) = edited.apply(&gateway, &edited.declared);
        let (name, sessions) = (table.name.clone(), table.sessions.len());
        if sessions > table.size as usize {
            let size = table.size;
            let message =
                format!("the table `{name}` would have {sessions} sessions, and is for {size}; nothing was changed");
            return Err(Refusal::new(Kind::NoRoom, message).into());
        }
        gateway.classify[at] = table;
        let mut tables = self.clone();
        match edited.added.is_empty() && edited.removed.is_empty() {
            true => drop(tables.0.remove(&name)),
            false => drop(tables.0.insert(name.clone(), edited)),
        }
        Ok((gateway, tables, Changed { table: name, source: said.source.clone(), added, replaced, deleted, sessions }))
    }

    /// Applies the live sessions to a new configuration. Returns the tables, the edits that end, and whether more packets
    /// might pass without one of these.
    pub(crate) fn carry(&self, gateway: &mut Gateway) -> (Tables, Vec<Lost>, bool) {
        let (mut tables, mut lost, mut protects) = (Tables::default(), Vec::new(), false);
        for (name, edited) in &self.0 {
            let of = format!("classify {name}");
            let found = gateway.classify.iter().position(|table| table.name == *name);
            let Some(at) = found.filter(|&at| gateway.classify[at].text == edited.declared.text) else {
                let why = if found.is_some() { "has another mask for it" } else { "does not have it" };
                lost.push(edited.ended(of, &format!("the configuration {why}"), Vec::new()));
                protects |= edited.protects();
                continue;
            };
            let declared = gateway.classify[at].clone();
            let values: HashSet<&[u8]> = declared.sessions.iter().map(|session| &*session.value).collect();
            let mut own = Edited { declared: declared.clone(), ..edited.clone() };
            own.removed.retain(|value, _| values.contains(value.as_slice()));
            let others = own.end_changed(gateway);
            protects |= others.iter().any(|(_, permits)| *permits);
            own.end_saved(gateway);
            let (table, mut gone) = own.apply(gateway, &declared);
            gone.extend(others.into_iter().map(|(words, _)| words));
            let applies = |session: &Session| action(gateway, &declared, session).is_ok();
            if table.sessions.len() > table.size as usize {
                let why = format!("the table is for {} sessions now", table.size);
                protects |= own.protects();
                own.added.retain(|_, (session, _)| applies(session));
                let rules = own.added.len();
                lost.push(Lost { rules, ..own.ended(of, &why, gone) });
                continue;
            }
            protects |= own.added.values().any(|(session, _)| !session.permit && !applies(session));
            if !gone.is_empty() {
                let (rules, more) = (gone.len(), gone.len().saturating_sub(MOST_PARTS));
                gone.truncate(MOST_PARTS);
                lost.push(Lost { of, rules, parts: gone, more });
            }
            own.added.retain(|_, (session, _)| applies(session));
            gateway.classify[at] = table;
            if !own.added.is_empty() || !own.removed.is_empty() {
                tables.0.insert(name.clone(), own);
            }
        }
        (tables, lost, protects)
    }

    /// Returns the edits.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let edit = |name: &str, kind, what: String, said: &Said| Edit {
            of: format!("classify {name}"),
            edit: kind,
            what,
            id: None,
            place: None,
            source: Some(said.source.clone()),
            time: Some(said.time),
        };
        let of = |(name, edited): (&String, &Edited)| {
            let mask = mask_of(&edited.declared);
            let added = edited.added.values().map(|(own, said)| edit(name, EditKind::Added, own.text(&mask), said));
            let removed =
                edited.removed.values().map(|(words, said)| edit(name, EditKind::Removed, words.clone(), said));
            added.chain(removed).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Returns the changes of each table.
    pub(crate) fn changed(&self) -> Vec<TableEdit> {
        let of = |(name, edited): (&String, &Edited)| {
            let mask = mask_of(&edited.declared);
            let added = edited.added.iter().map(|(value, (session, _))| (value.clone(), session.text(&mask)));
            TableEdit { name: name.clone(), added: added.collect(), removed: edited.removed.keys().cloned().collect() }
        };
        self.0.iter().map(of).collect()
    }

    /// Gives live sessions their sources.
    pub(crate) fn name(&self, shown: &mut Classify) {
        for table in &mut shown.tables {
            let Some(edited) = self.0.get(&table.name) else { continue };
            let mask = mask_of(&edited.declared);
            for row in table.rows.iter_mut().flatten() {
                // By its value: a row names the interface of each next hop, and the edit may have left it out.
                let value = parse_session(&row.session, &mask).map(|(session, _)| session.value).unwrap_or_default();
                if let Some((_, said)) = edited.added.get(&value) {
                    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(said.time);
                    row.origin = format!("{} {}", said.source, humantime::format_rfc3339_seconds(time));
                }
            }
        }
    }
}

impl Edited {
    /// More packets might pass without one of the edits: a live session that denies, or the removal of one that permits.
    fn protects(&self) -> bool {
        let mask = mask_of(&self.declared);
        let permits = |words: &str| parse_session(words, &mask).is_ok_and(|(session, _)| session.permit);
        self.added.values().any(|(session, _)| !session.permit)
            || self.removed.values().any(|(words, _)| permits(words))
    }

    /// Names the edits, all of which end for a reason, behind others that ended for their own.
    fn ended(&self, of: String, why: &str, others: Vec<String>) -> Lost {
        let mask = mask_of(&self.declared);
        let added =
            self.added.values().map(|(session, _)| format!("a session is gone: {why}: `{}`", session.text(&mask)));
        let removed =
            self.removed.values().map(|(words, _)| format!("the removal of a session is gone: {why}: `{words}`"));
        let mut parts: Vec<String> = others.into_iter().chain(added).chain(removed).collect();
        let more = parts.len().saturating_sub(MOST_PARTS);
        parts.truncate(MOST_PARTS);
        Lost { of, rules: self.added.len(), parts, more }
    }

    /// Ends the removals of sessions that the configuration has otherwise now. Returns them in words, and whether each was of a session
    /// that permits.
    fn end_changed(&mut self, gateway: &Gateway) -> Vec<(String, bool)> {
        let Edited { declared, removed, .. } = self;
        let mask = mask_of(declared);
        let now: HashMap<&[u8], String> =
            declared.sessions.iter().map(|own| (&*own.value, written(gateway, declared, own))).collect();
        let mut ended = Vec::new();
        removed.retain(|value, (words, _)| {
            let Some(now) = now.get(value.as_slice()).filter(|now| *now != words) else { return true };
            let permits = parse_session(words, &mask).is_ok_and(|(session, _)| session.permit);
            ended.push((format!("the removal of a session is gone: the file has `{now}` now: `{words}`"), permits));
            false
        });
        ended
    }

    /// Ends the live sessions that the configuration has with the same action.
    fn end_saved(&mut self, gateway: &Gateway) {
        let Edited { declared, added, .. } = self;
        let known: HashMap<&[u8], &ClassifySession> =
            declared.sessions.iter().map(|session| (&*session.value, session)).collect();
        added.retain(|value, (session, _)| {
            let declared_action = |own: &&ClassifySession| declared.actions.get(own.action as usize);
            let own = known.get(value.as_slice()).filter(|own| own.opaque == session.opaque);
            let own = own.and_then(declared_action);
            own.is_none() || own != action(gateway, declared, session).ok().as_ref()
        });
    }

    /// Applies the changes to a table of a gateway. Also returns the sessions that do not fit, in words.
    fn apply(&self, gateway: &Gateway, declared: &ClassifyTable) -> (ClassifyTable, Vec<String>) {
        let stays = |session: &&ClassifySession| {
            let value: &[u8] = &session.value;
            !self.removed.contains_key(value) && !self.added.contains_key(value)
        };
        let mut sessions: Vec<ClassifySession> = declared.sessions.iter().filter(stays).cloned().collect();
        let mut actions = declared.actions.to_vec();
        let mut numbers: HashMap<_, u32> = HashMap::new();
        for (number, action) in (0..).zip(&actions).filter(|(_, action)| action.limit.is_none()) {
            numbers.entry(action.clone()).or_insert(number);
        }
        let mut gone = Vec::new();
        for (value, (session, _)) in &self.added {
            let action = match action(gateway, declared, session) {
                Ok(action) => action,
                Err(why) => {
                    gone.push(format!("{why}: `{}`", session.text(&mask_of(declared))));
                    continue;
                }
            };
            // A limit is that of one session.
            let known = numbers.get(&action).copied().filter(|_| action.limit.is_none());
            let number = known.unwrap_or_else(|| {
                actions.push(action.clone());
                let number = (actions.len() - 1) as u32;
                numbers.insert(action, number);
                number
            });
            let origin = Origin::default();
            let value = value.as_slice().into();
            sessions.push(ClassifySession { value, action: number, opaque: session.opaque, origin });
        }
        (ClassifyTable { sessions: sessions.into(), actions: actions.into(), ..declared.clone() }, gone)
    }
}

/// Values with what belongs to them, each with the number of its line.
type Lines<T> = Vec<(u32, (Vec<u8>, T))>;

/// Reads a text of lines; blank ones and remarks behind `#` are left out. Values may occur once.
fn lines<T>(text: &str, read: impl Fn(&str) -> Result<(Vec<u8>, T), Findings>) -> Result<Lines<T>, Box<Refusal>> {
    let mut errors = Remarks::default();
    let mut all = Vec::new();
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    for (number, line) in (1u32..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        match read(content) {
            Ok((value, own)) => match seen.insert(value.clone(), number) {
                Some(first) => {
                    let message = format!("line {first} has the same value");
                    errors.push(|| Remark { line: Some(number), message, ..Remark::default() });
                }
                None => all.push((number, (value, own))),
            },
            Err(wrong) => {
                for finding in wrong.shown() {
                    let (message, help) = (finding.message.clone(), finding.help.clone());
                    let column = Some(finding.column);
                    errors.push(|| Remark { line: Some(number), column, message, help, ..Remark::default() });
                }
            }
        }
    }
    if all.is_empty() && errors.is_empty() {
        return Err(Refusal::new(Kind::Conflict, "no session was sent; nothing was changed").into());
    }
    if errors.is_empty() { Ok(all) } else { Err(Refusal::of_rules(Kind::InvalidRules, errors).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::render::classify::Session as Row;
    use crate::render::sample;

    const FILE: &str = r#"
version = 1

[[interface]]
name = "lan"
port = "null"
address = "10.0.0.1/8"
classify = { in = "own" }

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"

[classify.own]
mask = "l3 ip4 src/24 proto"
size = 4
sessions = ["src 10.1.0.0 proto udp deny", "src 10.2.0.0 proto udp permit limit 10pps"]
"#;

    fn gateway(text: &str) -> Gateway {
        let mut loaded = config::parse_str("gw.toml", text);
        loaded.gateway.take().unwrap_or_else(|| panic!("{}", loaded.text(false)))
    }

    fn said() -> Said {
        Said { source: "test".into(), time: 7 }
    }

    fn sessions(gateway: &Gateway) -> Vec<String> {
        let table = &gateway.classify[0];
        table.sessions.iter().map(|session| written(gateway, table, session)).collect()
    }

    #[test]
    fn sessions_come_and_go_and_outlive_reloads() {
        let (start, tables) = (gateway(FILE), Tables::default());
        let text = "src 10.3.0.0 proto udp permit via 198.51.100.9\n\nsrc 10.1.0.0 proto udp permit # another action\n";
        let (after, tables, changed) = tables.add(&start, "own", &said(), text).unwrap();
        assert_eq!((changed.added, changed.replaced, changed.sessions), (1, 1, 3));
        let wanted = [
            "src 10.2.0.0 proto udp permit limit 10pps",
            "src 10.1.0.0 proto udp permit",
            "src 10.3.0.0 proto udp permit via 198.51.100.9 on wan",
        ];
        assert_eq!(sessions(&after), wanted);
        let (after, tables, changed) = tables.delete(&after, "own", &said(), "proto udp src 10.2.0.0\n").unwrap();
        assert_eq!((changed.deleted, changed.sessions), (1, 2));
        let edits: Vec<String> =
            tables.edits().into_iter().map(|edit| format!("{:?} {}", edit.edit, edit.what)).collect();
        assert_eq!(
            edits,
            [
                "Added src 10.1.0.0 proto udp permit",
                "Added src 10.3.0.0 proto udp permit via 198.51.100.9",
                "Removed src 10.2.0.0 proto udp permit limit 10pps",
            ]
        );
        // A new file with another session of its own: the edits stay.
        let mut new = gateway(&FILE.replace("sessions = [", "sessions = [\"src 10.9.0.0 proto udp deny\", "));
        let (tables, lost, _) = tables.carry(&mut new);
        assert_eq!(lost.len(), 0);
        let wanted = [
            "src 10.9.0.0 proto udp deny",
            "src 10.1.0.0 proto udp permit",
            "src 10.3.0.0 proto udp permit via 198.51.100.9 on wan",
        ];
        assert_eq!(sessions(&new), wanted);
        assert_eq!(sessions(&after), wanted[1..]);
        // Without the link of a next hop, its session is lost; with another mask, all are.
        let mut other = gateway(&FILE.replace("198.51.100.1/24", "203.0.113.1/24"));
        let (_, lost, _) = tables.carry(&mut other);
        assert_eq!((lost.len(), lost[0].rules), (1, 1));
        let mut masked = gateway(&FILE.replace("src/24", "src/25"));
        let (_, lost, _) = tables.carry(&mut masked);
        assert_eq!((lost.len(), sessions(&masked).len()), (1, 2));
    }

    /// Sessions that are sent as they are listed differ from those of the file in words, and in nothing else.
    #[test]
    fn a_session_that_the_file_has_is_no_edit() {
        let file = FILE.replace("permit limit 10pps", "permit via 198.51.100.9");
        let (start, tables) = (gateway(&file), Tables::default());
        let (after, tables, _) = tables.add(&start, "own", &said(), &sessions(&start).join("\n")).unwrap();
        assert_eq!((tables.edits().len(), sessions(&after)), (0, sessions(&start)));
        // Deleted and sent again, it is that of the file once more.
        let (after, tables, _) = tables.delete(&after, "own", &said(), "src 10.2.0.0 proto udp").unwrap();
        assert_eq!(tables.edits().len(), 1);
        let text = "src 10.2.0.0 proto udp permit via 198.51.100.9 on wan";
        let (after, tables, changed) = tables.add(&after, "own", &said(), text).unwrap();
        assert_eq!((changed.added, tables.edits().len(), sessions(&after)), (1, 0, sessions(&start)));
        // Another action is an edit.
        let text = "src 10.2.0.0 proto udp permit via 198.51.100.8";
        assert_eq!(tables.add(&after, "own", &said(), text).unwrap().1.edits().len(), 1);
    }

    #[test]
    fn sessions_shown_have_their_source_however_next_hops_are_written() {
        let (start, tables) = (gateway(FILE), Tables::default());
        let text = "src 10.3.0.0 proto udp permit via 198.51.100.9\nsrc 10.1.0.0 proto udp permit";
        let (after, tables, _) = tables.add(&start, "own", &said(), text).unwrap();
        let table = &after.classify[0];
        let row = |session: &ClassifySession| Row {
            session: written(&after, table, session),
            packets: 0,
            bytes: 0,
            idle: None,
            opaque: 0,
            origin: "gw.toml:20".into(),
        };
        let mut shown = sample::classify();
        shown.tables[0].name = "own".into();
        shown.tables[0].rows = Some(table.sessions.iter().map(row).collect());
        tables.name(&mut shown);
        let origins: Vec<_> = shown.tables[0].rows.iter().flatten().map(|row| row.origin.as_str()).collect();
        assert_eq!(origins, ["gw.toml:20", "test 1970-01-01T00:00:07Z", "test 1970-01-01T00:00:07Z"]);
    }

    #[test]
    fn a_live_deny_that_would_end_protects_and_is_named() {
        let (start, tables) = (gateway(FILE), Tables::default());
        let ended = |tables: &Tables, text: &str| {
            let (_, lost, protects) = tables.carry(&mut gateway(text));
            (lost.into_iter().flat_map(|lost| lost.parts).collect::<Vec<_>>(), protects)
        };
        let (masked, small) = (FILE.replace("src/24", "src/25"), FILE.replace("size = 4", "size = 2"));
        let without = FILE.replace("classify = { in = \"own\" }", "").replace("[classify.own]", "[classify.other]");
        for (text, why) in [
            (masked.as_str(), "the configuration has another mask for it"),
            (without.as_str(), "the configuration does not have it"),
            (small.as_str(), "the table is for 2 sessions now"),
        ] {
            let (_, denies, _) = tables.add(&start, "own", &said(), "src 10.3.0.0 proto tcp deny").unwrap();
            let named = format!("a session is gone: {why}: `src 10.3.0.0 proto tcp deny`");
            assert_eq!(ended(&denies, text), (vec![named], true));
            let (_, permits, _) = tables.add(&start, "own", &said(), "src 10.3.0.0 proto tcp permit").unwrap();
            let named = format!("a session is gone: {why}: `src 10.3.0.0 proto tcp permit`");
            assert_eq!(ended(&permits, text), (vec![named], false));
        }
        let (_, removal, _) = tables.delete(&start, "own", &said(), "src 10.2.0.0 proto udp").unwrap();
        let (named, protects) = ended(&removal, &masked);
        assert!(protects && named[0].starts_with("the removal of a session is gone: "), "{named:?}");
        let (_, removal, _) = tables.delete(&start, "own", &said(), "src 10.1.0.0 proto udp").unwrap();
        assert!(!ended(&removal, &masked).1, "a deny that was removed keeps nothing away");
    }

    #[test]
    fn sessions_end_with_the_interface_or_vrf_that_they_name() {
        let file = FILE.replace("l3 ip4 src/24 proto", "meta interface vrf");
        let start = file.find("sessions").expect("the file has sessions");
        let file = format!("{}sessions = [\"interface lan vrf default deny\"]\n", &file[..start]);
        let (start, tables) = (gateway(&file), Tables::default());
        for (text, expected) in [
            ("interface lam vrf default deny", "line 1: there is no interface `lam`"),
            ("interface lan vrf red deny", "line 1: there is no VRF `red`"),
        ] {
            let refusal = tables.add(&start, "own", &said(), text).expect_err(text);
            assert_eq!(refusal.problems[0].to_string(), expected);
        }
        let text = "interface wan vrf default permit mark 3";
        let (after, tables, _) = tables.add(&start, "own", &said(), text).unwrap();
        assert_eq!(sessions(&after), ["interface lan vrf default deny", text]);
        let (after, _, _) = tables.delete(&after, "own", &said(), "vrf default interface lan").unwrap();
        assert_eq!(sessions(&after), [text]);
        // The interface moves to another place of the file, and stays the same; without it the session ends.
        let mut moved = gateway(&file.replace("[[interface]]\nname = \"lan\"", "[[interface]]\nname = \"new\"\nport = \"null\"\naddress = \"192.0.2.1/24\"\n\n[[interface]]\nname = \"lan\""));
        let (tables, lost, _) = tables.carry(&mut moved);
        assert_eq!((lost.len(), sessions(&moved)[1].as_str()), (0, text));
        let mut other = gateway(&file.replace("wan", "dsl"));
        let (_, lost, _) = tables.carry(&mut other);
        assert_eq!(
            (lost.len(), lost[0].parts[0].as_str()),
            (1, "there is no interface `wan`: `interface wan vrf default permit mark 3`")
        );
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let (start, tables) = (gateway(FILE), Tables::default());
        let refused = |table: &str, text: &str| {
            let refusal = tables.add(&start, table, &said(), text).expect_err(text);
            let problems: Vec<String> = refusal.problems.iter().map(ToString::to_string).collect();
            format!("{} {}", refusal.message, problems.join("; "))
        };
        for (table, text, expected) in [
            ("owl", "", "there is no classifier table `owl`; did you mean `own`?"),
            ("own", "\n# nothing\n", "no session was sent"),
            ("own", "src 10.1.0.1 proto udp deny", "line 1, column 5: `10.1.0.1` has bits"),
            ("own", "src 10.1.0.0 proto udp permit vrf red", "line 1: there is no VRF `red`"),
            ("own", "src 10.1.0.0 proto udp permit via 192.0.2.1", "line 1: 192.0.2.1 is on no link of the VRF"),
            ("own", "src 10.1.0.0 proto udp deny\nsrc 10.1.0.0 proto udp permit", "line 2: line 1 has the same value"),
            (
                "own",
                "src 10.3.0.0 proto 1 deny\nsrc 10.3.0.0 proto 2 deny\nsrc 10.3.0.0 proto 3 deny",
                "would have 5 sessions, and is for 4",
            ),
        ] {
            let found = refused(table, text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        let refusal = tables.delete(&start, "own", &said(), "src 10.7.0.0 proto udp").expect_err("it is not there");
        assert_eq!(refusal.problems[0].to_string(), "line 1: the table `own` has no such session");
    }
}
