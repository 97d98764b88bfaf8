//! A reading: what the control socket says about the gateway at one moment.

use std::time::Instant;

use crate::control::client::{Client, ClientError};
use crate::control::refusal::Kind;
use crate::render::acl::Acls;
use crate::render::acl::rules::Rules;
use crate::render::bindings::Bindings;
use crate::render::errors::Errors;
use crate::render::flows::Flows;
use crate::render::interfaces::Interfaces;
use crate::render::nat::NatRules;
use crate::render::runtime::Runtime;
use crate::render::sav::dry_run::DryRun;
use crate::render::spd::Spds;
use crate::render::steer::Steers;
use crate::render::version::Version;

/// Rules in a reading, at most. Text and counters of so many take the gateway some 20 ms.
pub(super) const RULES: usize = 10_000;

/// Sessions in a reading, at most: those with the most packets.
pub(super) const FLOWS: usize = 2000;

/// Invalid sources in a reading, at most: those with the most packets.
pub(super) const INVALID: usize = 500;

/// Parts of a reading that take the gateway longer, and that only some views show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Rules of access lists, NAT, SPDs, steer rules and bindings.
    pub(super) rules: bool,
    /// Sessions.
    pub(super) flows: bool,
    /// Invalid sources of source address validation.
    pub(super) invalid: bool,
}

/// A reading.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// When it was taken.
    pub(super) taken: Instant,
    pub(super) version: Version,
    pub(super) runtime: Runtime,
    pub(super) errors: Errors,
    pub(super) interfaces: Interfaces,
    pub(super) rules: Option<Counted>,
    pub(super) flows: Option<Flows>,
    pub(super) invalid: Option<DryRun>,
}

/// The rules of a gateway with their counters.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counted {
    pub(super) rules: Vec<Rule>,
    /// Rules beyond [`RULES`].
    pub(super) left_out: usize,
}

/// A rule and what it has matched.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    /// The kind and name of its list.
    pub(super) list: String,
    /// Its id; the place, in an SPD.
    pub(super) id: u64,
    /// Packets that it matched.
    pub(super) packets: u64,
    /// Their octets.
    pub(super) bytes: u64,
    /// Itself.
    pub(super) rule: String,
}

impl Reading {
    /// Reads the counters of a gateway and these parts.
    ///
    /// # Errors
    /// When there is no gateway, or no answer.
    pub(super) fn take(client: &Client, parts: Parts) -> Result<Reading, ClientError> {
        let (version, _) = client.show::<Version>("/v1/show/version")?;
        let (runtime, _) = client.show::<Runtime>("/v1/show/runtime")?;
        let taken = Instant::now();
        let (errors, _) = client.show::<Errors>("/v1/show/errors")?;
        let (interfaces, _) = client.show::<Interfaces>("/v1/show/interfaces")?;
        let rules = parts.rules.then(|| Counted::take(client)).transpose()?;
        let target = format!("/v1/show/flows?sort=packets&limit={FLOWS}");
        let flows = parts.flows.then(|| client.show::<Flows>(&target)).transpose()?.map(|(flows, _)| flows);
        let target = format!("/v1/sav/dry-run?top={INVALID}");
        let invalid = parts.invalid.then(|| client.show::<DryRun>(&target)).transpose()?.map(|(run, _)| run);
        Ok(Reading { taken, version, runtime, errors, interfaces, rules, flows, invalid })
    }
}

impl Counted {
    fn take(client: &Client) -> Result<Counted, ClientError> {
        let mut counted = Counted::default();
        let (acls, _) = client.show::<Acls>("/v1/acl")?;
        for list in acls.lists {
            let room = RULES.saturating_sub(counted.rules.len());
            let target = format!("/v1/acl/{}?limit={room}", list.name);
            match client.show::<Rules>(&target) {
                Ok((rules, _)) => counted.add_list(rules),
                // The list was removed since.
                Err(ClientError::Refused(refusal)) if refusal.kind == Kind::UnknownList => {}
                Err(error) => return Err(error),
            }
        }
        counted.add_translations(client.show::<NatRules>("/v1/show/nat/rules")?.0);
        counted.add_policies(client.show::<Spds>("/v1/show/spd")?.0);
        counted.add_steering(client.show::<Steers>("/v1/show/steer")?.0);
        counted.add_bindings(client.show::<Bindings>("/v1/show/bindings")?.0);
        Ok(counted)
    }

    fn add(&mut self, rule: Rule) {
        if self.rules.len() < RULES {
            self.rules.push(rule);
        } else {
            self.left_out += 1;
        }
    }

    fn add_list(&mut self, rules: Rules) {
        self.left_out += rules.total.saturating_sub(rules.rules.len());
        let list = format!("acl {}", rules.list);
        for rule in rules.rules {
            let (list, id) = (list.clone(), rule.id.into());
            self.add(Rule { list, id, packets: rule.hits.packets, bytes: rule.hits.bytes, rule: rule.rule });
        }
    }

    fn add_translations(&mut self, rules: NatRules) {
        for list in rules.lists {
            for rule in list.rules {
                let (list, id) = (format!("nat {}", list.name), rule.id.into());
                self.add(Rule { list, id, packets: rule.packets, bytes: rule.bytes, rule: rule.rule });
            }
        }
    }

    pub(super) fn add_steering(&mut self, steers: Steers) {
        for list in steers.steer {
            for rule in list.rules {
                let (list, id) = (format!("steer {}", list.name), rule.id.into());
                self.add(Rule { list, id, packets: rule.packets, bytes: rule.bytes, rule: rule.rule });
            }
        }
    }

    pub(super) fn add_bindings(&mut self, all: Bindings) {
        for list in all.bindings {
            for rule in list.rules {
                let (list, id) = (format!("mac-ip {}", list.name), rule.id.into());
                self.add(Rule { list, id, packets: rule.hits.packets, bytes: rule.hits.bytes, rule: rule.rule });
            }
        }
    }

    fn add_policies(&mut self, spds: Spds) {
        for spd in spds.spds {
            for (place, rule) in (1..).zip(spd.rules) {
                let (out, input) = (rule.out, rule.input);
                self.add(Rule {
                    list: format!("spd {}", spd.name),
                    id: place,
                    packets: out.packets + input.packets,
                    bytes: out.bytes + input.bytes,
                    rule: rule.rule,
                });
            }
        }
    }
}
