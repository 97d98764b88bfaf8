//! Compiles the staged lists of a model into sections and chains.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::bounds::{table_full, too_many_sequences};
use super::chains::next_number;
use super::list::List;
use super::section::Sequence;
use super::stage::{Slot, StagedAcls};
use super::store::{Input, Store, sequence};
use crate::compile::table_full::TableFull;
use crate::model::Interface;
use crate::root::acl::NONE;

impl Store {
    /// Compiles staged lists into chains.
    pub(in crate::compile) fn prepare(&self, input: Input<'_>, staged: &mut StagedAcls) -> Result<(), TableFull> {
        let is_fresh = |slot: &&Slot| matches!(slot, Slot::Fresh(..));
        let fresh: HashSet<u32> = staged.lists.iter().filter(is_fresh).map(Slot::number).collect();
        // By the indices of this model, by which sections are built.
        let now: HashMap<u32, &List> = staged
            .lists
            .iter()
            .filter_map(|slot| match slot {
                Slot::Keep(_, None) => None,
                Slot::Keep(number, Some(list)) | Slot::Fresh(number, list) => Some((*number, &**list)),
            })
            .collect();
        let list = |number: u32| -> &List {
            let kept = || self.list(number).expect("a chain's list");
            now.get(&number).copied().unwrap_or_else(kept)
        };
        let mut known: HashMap<Sequence, u16> = HashMap::new();
        let mut sequences = Vec::new();
        let mut numbers: HashMap<&str, u32> = input
            .gateway
            .acls
            .iter()
            .map(|list| list.name.as_str())
            .zip(staged.lists.iter().map(Slot::number))
            .collect();
        for number in staged.created.iter().map(Slot::number) {
            numbers.extend(self.list(number).map(|list| (&*list.name, number)));
        }
        let mut chain = |interface: &Interface, output: bool| -> Result<u16, TableFull> {
            let named = input.gateway.lists_of(interface, output);
            let sequence = sequence(&named, |name| numbers.get(name).copied());
            if sequence.is_empty() {
                return Ok(NONE);
            }
            if let Some(&number) = known.get(&sequence) {
                return Ok(number);
            }
            let number = next_number(sequences.len()).ok_or_else(|| too_many_sequences(input.gateway, named[0]))?;
            known.insert(Arc::clone(&sequence), number);
            sequences.push(sequence);
            Ok(number)
        };
        let mut interfaces = Vec::with_capacity(input.gateway.interfaces.len());
        for interface in &input.gateway.interfaces {
            interfaces.push((chain(interface, false)?, chain(interface, true)?));
        }
        let anew = staged.lists.iter().chain(&staged.created).filter_map(|slot| match slot {
            Slot::Fresh(number, list) => Some((*number, self.only_before(*number, list))),
            Slot::Keep(..) => None,
        });
        staged.gone = anew.collect();
        let is_new = |number: u32| fresh.contains(&number);
        let arranged = self.compiled.arrange(input.means(), sequences, list, is_new);
        staged.arranged = arranged.map_err(|full| table_full(full, list))?;
        staged.interfaces = interfaces;
        Ok(())
    }
}
