//! The decisions about traced packets, in words.

use weir_plane::changed::Changed;
use weir_plane::compile::{BindingDecision, Listed, Named};
use weir_plane::engine::TraceDecision;
use weir_plane::graph::record::{Miss, Role};
use weir_plane::model::{Gateway, InterfaceIndex, Origin, SaIndex};

use crate::replay::access::acl_rule;
use crate::replay::nat::{effect_words, nat};
use crate::replay::spd::{effect_words as policy_effect, spd};
use crate::replay::steer::steer;
use crate::replay::validation::Rule;
use crate::replay::{FastPath, classify};
use crate::rules::binding::Binding;

/// Says what decided: the list or policy, where the rule was declared, and the rule. `said` returns who added the live steer
/// rule of a list and place, if it is one.
pub(super) fn by(model: &Gateway, decision: &TraceDecision, said: impl Fn(&str, usize) -> Option<String>) -> String {
    let words = Words(model);
    let found = match decision {
        TraceDecision::Acl(decision, role) => {
            let session = match role {
                None => "",
                Some(Role::Opens) => "opens a session: ",
                Some(Role::Original) => "of a session, opened by ",
                Some(Role::Reply) => "a session's reply, opened by ",
                Some(Role::Error) => "an error about a session, opened by ",
            };
            Some(format!("{session}{}, {}", decision.list, words.rule(&acl_rule(model, decision))))
        }
        TraceDecision::Bindings(decision) => words.bindings(decision),
        TraceDecision::Allowlist(listed) => words.allowlist(listed),
        TraceDecision::Classify(decision) => {
            classify::session(model, decision).map(|(table, named)| format!("{table}, {}", words.rule(&named)))
        }
        TraceDecision::Sav { policy, origin, decision: None } => {
            Some(format!("{policy}, {}", words.at("the policy", *origin)))
        }
        TraceDecision::Sav { policy, origin, decision: Some(decision) } => Some(match decision.by.first() {
            Some(named) => format!("{policy}, {} ({})", words.rule(named), decision.why),
            None => format!("{policy}, {}", words.at(&decision.why, *origin)),
        }),
        TraceDecision::Ethertypes(origin) => Some(words.at("the ethertypes of the interface", *origin)),
        TraceDecision::Flow(miss) => Some(flow(*miss).to_owned()),
        TraceDecision::Learning(learning) => Some(format!("fast path: {}", FastPath::new(*learning).sentence)),
        TraceDecision::Nat(list, place, effect) => nat(model, *list, *place)
            .map(|(list, named)| format!("{}: {list}, {}", effect_words(effect), words.rule(&named))),
        TraceDecision::Spd(index, place, effect) => spd(model, *index, *place).map(|(name, named)| {
            let rule = match place {
                Some(_) => words.rule(&named),
                None => Rule::at(&named, model.origins.place(named.origin)).whence(),
            };
            format!("{}: {name}, {rule}", policy_effect(*effect))
        }),
        TraceDecision::Steer(index, place) => steer(model, *index, *place).map(|(list, mark, named)| {
            let mark = mark.map_or_else(String::new, |mark| format!("mark {mark}: "));
            match said(&list, *place as usize) {
                Some(said) => format!("{mark}{list}, {said}: {}", named.text),
                None => format!("{mark}{list}, {}", words.rule(&named)),
            }
        }),
        TraceDecision::Sa(sa, inbound) => words.sa(*sa, *inbound),
        TraceDecision::Tunnel(index, inbound) => words.interface(*index, |name| {
            let effect = if *inbound { "out of the tunnel" } else { "into the tunnel" };
            format!("{effect} {name}")
        }),
        TraceDecision::Merged(index, output) => words.interface(*index, |name| {
            let way = if *output { "leaving by" } else { "that came in by" };
            format!("merged with others {way} {name}")
        }),
        TraceDecision::Bridge(index, way) => {
            let bridge = model.bridges.get(usize::from(index.0));
            bridge.map(|bridge| words.at(&format!("{way}: bridge {}", bridge.name), bridge.origin))
        }
        TraceDecision::Gone => None,
    };
    found.unwrap_or_else(|| GONE.to_owned())
}

/// The words of a model; `None`: it does not have the object any more.
struct Words<'m>(&'m Gateway);

