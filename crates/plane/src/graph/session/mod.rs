//! Sessions of a worker: what rules that reflect have permitted, and which packets belong to it.
//!
//! All packets of a session come to one worker (`handover`), so nothing here is shared and nothing waits. A session is found
//! by the tuple of either direction, in a table whose values are the session's number and the direction. Memory is
//! allocated between vectors ([`Sessions::prepare`]), never while packets are under way.
//!
//! A session that the packet of a vector opened is *unconfirmed* until a packet of it leaves, is delivered or is held; else it
//! ends with the vector. Numbers of ended sessions are given again after the vector, as its packets may still name them.

mod bounds;
mod endings;
mod hand;
mod log;
mod logged;
mod lookup;
mod mappings;
mod membership;
pub(crate) mod nat;
mod of_family;
mod pace;
mod page;
mod record;
mod related;
mod sessions;
mod state;
mod tally;
mod translated;
mod translation;
mod tuple;
mod users;
mod watched;

pub(crate) use bounds::Bounds;
pub(crate) use log::RING as LOG_RING;
pub use log::{Ends, Kind as NatEventKind, NatEvent};
pub(crate) use lookup::Lookup;
pub(crate) use mappings::Mapping;
pub(crate) use membership::{Carried, MOST_NOTED, Membership, ZoneOf, set_translated, translated};
pub(crate) use of_family::{Admission, NO_NAT, OfFamily, Sought, Taken, reflected};
pub(crate) use page::{AnySession, Ended, Page, SessionRef};
pub(crate) use record::{OpenedBy, Opener, Session};
pub(crate) use related::{is_intact, quoted};
pub(crate) use sessions::Sessions;
pub(crate) use state::{Progress, Way};
pub(crate) use translation::{SourceBy, Translation};
pub(crate) use tuple::{Tuple, identifier, query};
pub(crate) use watched::{OfEither, RING as WATCH_RING};
pub use watched::{SessionEvent, SessionNews};
