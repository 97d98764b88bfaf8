//! The reasons why decisions are not learned.

/// Why no decision is learned about packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unlearned {
    /// Nothing is in the way: too few packets have come that may take a decision.
    #[default]
    New,
    /// A rule has no flows learned.
    NoFlow,
    /// A rule of the lists matches the mark, which is no part of a flow.
    Mark,
    /// They are exempt from validation, or it looks at more than their source.
    Validation,
    /// A classifier table matches octets that are no part of a flow.
    Classify,
    /// A security policy decides about them.
    Spd,
    /// They come in by another zone with sessions, where their decisions are learned; or are decrypted between two.
    Zones,
    /// They come in by a zone without a session: the flow table has their decisions.
    Flow,
    /// They pass a zone with translations, and have none.
    Translation,
    /// They are translated: the translation has their decisions.
    Nat,
}

impl Unlearned {
    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Unlearned::New => "new",
            Unlearned::NoFlow => "no-flow",
            Unlearned::Mark => "mark",
            Unlearned::Validation => "validation",
            Unlearned::Classify => "classify",
            Unlearned::Spd => "spd",
            Unlearned::Zones => "two-zones",
            Unlearned::Flow => "flow",
            Unlearned::Translation => "translation",
            Unlearned::Nat => "nat",
        }
    }
}
