//! The decisions about traced packets, in words.

use weir_plane::compile::Named;
use weir_plane::engine::TraceDecision;
use weir_plane::graph::record::{Miss, Role};
use weir_plane::model::{Gateway, Origin};

use crate::replay::access::acl_rule;
use crate::replay::nat::{effect_words, nat};
use crate::replay::spd::{effect_words as policy_effect, spd};
use crate::replay::validation::Rule;
use crate::rules::binding::Binding;

/// Says what decided: the list or policy, where the rule was declared, and the rule.
pub(super) fn by(model: &Gateway, decision: &TraceDecision) -> String {
    let rule = |named: &Named| {
        let rule = Rule::at(named, model.origins.place(named.origin));
        format!("{}: {}", rule.whence(), rule.rule)
    };
    let at = |text: &str, origin: Origin| rule(&Named { text: text.to_owned(), origin, said: None });
    match decision {
        TraceDecision::Acl(decision, role) => {
            let session = match role {
                None => "",
                Some(Role::Opens) => "opens a session: ",
                Some(Role::Original) => "of a session, opened by ",
                Some(Role::Reply) => "a session's reply, opened by ",
                Some(Role::Error) => "an error about a session, opened by ",
            };
            format!("{session}{}, {}", decision.list, rule(&acl_rule(model, decision)))
        }
        TraceDecision::Bindings(decision) => match model.bindings.get(usize::from(decision.list.0)) {
            Some(list) => {
                let rule = decision.rule.and_then(|rule| list.rules.get(rule));
                let (text, origin) = rule.map_or_else(
                    || ("no rule matches".to_owned(), list.origin),
                    |rule| (Binding::of(rule).to_string(), rule.origin),
                );
                format!("{}, {}", list.name, at(&text, origin))
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Allowlist(listed) => match model.allowlists.get(usize::from(listed.list.0)) {
            Some(list) => {
                let (text, origin) = match listed.within {
                    None => ("it does not contain the source".to_owned(), list.origin),
                    Some((prefix, origin)) if listed.contains => (prefix.to_string(), origin),
                    Some((prefix, origin)) => (format!("{prefix} is discarded"), origin),
                };
                format!("{}, {}", list.name, at(&text, origin))
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Sav { policy, origin, decision: None } => format!("{policy}, {}", at("the policy", *origin)),
        TraceDecision::Sav { policy, origin, decision: Some(decision) } => match decision.by.first() {
            Some(named) => format!("{policy}, {} ({})", rule(named), decision.why),
            None => format!("{policy}, {}", at(&decision.why, *origin)),
        },
        TraceDecision::Ethertypes(origin) => at("the ethertypes of the interface", *origin),
        TraceDecision::Flow(miss) => match miss {
            None => "other packets of the flow take a learned decision; a traced packet walks",
            Some(Miss::New) => "nothing is learned about the flow",
            Some(Miss::Changed) => "something has changed since the flow was decided",
            Some(Miss::Differs) => {
                "a rule compares a field in which the packet differs from those of the learned decision"
            }
        }
        .to_owned(),
        TraceDecision::Nat(list, place, effect) => match nat(model, *list, *place) {
            Some((list, named)) => format!("{}: {list}, {}", effect_words(effect), rule(&named)),
            None => GONE.to_owned(),
        },
        TraceDecision::Spd(index, None, effect) => match spd(model, *index, None) {
            Some((name, named)) => {
                let place = Rule::at(&named, model.origins.place(named.origin));
                format!("{}: {name}, {}", policy_effect(*effect), place.whence())
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Spd(index, place, effect) => match spd(model, *index, *place) {
            Some((name, named)) => format!("{}: {name}, {}", policy_effect(*effect), rule(&named)),
            None => GONE.to_owned(),
        },
        TraceDecision::Sa(sa, inbound) => match model.sas.get(sa.0 as usize) {
            Some(sa) => {
                let spi = if *inbound { &sa.inbound } else { &sa.outbound };
                let spi = spi.as_ref().map_or_else(String::new, |own| format!(", SPI {:#x}", own.spi));
                // The node of packets that leave names the SA itself.
                at(&if *inbound { format!("of the SA {}{spi}", sa.name) } else { format!("encrypted{spi}") }, sa.origin)
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Tunnel(index, inbound) => match model.interfaces.get(index.0 as usize) {
            Some(interface) => {
                let effect = if *inbound { "out of the tunnel" } else { "into the tunnel" };
                at(&format!("{effect} {}", interface.name), interface.origin)
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Merged(index, output) => match model.interfaces.get(index.0 as usize) {
            Some(interface) => {
                let way = if *output { "leaving by" } else { "that came in by" };
                at(&format!("merged with others {way} {}", interface.name), interface.origin)
            }
            None => GONE.to_owned(),
        },
        TraceDecision::Bridge(index, way) => match model.bridges.get(usize::from(index.0)) {
            Some(bridge) => at(&format!("{way}: bridge {}", bridge.name), bridge.origin),
            None => GONE.to_owned(),
        },
        TraceDecision::Gone => GONE.to_owned(),
    }
}

const GONE: &str = "the deciding rule, list or SA is not in force any more";

#[cfg(test)]
mod tests {
    use weir_plane::model::{SaIndex, SpdIndex};
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
        let sa = |inbound| by(&model, &TraceDecision::Sa(SaIndex(0), inbound));
        assert_eq!(
            (sa(true), sa(false)),
            ("test.toml:4: of the SA east, SPI 0x2001".into(), "test.toml:4: encrypted, SPI 0x1001".into())
        );
        let none = TraceDecision::Spd(SpdIndex(0), None, SpdEffect::NoMatch);
        assert_eq!(by(&model, &none), "matches no rule: edge, test.toml:10");
    }
}
