//! The problems of a configuration, as values.

use super::source::Span;
use crate::suggest::closest;

/// Findings shown of one list of routes, and of the rules of one policy: the millionth wrong line teaches nothing new.
pub(super) const SHOWN: usize = 20;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It is accepted, but probably not what was meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Declares the codes once: the enum, their names and the list of all.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The kinds of findings. Their kebab-case names are stable: scripts may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant,)+];

            /// The stable name, e.g. `unknown-key`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $name,)+
                }
            }

            /// Describes the problem in one line.
            pub fn description(self) -> &'static str {
                match self {
                    $(Code::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

codes! {
    /// A file cannot be read.
    FileUnreadable = "file-unreadable",
    /// A file is larger than weir reads.
    FileTooLarge = "file-too-large",
    /// A file is not UTF-8.
    NotUtf8 = "not-utf8",
    /// A file includes itself, directly or through others.
    IncludeCycle = "include-cycle",
    /// A file is included twice.
    IncludeTwice = "include-twice",
    /// The text is not TOML.
    Syntax = "syntax",
    /// `version` is missing or not 1.
    Version = "version",
    /// A key that does not exist.
    UnknownKey = "unknown-key",
    /// A key that must be there is not.
    MissingKey = "missing-key",
    /// Keys that exclude each other, or a key that has no meaning beside another.
    ConflictingKeys = "conflicting-keys",
    /// A value of the wrong TOML type.
    WrongType = "wrong-type",
    /// A number outside its range.
    OutOfRange = "out-of-range",
    /// A list that must not be empty is, or one that does nothing then.
    EmptyList = "empty-list",
    /// A word that is none of those allowed here, or a text that cannot be understood.
    InvalidValue = "invalid-value",
    /// A name with characters or a length that names cannot have.
    InvalidName = "invalid-name",
    /// Not an IP address.
    InvalidAddress = "invalid-address",
    /// Not an IP prefix.
    InvalidPrefix = "invalid-prefix",
    /// Not a range, or a range whose end lies before its start.
    InvalidRange = "invalid-range",
    /// Not a MAC address of one host.
    InvalidMac = "invalid-mac",
    /// A rule, or a list of rules, that cannot be understood.
    InvalidRule = "invalid-rule",
    /// An interface that is not declared.
    UnknownInterface = "unknown-interface",
    /// A VRF that is not declared.
    UnknownVrf = "unknown-vrf",
    /// A policy of source address validation that is not declared.
    UnknownPolicy = "unknown-policy",
    /// A sampler that is not declared.
    UnknownSampler = "unknown-sampler",
    /// A group that is not declared.
    UnknownGroup = "unknown-group",
    /// An access list that is not declared.
    UnknownList = "unknown-list",
    /// An allowlist that is not declared.
    UnknownAllowlist = "unknown-allowlist",
    /// Bindings of hardware addresses that are not declared.
    UnknownBindings = "unknown-bindings",
    /// A classifier table that is not declared.
    UnknownClassify = "unknown-classify",
    /// A chain of classifier tables that leads back to itself.
    ClassifyCircle = "classify-circle",
    /// Warning: a session of a classifier table that only frames could match that are not IP.
    ClassifyNotIp = "classify-not-ip",
    /// A list of NAT rules that is not declared.
    UnknownNat = "unknown-nat",
    /// Warning: an outside address of a NAT rule that is on a link, where nobody answers for it.
    NatAddressUnanswered = "nat-address-unanswered",
    /// Warning: an outside address of a NAT rule that a route leads away from the gateway.
    NatPoolLoops = "nat-pool-loops",
    /// Warning: a NAT rule about destinations that overlaps an earlier one with another target.
    NatOverlap = "nat-overlap",
    /// Warning: a NAT rule about both families whose interface has addresses of one.
    NatOneFamily = "nat-one-family",
    /// Warning: an inside target of a NAT rule that no route leads to.
    NatUnrouted = "nat-unrouted",
    /// Warning: a NAT rule to a host behind an interface with `nat`, which keeps its VRF on one worker.
    NatWorker = "nat-worker",
    /// Warning: a limit on the translations of a VRF or list that has none.
    NatLimitUnused = "nat-limit-unused",
    /// Warning: a NAT rule that changes addresses by which a security policy would protect packets.
    NatBeforeSpd = "nat-before-spd",
    /// Warning: a rule that protects destinations of which a route leaves by an interface without an SPD.
    PastSpd = "past-spd",
    /// A security policy database that is not declared.
    UnknownSpd = "unknown-spd",
    /// A list of steer rules that is not declared.
    UnknownSteer = "unknown-steer",
    /// A steer rule whose packets pass by checks of their interface, and that does not say `unchecked`. Warning: one that
    /// says so.
    SteerUnchecked = "steer-unchecked",
    /// A steer rule that moves packets to a worker that is not there, or away from their sessions or translations.
    SteerQueue = "steer-queue",
    /// An SA that is not declared.
    UnknownSa = "unknown-sa",
    /// A group that is in itself, directly or by others.
    GroupCycle = "group-cycle",
    /// A zone with interfaces of several VRFs. Warning: a zone with the name of a VRF, which is another one than the
    /// VRF's.
    ZoneVrfs = "zone-vrfs",
    /// A zone of one interface has nearly the name of another zone.
    ZoneName = "zone-name",
    /// Warning: a list that opens sessions, where no list is in the way of their replies.
    NeedlessReflect = "needless-reflect",
    /// Warning: an interface that is trusted, where nothing is learned.
    NeedlessTrust = "needless-trust",
    /// Warning: a list that learns bindings in vain: its rules decide about all packets, or no server's answers are believed.
    NothingLearned = "nothing-learned",
    /// Warning: steer rules, or sessions with `via` or `vrf`, at a port of a bridge, whose frames are not routed.
    Unrouted = "unrouted",
    /// Warning: a key of `[routes]` that does nothing, as its source is not there.
    IdleRoutes = "idle-routes",
    /// Warning: a source of routes that programs of other hosts can reach.
    OpenFpm = "open-fpm",
    /// Warning: metrics that programs of other hosts can read.
    OpenMetrics = "open-metrics",
    /// Warning: an offload that no port offers.
    NoOffload = "no-offload",
    /// A list that an interface names twice.
    RepeatedList = "repeated-list",
    /// A kind of port that does not exist.
    UnknownPort = "unknown-port",
    /// A table of settings that stands in two files.
    DuplicateTable = "duplicate-table",
    /// Two objects of one kind with one name.
    DuplicateName = "duplicate-name",
    /// A core that two workers would be pinned to.
    DuplicateCore = "duplicate-core",
    /// As many cores as workers are needed.
    CoreCount = "core-count",
    /// Warning: a core that this machine does not have.
    UnknownCore = "unknown-core",
    /// Tables that this machine, or the control group, has no memory for.
    BeyondMemory = "beyond-memory",
    /// Too few buffers for the workers and queues.
    TooFewBuffers = "too-few-buffers",
    /// More objects than `[limits]` allows, or than weir can hold.
    LimitExceeded = "limit-exceeded",
    /// A key file that cannot be used.
    KeyFile = "key-file",
    /// Rules of an SPD that the control socket changed, and that do not fit the configuration any more.
    LiveRules = "live-rules",
    /// Two SAs with one SPI to one receiver.
    DuplicateSpi = "duplicate-spi",
    /// A key that two SAs have.
    KeyReused = "key-reused",
    /// Warning: an outbound SA without a directory to reserve sequence numbers in.
    NoState = "no-state",
    /// Warning: a rule that protects packets by a pair of SAs of which none sends.
    NoOutbound = "no-outbound",
    /// Warning: an SA with an address that no interface has, or with a peer that packets cannot reach.
    SaAddress = "sa-address",
    /// Warning: a rule that protects by an SA in transport mode, and matches no packet between its ends.
    SaTransport = "sa-transport",
    /// Two tunnels whose packets are alike, or two kinds on one port.
    DuplicateTunnel = "duplicate-tunnel",
    /// Warning: a tunnel whose local address no interface has, or whose other end no route leads to but into the tunnel.
    TunnelPath = "tunnel-path",
    /// A bridge that is not declared.
    UnknownBridge = "unknown-bridge",
    /// An interface that cannot be a port of a bridge, is one twice, or has keys that have no meaning there.
    BridgePort = "bridge-port",
    /// Ports of a bridge between which frames would circle.
    BridgeLoop = "bridge-loop",
    /// Warning: a tunnel of which packets leave in clear, leave with ESP and come in clear, or are dropped by an SPD.
    TunnelUnprotected = "tunnel-unprotected",
    /// One file is written twice, or written and read.
    FileConflict = "file-conflict",
    /// Two ports or punts on one device of the kernel.
    DeviceConflict = "device-conflict",
    /// An MTU above the parent's, or below what IPv6 needs.
    Mtu = "mtu",
    /// A VLAN on a VLAN, or on itself.
    VlanParent = "vlan-parent",
    /// Two VLANs of one parent with equal tags.
    DuplicateVlan = "duplicate-vlan",
    /// An address that no host can have in its place.
    NotAHostAddress = "not-a-host-address",
    /// One address twice in a VRF.
    DuplicateAddress = "duplicate-address",
    /// Connected prefixes of two interfaces that overlap.
    OverlappingPrefixes = "overlapping-prefixes",
    /// More flows than the ranges of a stream can make.
    TooManyFlows = "too-many-flows",
    /// A frame that cannot hold its headers.
    FrameTooSmall = "frame-too-small",
    /// IPv4 where IPv6 is needed, or the reverse.
    FamilyMismatch = "family-mismatch",
    /// An interface of another VRF.
    VrfMismatch = "vrf-mismatch",
    /// A gateway that no connected prefix holds.
    GatewayUnreachable = "gateway-unreachable",
    /// A gateway that is ourselves.
    GatewayIsLocal = "gateway-is-local",
    /// A gateway whose interface does not follow from its address.
    GatewayAmbiguous = "gateway-ambiguous",
    /// An interface in two line cards, or twice in one.
    LineCard = "line-card",
    /// One prefix twice in a VRF, with one metric.
    DuplicateRoute = "duplicate-route",
    /// One path twice in a route.
    DuplicatePath = "duplicate-path",
    /// One neighbour twice on an interface.
    DuplicateNeighbor = "duplicate-neighbor",
    /// A neighbour that is ourselves.
    NeighborIsLocal = "neighbor-is-local",
    /// Further findings of a list of routes or rules that are not shown.
    More = "more",
    /// Warning: a prefix with bits set behind its length.
    HostBits = "host-bits",
    /// Warning: a rule that says again what an earlier one says.
    DuplicateRule = "duplicate-rule",
    /// Warning: a prefix that stands twice in a list.
    DuplicatePrefix = "duplicate-prefix",
    /// Warning: rules for one prefix that differ.
    ConflictingRules = "conflicting-rules",
    /// Warning: a rule that never decides, because earlier ones always do.
    ShadowedRule = "shadowed-rule",
    /// Warning: a file of rules, prefixes or routes that has none.
    EmptyFile = "empty-file",
    /// Warning: an interface by which no source may come in.
    NothingValid = "nothing-valid",
    /// Warning: a list of sources that forgets the prefix of an interface's own link.
    LinkNotValid = "link-not-valid",
    /// Warning: a neighbour that no route leads to.
    NeighborOffLink = "neighbor-off-link",
    /// Warning: a VRF without interfaces.
    UnusedVrf = "unused-vrf",
    /// Warning: an interface that nothing passes.
    UnusedInterface = "unused-interface",
    /// Warning: a policy of source address validation that no interface names.
    UnusedPolicy = "unused-policy",
    /// Warning: a line card that no policy goes by.
    UnusedLineCard = "unused-line-card",
    /// Warning: a sampler that nothing names.
    UnusedSampler = "unused-sampler",
    /// Warning: an access list that no interface names.
    UnusedList = "unused-list",
    /// Warning: a group that no rule names.
    UnusedGroup = "unused-group",
    /// Warning: an allowlist that no interface names.
    UnusedAllowlist = "unused-allowlist",
    /// Warning: bindings that no interface names.
    UnusedBindings = "unused-bindings",
    /// Warning: a classifier table that no interface and no other table names.
    UnusedClassify = "unused-classify",
    /// Warning: a list of NAT rules that no interface names.
    UnusedNat = "unused-nat",
    /// Warning: a security policy database that no interface names.
    UnusedSpd = "unused-spd",
    /// Warning: a list of steer rules that no interface names.
    UnusedSteer = "unused-steer",
    /// Warning: an SA that no rule of a security policy database names.
    UnusedSa = "unused-sa",
    /// Warning: a `protect` rule that shares its flows with no other rule.
    SharedAlone = "shared-alone",
    /// Warning: a list that is never reached, because one before it decides about all packets.
    ShadowedList = "shadowed-list",
    /// Warning: an interface with addresses whose ethertypes leave out what neighbours are found by.
    MissingEthertype = "missing-ethertype",
    /// Warning: a rule without which no packet would fare otherwise.
    RedundantRule = "redundant-rule",
    /// Warning: a rule that decides nothing, but is the last of its list for whose sake fragments wait.
    NeededForFragments = "needed-for-fragments",
    /// Warning: a list with rules that could not be examined in time for whether they could be left out.
    UndecidedRules = "undecided-rules",
    /// Warning: a gateway without interfaces.
    NoInterfaces = "no-interfaces",
    /// Warning: a capture to be read that is not there now.
    CaptureMissing = "capture-missing",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place and what it has to do with the matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The text of the line; may be empty.
    pub text: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The kind of problem.
    pub code: Code,
    /// The problem, in one sentence without a full stop.
    pub message: String,
    /// Where; `None` only when the configuration's own file cannot be read.
    pub primary: Option<Label>,
    /// Other places that take part.
    pub related: Vec<Label>,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(super) fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Some(Label { span, text: String::new() }),
            related: Vec::new(),
            help: None,
        }
    }

    pub(super) fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Says at the primary place what is there.
    pub(super) fn label(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(primary) = &mut self.primary {
            primary.text = text.into();
        }
        self
    }

    /// Adds another place.
    pub(super) fn related(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.related.push(Label { span, text: text.into() });
        self
    }

    /// Says what to do.
    pub(super) fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// Says what was probably meant, if anything is close.
    pub(super) fn suggest(self, written: &str, candidates: impl IntoIterator<Item = impl AsRef<str>>) -> Diagnostic {
        match closest(written, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self,
        }
    }
}
