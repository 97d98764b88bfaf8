//! Puts the lists of a model into force.

use std::collections::HashMap;

use super::list::{List, choice};
use super::stage::{Slot, StagedAcls};
use super::store::{Attached, Input, Store, sequence};
use crate::compile::map::Map;
use crate::model::{Gateway, PerFamily};
use crate::root::Interface;
use crate::root::acl::NONE;

impl Store {
    /// Puts it into force, and gives interfaces their chains.
    pub(in crate::compile) fn commit(
        &mut self,
        mut staged: StagedAcls,
        input: Input<'_>,
        interfaces: &mut [Interface],
    ) {
        let Input { gateway, map, .. } = input;
        let attached = self.attached(gateway, map, &staged);
        let is_fresh = |slot: &Slot| matches!(slot, Slot::Fresh(..));
        let mut differs = attached != self.attached || staged.lists.iter().chain(&staged.created).any(is_fresh);
        self.attached = attached;
        self.numbers.settle(input.domain);
        let mut gone: Vec<bool> = self.lists.iter().map(Option::is_some).collect();
        self.indices = staged.lists.iter().map(Slot::number).collect();
        let declared = gateway.acls.iter().map(Some).chain(staged.created.iter().map(|_| None)).collect::<Vec<_>>();
        for (slot, declared) in staged.lists.into_iter().chain(staged.created).zip(declared) {
            if let Some(gone) = gone.get_mut(slot.number() as usize) {
                *gone = false;
            }
            match slot {
                Slot::Keep(number, moved) => {
                    let Some(list) = self.lists[number as usize].as_mut() else { continue };
                    if let Some(moved) = moved {
                        *list = List { choice: list.choice, ..*moved };
                    }
                    let Some(declared) = declared else { continue };
                    // It means the same, and may stand elsewhere.
                    list.declared = declared.clone();
                    let choice = choice(declared, map);
                    if list.choice != choice {
                        list.choice = choice;
                        self.refresh_specials(number);
                    }
                }
                Slot::Fresh(number, list) => {
                    let choice = declared.map_or(list.choice, |declared| choice(declared, map));
                    let gone = staged.gone.remove(&number).unwrap_or_default();
                    self.put(number, List { choice, ..*list }, gone);
                }
            }
        }
        for (number, _) in (0..).zip(gone).filter(|(_, gone)| *gone) {
            self.take_out(number);
            differs = true;
        }
        if differs {
            self.count_change();
        }
        self.install(staged.arranged);
        for ((wanted, &number), &(input, output)) in
            gateway.interfaces.iter().zip(&map.interfaces).zip(&staged.interfaces)
        {
            let interface = &mut interfaces[number as usize];
            interface.acl_in = PerFamily { v4: input, v6: input };
            interface.acl_out = PerFamily { v4: output, v6: output };
            debug_assert_eq!(input == NONE, gateway.lists_of(wanted, false).is_empty());
        }
        self.access.input = staged.interfaces.iter().any(|(input, _)| *input != NONE);
        self.access.output = staged.interfaces.iter().any(|(_, output)| *output != NONE);
        self.interfaces.clone_from(&map.interfaces);
        self.declared_groups.clone_from(&gateway.groups);
        self.live_groups = staged.live_groups;
        self.lost.extend(staged.lost);
        self.show();
    }

    /// The interfaces of a model that have lists.
    fn attached(&self, gateway: &Gateway, map: &Map, staged: &StagedAcls) -> Vec<Attached> {
        let mut numbers: HashMap<&str, u32> =
            gateway.acls.iter().map(|list| list.name.as_str()).zip(staged.lists.iter().map(Slot::number)).collect();
        for number in staged.created.iter().map(Slot::number) {
            numbers.extend(self.list(number).map(|list| (&*list.name, number)));
        }
        let lists = |interface: &crate::model::Interface, output| {
            let sequence = sequence(&gateway.lists_of(interface, output), |name| numbers.get(name).copied());
            (!sequence.is_empty()).then_some(sequence)
        };
        let interfaces = gateway.interfaces.iter().zip(&map.interfaces).zip(&map.zones);
        let of = |((interface, &number), &zone): ((&crate::model::Interface, &u32), &u16)| Attached {
            interface: number,
            zone,
            lists: [lists(interface, false), lists(interface, true)],
        };
        interfaces.map(of).collect()
    }
}
