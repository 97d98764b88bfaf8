//! Live pairs of SAs and rules of SPDs, as files of a configuration would have them.

use super::live::Live;
use crate::config::Texts;
use crate::saved::{Listed, Object, Pair, keys_of, rules_of_spd};

impl Live {
    /// Returns the pairs of SAs as the configuration would declare them.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        self.sas.iter().map(|(name, pair)| Pair { name: name.clone(), keys: pair.keys.clone() }).collect()
    }

    /// Returns the SPDs whose rules were changed.
    pub(crate) fn changed_spds(&self) -> Vec<Listed> {
        let is_changed = |over: &&crate::config::OverSpd| !over.rules.iter().map(|rule| &rule.text).eq(&over.declared);
        let listed = |over: &crate::config::OverSpd| Listed {
            name: over.name.clone(),
            rules: over.rules.iter().map(|rule| rule.text.clone()).collect(),
            default: None,
        };
        self.spds.values().filter(is_changed).map(listed).collect()
    }

    /// Returns the pairs that are being rekeyed.
    pub(crate) fn rekeying(&self) -> Vec<String> {
        self.sas.iter().filter(|(_, pair)| pair.next.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Ends the changes of SPDs whose rules the files have now: they were saved.
    pub(crate) fn end_saved_spds(&mut self, texts: &Texts) {
        self.spds.retain(|name, over| {
            let now = rules_of_spd(texts, name);
            !now.is_some_and(|now| now.iter().eq(over.rules.iter().map(|rule| &rule.text)))
        });
        self.removed.retain(|name, _| self.spds.contains_key(name));
    }

    /// Ends the pairs that the objects of a configuration have with the same keys: they were saved. Returns whether there
    /// were any.
    pub(crate) fn end_saved(&mut self, objects: &[Object]) -> bool {
        let before = self.sas.len();
        self.sas.retain(|name, pair| {
            let name_of = format!("sa {name}");
            let declared = objects.iter().find(|object| object.name == name_of);
            let own = keys_of(name, &pair.keys);
            pair.next.is_some() || declared.is_none_or(|object| own.as_ref() != Some(object))
        });
        self.sas.len() < before
    }
}
