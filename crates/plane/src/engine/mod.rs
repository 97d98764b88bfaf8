//! The running gateway: ports, workers, the compiler, and what they count; and the same graph without threads, for tests,
//! replays and figures.

pub mod alarm;
mod answers;
pub mod bench;
mod cleared;
mod collect;
mod control;
mod error;
pub(crate) mod flows;
pub mod harness;
mod health;
mod keeper;
mod pace;
mod policies;
mod ports;
mod report;
mod running;
mod samples;
mod sas;
mod show;
mod stuck;
mod traced;
mod translations;
mod tunnels;
mod upkeep;
mod why;
mod workers;

pub use answers::{Answer, answers};
pub use error::{EngineError, UnknownNode};
pub use flows::{FlowFilter, FlowOrder, endpoint, least_octets_of_decisions, least_octets_of_sessions};
pub use policies::sa_name;
pub use report::Reloaded;
pub use running::{Clear, Engine, LostEdit, Options};
pub use samples::Reader as SampleReader;
pub use stuck::Stuck;
pub use traced::{TraceDecision, TraceRow, TraceStep};
pub use why::{Refusal, WayBack};

pub use crate::neighbor::control::News;
