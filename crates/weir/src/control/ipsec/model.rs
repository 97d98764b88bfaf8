//! Live changes of SAs and SPDs in a model in force.

use std::path::Path;

use weir_plane::model::{Gateway, Sa, SaIndex, SpdAction, SpdRule};

use super::edit::SaEdit;
use super::live::Live;
use crate::config::{Loaded, OverSa, OverSpd, SOCKET, Severity, Successor, live};

/// Changes a pair of SAs in a model, as `live` has it now. Key files are relative to `folder`. Returns warnings.
///
/// # Errors
/// The errors of the pair; then the model is not to be used.
pub(crate) fn edit_sa(
    gateway: &mut Gateway,
    folder: &Path,
    live: &Live,
    name: &str,
    edit: &SaEdit<'_>,
) -> Result<Option<Loaded>, Box<Loaded>> {
    let pair = live.pair(name);
    match (edit, pair) {
        (SaEdit::Add(_) | SaEdit::Update(_), Some((own, _))) => put(gateway, folder, &own).map(Some),
        (SaEdit::Rekey(_), Some((_, Some(next)))) => {
            let found = put(gateway, folder, &next)?;
            succeed(gateway, &Successor { old: name.to_owned(), new: next.name, leads: false });
            Ok(Some(found))
        }
        (SaEdit::Switch, Some((_, Some(next)))) => {
            part(gateway, &next.name);
            succeed(gateway, &Successor { old: name.to_owned(), new: next.name, leads: true });
            Ok(None)
        }
        (SaEdit::Finish, Some((own, _))) => {
            finish(gateway, &own);
            Ok(None)
        }
        (SaEdit::Delete, _) => {
            let next = format!("{name}-next");
            // A rekey ends with its pair. A pair of this name may be of a file, or have been added by itself.
            if live.pair(&next).is_none() && is_of_socket(gateway, &next) {
                remove(gateway, &next);
            }
            remove(gateway, name);
            Ok(None)
        }
        // The copy with the change has the pair, and a rekey its new pair.
        (SaEdit::Add(_) | SaEdit::Update(_) | SaEdit::Rekey(_) | SaEdit::Switch | SaEdit::Finish, _) => Ok(None),
    }
}

/// Changes the rules of an SPD in a model, as `live` has them now. Returns warnings.
///
/// # Errors
/// The errors of the rules; then the model is not to be used.
pub(crate) fn edit_spd(gateway: &mut Gateway, live: &Live, over: &OverSpd) -> Result<Option<Loaded>, Box<Loaded>> {
    let successors = live.overlay().successors;
    // Rules are as the operator knows them.
    successors.iter().for_each(|own| part(gateway, &own.new));
    let found = checked(live::put_rules(gateway, over))?;
    successors.iter().for_each(|own| succeed(gateway, own));
    Ok(Some(found))
}

fn checked(found: Loaded) -> Result<Loaded, Box<Loaded>> {
    if found.count(Severity::Error) > 0 { Err(Box::new(found)) } else { Ok(found) }
}

fn put(gateway: &mut Gateway, folder: &Path, own: &OverSa) -> Result<Loaded, Box<Loaded>> {
    checked(live::put_sa(gateway, folder, own))
}

/// A pair came by the control socket.
fn is_of_socket(gateway: &Gateway, name: &str) -> bool {
    let sa = gateway.sas.iter().find(|sa| sa.name == name);
    let place = sa.and_then(|sa| gateway.origins.place(sa.origin));
    place.is_some_and(|place| place.file.starts_with(SOCKET))
}

fn index(gateway: &Gateway, name: &str) -> Option<SaIndex> {
    gateway.sas.iter().position(|sa| sa.name == name).map(|at| SaIndex(at as u32))
}

/// Changes the rules of all SPDs; SPDs that stay are shared with the model before.
fn each_list(gateway: &mut Gateway, change: impl Fn(&mut Vec<SpdRule>)) {
    for spd in &mut gateway.spds {
        let mut rules = spd.rules.to_vec();
        change(&mut rules);
        if rules[..] != spd.rules[..] {
            spd.rules = rules.into();
        }
    }
}

/// Adds to each rule that names the old pair one that names the new pair: in front of it if the new pair sends, else behind it.
fn succeed(gateway: &mut Gateway, Successor { old, new, leads }: &Successor) {
    let (Some(old), Some(new)) = (index(gateway, old), index(gateway, new)) else { return };
    each_list(gateway, |rules| {
        let mut at = 0;
        while at < rules.len() {
            if rules[at].action == SpdAction::Protect(old) {
                // Of flows that rules share, one pair of the two has the part, the one that sends.
                let shared = rules[at].shared && *leads;
                rules[at].shared &= !*leads;
                let rule = SpdRule { action: SpdAction::Protect(new), shared, rekeys: Some(old), ..rules[at].clone() };
                rules.insert(if *leads { at } else { at + 1 }, rule);
                at += 1;
            }
            at += 1;
        }
    });
}

/// Takes rekeys that are under way out of a model: the old pairs stay.
pub(crate) fn without_rekeys(gateway: &mut Gateway, rekeying: &[String]) {
    for name in rekeying {
        let next = format!("{name}-next");
        part(gateway, &next);
        remove(gateway, &next);
    }
}

/// Removes the rules that a rekey added. The rule behind one that shared flows has the part again.
fn part(gateway: &mut Gateway, new: &str) {
    let Some(new) = index(gateway, new) else { return };
    let is_new = |rule: &SpdRule| rule.action == SpdAction::Protect(new);
    each_list(gateway, |rules| {
        for at in 1..rules.len() {
            rules[at].shared |= rules[at - 1].shared && is_new(&rules[at - 1]);
        }
        rules.retain(|rule| !is_new(rule));
    });
}

/// Ends a rekey: the new pair takes the name and the place of the old one.
fn finish(gateway: &mut Gateway, own: &OverSa) {
    let next = format!("{}-next", own.name);
    part(gateway, &next);
    let (Some(old), Some(new)) = (index(gateway, &own.name), index(gateway, &next)) else { return };
    let source = gateway.origins.put_source(own.place().into(), own.text.as_str().into());
    let origin = gateway.origins.put_line(source, 1, 0);
    let pair = Sa { name: own.name.clone(), origin, ..gateway.sas[new.0 as usize].clone() };
    gateway.sas[old.0 as usize] = pair;
    remove(gateway, &next);
}

/// Removes a pair that no rule names: pairs behind it move up.
fn remove(gateway: &mut Gateway, name: &str) {
    let Some(gone) = index(gateway, name) else { return };
    gateway.sas.remove(gone.0 as usize);
    each_list(gateway, |rules| {
        for rule in rules {
            let own = match &mut rule.action {
                SpdAction::Protect(sa) => Some(sa),
                SpdAction::Bypass | SpdAction::Discard => None,
            };
            own.into_iter().chain(&mut rule.rekeys).filter(|sa| **sa > gone).for_each(|sa| sa.0 -= 1);
        }
    });
}
