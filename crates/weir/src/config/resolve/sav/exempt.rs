//! Exemptions: rules that say which packets are not validated. Those are told of that never decide, as an earlier one matches
//! whatever they match.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_plane::model::{AclRule, Addresses, Ports, TcpFlags, Transport};

use super::super::super::declare::sav::Policy;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::Resolver;

/// Exemptions of a policy, at most.
const MOST: usize = 4096;

impl Resolver<'_> {
    /// Makes the exemptions of a policy.
    pub(super) fn exempt(&mut self, policy: &Policy) -> Arc<[AclRule]> {
        let declared = &policy.exempt;
        if let Some(rule) = declared.get(MOST) {
            let message = format!("the policy has {} exemptions, more than the {MOST} there may be", declared.len());
            self.report(Diagnostic::error(Code::LimitExceeded, rule.span, message));
            return Arc::new([]);
        }
        let rules: Arc<[AclRule]> = declared.iter().map(|rule| rule.value.model(self.origin(rule.span))).collect();
        for (at, rule) in rules.iter().enumerate() {
            if let Some(earlier) = rules[..at].iter().position(|earlier| covers(earlier, rule)) {
                let message = "this exemption never decides: an earlier one matches all that it matches";
                let found = Diagnostic::warning(Code::ShadowedRule, declared[at].span, message);
                self.report(found.related(declared[earlier].span, "this one"));
            }
        }
        rules
    }
}

/// Whether a rule matches all packets that another one matches.
fn covers(all: &AclRule, rule: &AclRule) -> bool {
    // Who asks for ports, types or flags does not ask about fragments without them.
    let asks = matches!(rule.transport, Transport::Ports { .. } | Transport::Icmp { .. });
    let fragment = rule.fragment.or(asks.then_some(false));
    all.family.is_none_or(|family| rule.family == Some(family))
        && addresses(&all.from, &rule.from)
        && addresses(&all.to, &rule.to)
        && transport(&all.transport, &rule.transport)
        && all.fragment.is_none_or(|wanted| fragment == Some(wanted))
        && all.dscp.is_none_or(|wanted| rule.dscp == Some(wanted))
}

/// Of rules of one family.
fn addresses(all: &Addresses, of: &Addresses) -> bool {
    let span = |addresses: &Addresses| match addresses {
        Addresses::Any => None,
        Addresses::Net(net) => Some((net.network(), net.broadcast())),
        Addresses::Range(first, last) => Some((*first, *last)),
        Addresses::Group(_) => return None,
    };
    let is_whole = |(first, last): (IpAddr, IpAddr)| match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => u32::from(first) == 0 && u32::from(last) == u32::MAX,
        (IpAddr::V6(first), IpAddr::V6(last)) => u128::from(first) == 0 && u128::from(last) == u128::MAX,
        _ => false,
    };
    match (span(all), span(of)) {
        (None, _) => true,
        (Some(all), None) => is_whole(all),
        (Some(all), Some(of)) => all.0 <= of.0 && of.1 <= all.1,
    }
}

fn transport(all: &Transport, of: &Transport) -> bool {
    match (all, of) {
        (Transport::Any, _) => true,
        (
            Transport::Protocol(all),
            Transport::Protocol(of) | Transport::Ports { protocol: of, .. } | Transport::Icmp { protocol: of, .. },
        ) => all == of,
        (
            Transport::Ports { protocol, source, destination, flags },
            Transport::Ports { protocol: of_protocol, source: of_source, destination: of_destination, flags: of_flags },
        ) => {
            protocol == of_protocol
                && ports(source, of_source)
                && ports(destination, of_destination)
                && flags.is_none_or(|all| of_flags.is_some_and(|of| sets(all, of)))
        }
        (
            Transport::Icmp { protocol, icmp_type, code },
            Transport::Icmp { protocol: of_protocol, icmp_type: of_type, code: of_code },
        ) => protocol == of_protocol && within(icmp_type, of_type) && within(code, of_code),
        _ => false,
    }
}

/// Whether each range of one is within some range of the other.
fn ports(all: &Ports, of: &Ports) -> bool {
    of.ranges().iter().all(|of| all.ranges().iter().any(|all| within(all, of)))
}

fn within<N: PartialOrd>(all: &RangeInclusive<N>, of: &RangeInclusive<N>) -> bool {
    all.start() <= of.start() && of.end() <= all.end()
}

/// Whether flags are as one asks for wherever they are as another one does.
fn sets(all: TcpFlags, of: TcpFlags) -> bool {
    all.mask & !of.mask == 0 && of.value & all.mask == all.value
}

#[cfg(test)]
mod tests {
    use weir_plane::model::Origin;

    use super::*;
    use crate::rules::acl;

    fn rule(text: &str) -> AclRule {
        text.parse::<acl::Rule>().unwrap_or_else(|found| panic!("{text}: {found}")).model(Origin(0))
    }

    #[test]
    fn a_rule_covers_what_asks_for_more() {
        // Each covers all behind it, and none of those before it.
        for chain in [
            &["permit ip from any to any", "deny ip4 from any to any", "permit ip from 10.0.0.0/8 to any"][..],
            &["permit ip4 from any to any", "permit ip from 0.0.0.0/1 to any", "permit icmp from 10.0.0.1 to any"],
            &["permit ip from 10.0.0.0-10.0.0.255 to any", "permit ip from 10.0.0.0/25 to 10.0.0.1-10.0.0.2"],
            &[
                "permit tcp from any to any",
                "permit tcp from any to any port 0-65535",
                "permit tcp from any port 1-9 to any",
                "permit tcp from any port 1-9 to any port 80 tcp-flags syn/syn",
                "permit tcp from any port 9 to any port 80 tcp-flags syn/syn,ack dscp ef",
            ],
            &["permit ip from any to any no-fragment", "permit udp from any to any port 53"],
            &[
                "permit icmp from any to any",
                "permit icmp from any to any type 0-8",
                "permit icmp from any to any type 8 code 0",
            ],
        ] {
            for (at, text) in chain.iter().enumerate() {
                for (other, of) in chain.iter().enumerate() {
                    assert_eq!(covers(&rule(text), &rule(of)), at <= other, "{text} / {of}");
                }
            }
        }
        for (a, b) in [
            ("permit tcp from any to any", "permit udp from any to any"),
            ("permit ip4 from any to any", "permit ip6 from any to any"),
            ("permit tcp from any to any port 1-5", "permit tcp from any to any port 5-9"),
            ("permit tcp from any to any tcp-flags syn/syn", "permit tcp from any to any tcp-flags ack/ack"),
            ("permit ip from any to any fragment", "permit ip from any to any dscp ef"),
            ("permit ip from any to any fragment", "permit ip from any to any no-fragment"),
        ] {
            assert!(!covers(&rule(a), &rule(b)) && !covers(&rule(b), &rule(a)), "{a} / {b}");
        }
        let (all, both) = (rule("permit ip from ::/0 to any"), rule("permit ip6 from any to any"));
        assert!(covers(&all, &both) && covers(&both, &all));
    }
}
