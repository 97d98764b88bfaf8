//! Line cards: each interface belongs to one at most.

use std::collections::HashMap;

use weir_plane::model::LineCard;

use super::super::super::declare::Kind;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::Resolver;

impl Resolver<'_> {
    /// Makes the line cards of the model.
    pub(in super::super) fn line_cards(&mut self) -> Vec<LineCard> {
        let declared = self.declared;
        let mut names: HashMap<&str, Span> = HashMap::new();
        // The card of each declared interface that is named, and where.
        let mut card_of: HashMap<usize, (usize, Span)> = HashMap::new();
        let mut cards = Vec::with_capacity(declared.line_cards.len());
        for card in &declared.line_cards {
            if let Some(&first) = names.get(card.name.value.as_str()) {
                let message = format!("there are two line cards `{}`", card.name.value);
                let found = Diagnostic::error(Code::DuplicateName, card.name.span, message);
                self.report(found.related(first, "first here"));
            }
            names.entry(&card.name.value).or_insert(card.name.span);
            for name in &card.interfaces {
                let Some(at) = self.interface(name) else { continue };
                if let Some(&(_, first)) = card_of.get(&at) {
                    let message = format!("`{}` stands in two line cards, or twice in one", name.value);
                    let found = Diagnostic::error(Code::LineCard, name.span, message);
                    self.report(found.related(first, "first here"));
                    continue;
                }
                card_of.insert(at, (cards.len(), name.span));
            }
            let origin = self.origin(card.name.span);
            cards.push(LineCard { name: card.name.value.clone(), interfaces: Vec::new(), origin });
        }
        for (at, interface) in declared.interfaces.iter().enumerate() {
            // A VLAN sits where its parent does, unless it is named itself.
            let parent = match &interface.kind {
                Some(Kind::Vlan { parent, .. }) => self.interfaces.get(parent.value.as_str()),
                _ => None,
            };
            let card = card_of.get(&at).or_else(|| card_of.get(parent?));
            if let (Some(&(card, _)), Some(index)) = (card, self.index_of[at]) {
                cards[card].interfaces.push(index);
            }
        }
        for card in &mut cards {
            card.interfaces.sort_unstable();
        }
        cards
    }
}
