//! Puts the lists of a model into force.

use super::list::{List, choice};
use super::stage::{Slot, Staged};
use super::store::{Attached, Input, Store, sequence};
use crate::compile::map::Map;
use crate::model::{AclIndex, Gateway, PerFamily};
use crate::root::Interface;
use crate::root::acl::NONE;

impl Store {
    /// Puts it into force, and gives interfaces their chains.
    pub(in crate::compile) fn commit(&mut self, mut staged: Staged, input: Input<'_>, interfaces: &mut [Interface]) {
        let Input { gateway, map, .. } = input;
        let attached = attached(gateway, map, &staged);
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
                        list.order = moved.order;
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
            debug_assert_eq!(input == NONE, wanted.access.acl_in.is_empty());
        }
        self.access.input = staged.interfaces.iter().any(|(input, _)| *input != NONE);
        self.access.output = staged.interfaces.iter().any(|(_, output)| *output != NONE);
        self.interfaces.clone_from(&map.interfaces);
        self.declared_groups.clone_from(&gateway.groups);
        self.live_groups = staged.live_groups;
        self.lost.extend(staged.lost);
        self.show();
    }
}

/// The interfaces of a model that have lists.
fn attached(gateway: &Gateway, map: &Map, staged: &Staged) -> Vec<Attached> {
    let lists = |named: &[AclIndex]| {
        (!named.is_empty()).then(|| sequence(named, |index| staged.lists[usize::from(index.0)].number()))
    };
    let interfaces = gateway.interfaces.iter().zip(&map.interfaces).zip(&map.zones);
    let of = |((interface, &number), &zone): ((&crate::model::Interface, &u32), &u16)| Attached {
        interface: number,
        zone,
        lists: [lists(&interface.access.acl_in), lists(&interface.access.acl_out)],
    };
    interfaces.map(of).collect()
}
