//! The result of a lookup: a word with the action and the rule that decided.

/// Rules that there can be, over all lists.
pub const MOST_NUMBERS: u32 = (1 << 29) - 1;

/// The action for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It goes on.
    Permit,
    /// It is dropped.
    Deny,
    /// The packet is dropped, and the rejection reported to its source.
    Reject,
}

/// A rule's number, what it does, and whether there is more to it: a classifier has it as the rule's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found(u32);

impl Found {
    const SPECIAL: u32 = 1 << 2;

    /// No rule matched: the next chain applies.
    pub const NEXT: Found = Found(3);

    /// Of a rule with a number below [`MOST_NUMBERS`]. `special`: its page has a [`Special`](super::Special) for it.
    pub fn new(number: u32, action: Action, special: bool) -> Found {
        debug_assert!(number < MOST_NUMBERS);
        Found(number << 3 | if special { Self::SPECIAL } else { 0 } | action as u32)
    }

    /// Reads the identity that a classifier returned.
    #[inline(always)]
    pub fn of(identity: u32) -> Found {
        Found(identity)
    }

    /// Returns the identity for a classifier. It is never [`NO_RULE`](weir_table::classify::NO_RULE).
    pub fn identity(self) -> u32 {
        self.0
    }

    /// The rule permits, and there is nothing more to it.
    #[inline(always)]
    pub fn just_permits(self) -> bool {
        self.0 & 7 == Action::Permit as u32
    }

    /// Returns the action. An identity that is not a rule denies.
    #[inline(always)]
    pub fn action(self) -> Action {
        match self.0 & 3 {
            0 => Action::Permit,
            2 => Action::Reject,
            _ => Action::Deny,
        }
    }

    /// There is more to it.
    #[inline(always)]
    pub fn is_special(self) -> bool {
        self.0 & Self::SPECIAL != 0
    }

    /// The rule's number.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0 >> 3
    }
}

#[cfg(test)]
mod tests {
    use weir_table::classify::NO_RULE;

    use super::*;

    #[test]
    fn words_say_what_they_were_made_of() {
        for number in [0, 1, 1023, 1024, MOST_NUMBERS - 1] {
            for action in [Action::Permit, Action::Deny, Action::Reject] {
                for special in [false, true] {
                    let found = Found::of(Found::new(number, action, special).identity());
                    assert_eq!((found.number(), found.action(), found.is_special()), (number, action, special));
                    assert_eq!(found.just_permits(), action == Action::Permit && !special);
                    assert_ne!(found.identity(), NO_RULE);
                }
            }
        }
        assert_eq!(Found::of(NO_RULE).action(), Action::Deny);
        assert!(!Found::of(NO_RULE).just_permits());
    }
}
