//! Faults that the test puts into the oracle, each against one rule: the comparison with the graph has to find every one.

/// A rule that the oracle breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Packets from all outside endpoints reach a mapping (RFC 4787, REQ-8, forgotten).
    FiltersNothing,
    /// A second destination gets another outside endpoint (RFC 4787, REQ-1).
    MapsByDestination,
    /// A packet from inside does not reach the outside endpoint of a mapping (RFC 4787, REQ-9).
    HairpinsNothing,
    /// Two inside endpoints never have one outside endpoint, though their destinations differ.
    SharesNoPorts,
    /// The source port or identifier stays.
    KeepsPorts,
    /// An inside address gets the first address of a target (RFC 4787, REQ-2, is about the same one).
    GivesFirstAddress,
    /// Packets from inside restart no time (RFC 4787, REQ-6).
    RefreshesByReplies,
    /// A RST ends a translation (RFC 7857, 2.2, forgotten).
    EndsAtReset,
    /// The first FIN gives the time of the second one.
    EndsAtFirstFin,
    /// A SYN from outside belongs to a connection that has closed.
    ReopensFromOutside,
    /// An ICMP error ends the translation (RFC 4787, REQ-12; RFC 5382, REQ-10).
    EndsAtError,
    /// An ICMP error leaves with the packet that it quotes as it came (RFC 5508, REQ-4).
    LeavesQuotes,
    /// An ICMP error from a router inside keeps its source (RFC 5508, REQ-5).
    LeavesSourcesOfErrors,
    /// Rules that change end none of their translations.
    KeepsChanged,
    /// Rules that change end all translations.
    EndsAll,
    /// The last rule that matches decides.
    LastMatch,
    /// An address has one translation more than its limit.
    LimitIsLate,
    /// A VRF or a list has one translation more than its limit.
    SharedLimitIsLate,
    /// Datagrams without a checksum get one (RFC 768).
    SumsUnsummed,
    /// A time-out is a fifth longer.
    WaitsLonger,
    /// No segment size is lowered.
    ClampsNothing,
    /// Half-open translations have no bound.
    BoundsNothing,
}

impl Mutant {
    pub const ALL: [Mutant; 22] = [
        Mutant::FiltersNothing,
        Mutant::MapsByDestination,
        Mutant::HairpinsNothing,
        Mutant::SharesNoPorts,
        Mutant::KeepsPorts,
        Mutant::GivesFirstAddress,
        Mutant::RefreshesByReplies,
        Mutant::EndsAtReset,
        Mutant::EndsAtFirstFin,
        Mutant::ReopensFromOutside,
        Mutant::EndsAtError,
        Mutant::LeavesQuotes,
        Mutant::LeavesSourcesOfErrors,
        Mutant::KeepsChanged,
        Mutant::EndsAll,
        Mutant::LastMatch,
        Mutant::LimitIsLate,
        Mutant::SharedLimitIsLate,
        Mutant::SumsUnsummed,
        Mutant::WaitsLonger,
        Mutant::ClampsNothing,
        Mutant::BoundsNothing,
    ];
}
