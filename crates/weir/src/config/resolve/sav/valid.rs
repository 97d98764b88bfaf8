//! Whether anything is valid at all.

use weir_plane::model::{Interface, Mode, PerFamily, SavAction, SavIndex, SavRule, SavRules};

use super::super::super::declare::sav::{Mechanism as Declared, Policy};
use super::super::super::diagnostic::{Code, Diagnostic};
use super::Resolver;

impl Resolver<'_> {
    /// Warns of interfaces by which nothing may come in, for no rule permits any source there.
    pub(super) fn nothing_valid(
        &mut self,
        index: SavIndex,
        policy: &Policy,
        rules: &SavRules,
        interfaces: &[Interface],
    ) {
        if rules.incremental || policy.response.action == SavAction::Permit {
            return;
        }
        let lists = matches!(policy.mechanism, Some(Declared::Table { .. }));
        let permitted = permitted(rules, lists, interfaces.len());
        let declared = self.declared;
        for (at, named) in declared.interfaces.iter().enumerate() {
            let Some(interface) = self.index_of[at].and_then(|index| interfaces.get(index.0 as usize)) else {
                continue;
            };
            let permitted = permitted[self.index_of[at].map_or(0, |index| index.0 as usize)];
            let is_own = |sav: Option<SavIndex>| sav == Some(index);
            let has = |v4: bool| interface.addresses.iter().any(|address| address.net.addr().is_ipv4() == v4);
            let nothing = PerFamily {
                v4: is_own(interface.sav.v4) && !permitted.v4,
                v6: is_own(interface.sav.v6) && !permitted.v6,
            };
            let all = nothing.v4 == is_own(interface.sav.v4) && nothing.v6 == is_own(interface.sav.v6);
            // One family alone is missed only where it is in use.
            let family = match (nothing.v4, nothing.v6) {
                (false, false) => continue,
                (true, true) => "",
                (true, false) if all || has(true) => "IPv4 ",
                (false, true) if all || has(false) => "IPv6 ",
                _ => continue,
            };
            let place = if nothing.v4 { &named.sav.v4 } else { &named.sav.v6 };
            let Some(place) = place else { continue };
            let (policy, interface) = (&policy.name.value, &interface.name);
            let message =
                format!("no {family}source is valid on `{interface}`: no rule of `{policy}` permits one there");
            let found = Diagnostic::warning(Code::NothingValid, place.span, message);
            self.report(found.help("until the rules are complete, set `incremental = true`"));
        }
    }
}

/// The families of which some source may be valid on each interface.
fn permitted(rules: &SavRules, lists: bool, interfaces: usize) -> Vec<PerFamily<bool>> {
    let of_mode = |mode: Mode| rules.list.iter().filter(move |rule| rule.mode() == mode);
    let is_v4 = |rule: &SavRule| rule.prefix.addr().is_ipv4();
    // Where no list says where prefixes may come in, there is none that sources would have to stand in; and prefixes may come
    // in wherever their blocklists do not say otherwise.
    let open = lists && !rules.list.is_empty() && of_mode(Mode::PrefixAllow).next().is_none();
    let blocks = |v4: bool| lists && of_mode(Mode::PrefixBlock).any(|rule| is_v4(rule) == v4);
    let mut permitted = vec![PerFamily { v4: open || blocks(true), v6: open || blocks(false) }; interfaces];
    let mut own = vec![false; interfaces];
    for mode in [Mode::InterfaceAllow, Mode::PrefixAllow] {
        // Rules share their lists: most look like the one before.
        let mut last = None;
        for rule in of_mode(mode) {
            let v4 = is_v4(rule);
            let this = Some((rule.interfaces.as_ptr(), v4));
            if last == this {
                continue;
            }
            last = this;
            for interface in rule.interfaces.iter().map(|interface| interface.0 as usize) {
                // Where an interface could not be made, there are none at all.
                let (Some(permitted), Some(own)) = (permitted.get_mut(interface), own.get_mut(interface)) else {
                    continue;
                };
                match mode {
                    // No other list applies to an interface with an allowlist of its own.
                    Mode::InterfaceAllow if !*own => {
                        *own = true;
                        *permitted = PerFamily { v4: false, v6: false };
                    }
                    Mode::PrefixAllow if *own => continue,
                    _ => {}
                }
                if v4 {
                    permitted.v4 = true;
                } else {
                    permitted.v6 = true;
                }
            }
        }
    }
    permitted
}
