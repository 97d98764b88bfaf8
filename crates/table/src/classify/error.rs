//! Why rules are refused, and the answer where none matches.

/// The answer if no rule matches. No rule can have it as its identity.
pub const NO_RULE: u32 = u32::MAX;

/// Why rules are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are more than there is room for.
    #[error("{rules} rules are more than the {most} that there is room for")]
    TooManyRules {
        /// How many there are, or were to be.
        rules: usize,
        /// How many there can be.
        most: usize,
    },
    /// A rule has the identity [`NO_RULE`].
    #[error("the rule at place {place} has the identity that stands for no rule")]
    ReservedIdentity {
        /// Its place.
        place: u64,
    },
    /// There is a rule at a place already; the last of all places is nobody's.
    #[error("place {place} is taken")]
    PlaceTaken {
        /// The place.
        place: u64,
    },
    /// A rule names more interfaces than there is room for beside it.
    #[error("{interfaces} interfaces are more than the {most} that one rule can name")]
    TooManyInterfaces {
        /// The place of the rule.
        place: u64,
        /// How many it names.
        interfaces: usize,
        /// How many it could.
        most: usize,
    },
    /// More rules overlap than a lookup can search, and no field separates them.
    #[error(
        "more than {most} rules overlap so that no field tells them apart, and a lookup would have to search them all: \
         the rule at place {} is the first of them, and the one at place {} is too many",
        places[0], places[1]
    )]
    Overlap {
        /// How many may.
        most: usize,
        /// The places of the first of them, and of the first that is one too many.
        places: [u64; 2],
    },
    /// The memory that lookups read has no room for more.
    #[error("the {octets} octets that rules may take have no room for more than the {rules} there are")]
    Full {
        /// How many octets there may be.
        octets: usize,
        /// How many rules there are.
        rules: usize,
    },
    /// The system has no address space.
    #[error("no address space for rules: {0}")]
    AddressSpace(std::io::ErrorKind),
}
