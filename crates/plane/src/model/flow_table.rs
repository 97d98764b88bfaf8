//! Sessions of access lists: how many there may be, and for how long; and whether decisions are learned.

use std::time::Duration;

/// The state of a session. The names of TCP's states are the kernel's (nf_conntrack).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SessionState {
    /// TCP: a SYN has passed.
    SynSent,
    /// TCP: SYNs have passed in both directions.
    SynReceived,
    /// TCP: the handshake is complete, or a session that began in mid-stream has a packet in each direction.
    Established,
    /// TCP: the session began in mid-stream, and no packet of the other direction has passed.
    Unreplied,
    /// TCP: a FIN has passed.
    FinWait,
    /// TCP: a FIN has passed in each direction.
    TimeWait,
    /// TCP: a RST has passed.
    Close,
    /// TCP: a RST has passed before the connection was established.
    Refused,
    /// Other protocols: no reply has passed.
    New,
    /// Other protocols: a reply has passed.
    Stream,
}

impl SessionState {
    /// The state's name.
    pub const fn name(self) -> &'static str {
        match self {
            SessionState::SynSent => "syn-sent",
            SessionState::SynReceived => "syn-recv",
            SessionState::Established => "established",
            SessionState::Unreplied => "unreplied",
            SessionState::FinWait => "fin-wait",
            SessionState::TimeWait => "time-wait",
            SessionState::Close => "close",
            SessionState::Refused => "refused",
            SessionState::New => "new",
            SessionState::Stream => "stream",
        }
    }
}

macro_rules! timeouts {
    ($($field:ident $key:literal $seconds:literal;)*) => {
        /// The time that a session lasts after its last packet, by state and protocol, and that a learned decision lasts: 1 s to 30 d.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Timeouts {
            $(#[doc = concat!("`", $key, "`")] pub $field: Duration,)*
        }

        impl Timeouts {
            /// Configuration key and value of each.
            pub fn all(&mut self) -> impl Iterator<Item = (&'static str, &mut Duration)> {
                [$(($key, &mut self.$field)),*].into_iter()
            }
        }

        impl Default for Timeouts {
            fn default() -> Self {
                Timeouts { $($field: Duration::from_secs($seconds)),* }
            }
        }
    };
}

timeouts! {
    tcp_syn_sent "tcp-syn-sent" 120;
    tcp_syn_received "tcp-syn-recv" 60;
    tcp_established "tcp-established" 86400;
    tcp_unreplied "tcp-unreplied" 300;
    tcp_fin_wait "tcp-fin-wait" 120;
    tcp_time_wait "tcp-time-wait" 120;
    tcp_close "tcp-close" 240;
    tcp_refused "tcp-refused" 10;
    udp "udp" 30;
    udp_stream "udp-stream" 120;
    icmp "icmp" 30;
    generic "generic" 600;
    decision "decision" 30;
}

/// Whether decisions about flows are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FastPath {
    /// Where packets pass a policy.
    #[default]
    Auto,
    /// On all interfaces.
    On,
    /// Nowhere: each packet walks.
    Off,
}

/// Sessions of access lists, and learned decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowTable {
    /// Sessions of both families, over all workers, 1 ..= 16,777,216.
    pub sessions: u32,
    /// Half-open sessions among them, 1 ..= `sessions`.
    pub half_open: u32,
    /// A TCP packet other than a SYN opens a session, too.
    pub tcp_pickup: bool,
    /// Sessions are matched again when access lists change; else they go on as they are.
    pub recheck: bool,
    /// How long sessions last.
    pub timeouts: Timeouts,
    /// Whether decisions about flows are learned.
    pub enabled: FastPath,
    /// Learned decisions of both families, over all workers, 1 ..= 16,777,216; those of sessions come on top.
    pub flows: u32,
    /// The packet of a flow from which on its decision is learned, 1 ..= 100, each direction of a session for itself.
    pub packets: u8,
    /// Packets of one vector that hit the same entry are merged before they are rewritten.
    pub merges: bool,
}

impl Default for FlowTable {
    fn default() -> Self {
        let sessions = 500_000;
        FlowTable {
            sessions,
            half_open: sessions / 4,
            tcp_pickup: true,
            recheck: true,
            timeouts: Timeouts::default(),
            enabled: FastPath::Auto,
            flows: 1_000_000,
            packets: 2,
            merges: false,
        }
    }
}
