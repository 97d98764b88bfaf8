//! Changes of rules: each translation's first packet is matched again.

use crate::mapping::{Endpoint, Mapping};
use crate::mutant::Mutant;
use crate::policy::{has_parity, ports};
use crate::rules::Lists;
use crate::translator::{CHANGES, Counts, Limited, Session, Share, Translator};

/// The future of a translation.
pub enum Fate {
    Ends,
    Stays { limited: Option<Limited>, list: Share, mappings: Vec<Mapping> },
}

impl Translator {
    /// Puts other rules into force, unless docs/nat.md leaves open which of several mappings stays; returns whether it did.
    pub fn change(&mut self, lists: Lists, now: u64, counts: &mut Counts) -> bool {
        let old = std::mem::replace(&mut self.lists, lists);
        let fates: Vec<Fate> = self.live.clone().into_iter().map(|number| self.fate(number)).collect();
        let mappings: Vec<&Mapping> = fates
            .iter()
            .flat_map(|fate| match fate {
                Fate::Ends => &[][..],
                Fate::Stays { mappings, .. } => mappings,
            })
            .collect();
        if !are_clear(&mappings) {
            self.lists = old;
            return false;
        }
        self.settled = now + CHANGES;
        // A mapping may go over to another target: all are released first.
        let mut held: Vec<Mapping> = Vec::new();
        for (number, fate) in self.live.clone().into_iter().zip(fates) {
            match fate {
                Fate::Ends if self.is(Mutant::KeepsChanged) => {}
                Fate::Stays { limited, list, mappings } if !self.is(Mutant::EndsAll) => {
                    let session = self.sessions[number].as_mut().expect("it is alive");
                    let old_list = std::mem::replace(&mut session.shares[1], list);
                    if old_list != list {
                        // The gateway may count it for the old list until it matches it again.
                        self.gone_shares.push(([old_list; 2], now + CHANGES));
                    }
                    let old = std::mem::replace(&mut session.limited, limited);
                    let old_mappings = std::mem::replace(&mut session.mappings, mappings.clone());
                    if old != limited {
                        self.uncount(old, now + CHANGES);
                        self.count(limited);
                    }
                    old_mappings.iter().for_each(|mapping| self.mappings.release(mapping, now + CHANGES));
                    held.extend(mappings);
                    counts.add("kept by a reload");
                }
                _ => {
                    self.end(number, now + CHANGES);
                    counts.add("ended by a reload");
                }
            }
        }
        held.iter().for_each(|mapping| self.mappings.hold(mapping));
        self.mappings.begin_vector();
        self.live.retain(|&number| self.sessions[number].is_some());
        true
    }

    /// The future of a translation under the rules in force.
    fn fate(&mut self, number: usize) -> Fate {
        let session = self.session(number);
        let Session { came, left, .. } = *session;
        let entry = session.entries[0];
        let reached = session.reached.clone();
        let decision = match &reached {
            Some(mapping) => self.decide_mapped(entry, &came, mapping),
            None => self.decide_ruled(entry, &came),
        };
        if !(decision.hit || decision.rule.is_some()) || decision.to != (left.destination, left.dport) {
            return Fate::Ends;
        }
        let list = Share::List(decision.begins.unwrap_or(entry));
        let mut mappings: Vec<Mapping> = decision.mapping.into_iter().collect();
        let Some((rule, edge)) = decision.rule else {
            return match (left.source, left.sport) == (came.source, came.sport) {
                true => Fate::Stays { limited: None, list, mappings },
                false => Fate::Ends,
            };
        };
        let addresses = self.addresses(rule, edge, came.source);
        let maps = self.maps(rule, edge, &came);
        let keeps_parity = maps || !has_parity(rule, &came) || left.sport % 2 == came.sport % 2;
        if !addresses.contains(&left.source) || !ports(rule, &came).contains(&left.sport) || !keeps_parity {
            return Fate::Ends;
        }
        if maps {
            let target = rule.source.clone().expect("the rule gives sources");
            mappings.push(Mapping { edge, target, inside: Endpoint::source(&came), outside: Endpoint::source(&left) });
        }
        let limited = rule.limit.map(|_| rule.clone());
        let limited = limited.map(|rule| (edge, self.limit(&rule), self.layout.vrf(entry), came.source));
        Fate::Stays { limited, list, mappings }
    }
}

/// Whether there is one mapping for each inside endpoint and each outside endpoint.
fn are_clear(mappings: &[&Mapping]) -> bool {
    let mut sorted: Vec<&Mapping> = mappings.to_vec();
    let ends: [fn(&Mapping) -> Endpoint; 2] = [|mapping| mapping.inside, |mapping| mapping.outside];
    for by in ends {
        sorted.sort_by_key(|mapping| by(mapping));
        sorted.dedup();
        for group in sorted.chunk_by(|one, other| by(one) == by(other)) {
            if group.iter().any(|one| group.iter().any(|other| one.excludes(other))) {
                return false;
            }
        }
    }
    true
}