impl Words<'_> {
    fn rule(&self, named: &Named) -> String {
        let rule = Rule::at(named, self.0.origins.place(named.origin));
        format!("{}: {}", rule.whence(), rule.rule)
    }

    fn at(&self, text: &str, origin: Origin) -> String {
        self.rule(&Named { text: text.to_owned(), origin, said: None })
    }

    fn bindings(&self, decision: &BindingDecision) -> Option<String> {
        let list = self.0.bindings.get(usize::from(decision.list.0))?;
        let rule = decision.rule.and_then(|rule| list.rules.get(rule));
        let (text, origin) = rule.map_or_else(
            || {
                let learned = if decision.permit { "a binding learned from DHCP" } else { "no rule matches" };
                (learned.to_owned(), list.origin)
            },
            |rule| (Binding::of(rule).to_string(), rule.origin),
        );
        Some(format!("{}, {}", list.name, self.at(&text, origin)))
    }

    fn allowlist(&self, listed: &Listed) -> Option<String> {
        let list = self.0.allowlists.get(usize::from(listed.list.0))?;
        let (text, origin) = match listed.within {
            None => ("it does not contain the source".to_owned(), list.origin),
            Some((prefix, origin)) if listed.contains => (prefix.to_string(), origin),
            Some((prefix, origin)) => (format!("{prefix} is discarded"), origin),
        };
        Some(format!("{}, {}", list.name, self.at(&text, origin)))
    }

    fn sa(&self, sa: SaIndex, inbound: bool) -> Option<String> {
        let sa = self.0.sas.get(sa.0 as usize)?;
        let spi = if inbound { &sa.inbound } else { &sa.outbound };
        let spi = spi.as_ref().map_or_else(String::new, |own| format!(", SPI {:#x}", own.spi));
        // The node of packets that leave names the SA itself.
        let text = if inbound { format!("of the SA {}{spi}", sa.name) } else { format!("encrypted{spi}") };
        Some(self.at(&text, sa.origin))
    }

    fn interface(&self, index: InterfaceIndex, text: impl FnOnce(&str) -> String) -> Option<String> {
        let interface = self.0.interfaces.get(index.0 as usize)?;
        Some(self.at(&text(&interface.name), interface.origin))
    }
}

/// The reason why a packet walks.
fn flow(miss: Option<Miss>) -> &'static str {
    match miss {
        None => "other packets of the flow take a learned decision; a traced packet walks",
        Some(Miss::New) => "nothing is learned about the flow",
        Some(Miss::Changed(Changed::All)) => "the configuration has changed since the flow was decided",
        Some(Miss::Changed(Changed::Interface)) => "a policy of its interfaces has changed since the flow was decided",
        Some(Miss::Changed(Changed::Prefix)) => {
            "a route, a rule or an entry for its addresses has changed since the flow was decided"
        }
        Some(Miss::Changed(Changed::NextHop)) => "its next hop has changed since the flow was decided",
        Some(Miss::Changed(Changed::Session)) => "its session has changed since the flow was decided",
        Some(Miss::Differs) => "a rule compares a field in which the packet differs from those of the learned decision",
    }
}

const GONE: &str = "the deciding rule, list, table or SA is gone, or changed since";

#[cfg(test)]
mod tests {
    use weir_plane::model::SpdIndex;
    use weir_plane::record::SpdEffect;

    use super::*;

    #[test]
    fn an_sa_is_named_once_and_with_its_spi() {
        let text = "version = 1
[ipsec]
insecure = true
[sa.east]
local = '198.51.100.1'
remote = '198.51.100.2'
algorithm = 'null'
out = { spi = 0x1001 }
in = { spi = 0x2001 }
[spd.edge]
rules = ['protect ip from any to any sa east']
";
        let model = crate::config::parse_str("test.toml", text).gateway.expect("a valid configuration");
        let sa = |inbound| by(&model, &TraceDecision::Sa(SaIndex(0), inbound), |_, _| None);
        assert_eq!(
            (sa(true), sa(false)),
            ("test.toml:4: of the SA east, SPI 0x2001".into(), "test.toml:4: encrypted, SPI 0x1001".into())
        );
        let none = TraceDecision::Spd(SpdIndex(0), None, SpdEffect::NoMatch);
        assert_eq!(by(&model, &none, |_, _| None), "matches no rule: edge, test.toml:10");
    }
}
