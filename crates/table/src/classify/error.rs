//! Errors of classifiers, and the answer without a match.

/// Result of a lookup without a matching rule. No rule has this identity.
pub const NO_RULE: u32 = u32::MAX;

/// Reason why rules are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are more rules than the limit.
    #[error("{rules} rules are more than the {most} that there is room for")]
    TooManyRules {
        /// Number of rules.
        rules: usize,
        /// The limit.
        most: usize,
    },
    /// A rule has the identity [`NO_RULE`].
    #[error("the rule at place {place} has the identity that stands for no rule")]
    ReservedIdentity {
        /// Place of the rule.
        place: u64,
    },
    /// The place has a rule already, or is the last of all places, which is reserved.
    #[error("place {place} is taken")]
    PlaceTaken {
        /// The place.
        place: u64,
    },
    /// A rule names more interfaces than the limit.
    #[error("{interfaces} interfaces are more than the {most} that one rule can name")]
    TooManyInterfaces {
        /// The place of the rule.
        place: u64,
        /// Number of its interfaces.
        interfaces: usize,
        /// The limit.
        most: usize,
    },
    /// More rules overlap than a lookup can search, and no field separates them.
    #[error(
        "more than {most} rules overlap so that no field separates them, and a lookup would have to search them all: \
         the rule at place {} is the first of them, and the one at place {} is too many",
        places[0], places[1]
    )]
    Overlap {
        /// The limit.
        most: usize,
        /// Places of the first of them, and of the first that exceeds the limit.
        places: [u64; 2],
    },
    /// The memory of lookups is full.
    #[error("the {octets} octets that rules may take have no room for more than the {rules} there are")]
    Full {
        /// The limit in octets.
        octets: usize,
        /// Number of rules.
        rules: usize,
    },
    /// The system refused the address space.
    #[error("no address space for rules: {0}")]
    AddressSpace(std::io::ErrorKind),
}
