//! The running gateway: ports, workers, the compiler, and what they count; and the same graph without threads, for tests,
//! replays and figures.

pub mod alarm;
mod answers;
pub mod bench;
mod bridges;
mod cleared;
mod collect;
mod compiled;
mod control;
mod counted;
mod edits;
mod error;
pub(crate) mod flows;
pub mod harness;
mod health;
mod ipsec;
mod keeper;
mod links;
mod operation;
mod pace;
mod policies;
mod ports;
mod reload;
mod report;
mod reports;
mod routes;
mod running;
mod samples;
mod sas;
mod sessions;
mod show;
mod signal;
mod stuck;
mod traced;
mod translations;
mod tunnels;
mod upkeep;
mod why;
mod workers;

pub use answers::{Answer, answers};
pub use control::Control;
pub use counted::Clear;
pub use error::{EngineError, UnknownNode};
pub use flows::{FlowFilter, FlowOrder, endpoint, least_octets_of_decisions, least_octets_of_sessions};
pub use policies::sa_name;
pub use reload::LostEdit;
pub use report::Reloaded;
pub use running::{Engine, Options};
pub use samples::Reader as SampleReader;
pub use stuck::Stuck;
pub use traced::{TraceDecision, TraceRow, TraceStep};
pub use why::{Refusal, WayBack};

pub use crate::neighbor::control::News;
