//! weir: a software gateway that validates, filters and secures packets on one vector data plane.

#![forbid(unsafe_code)]

mod bystander;
pub mod cli;
pub mod config;
pub mod control;
pub mod demo;
pub mod doctor;
mod encoding;
pub mod ethertype;
mod events;
mod full;
mod linkless;
mod looped;
mod metrics;
mod moves;
pub mod notify;
pub mod privilege;
pub mod render;
pub mod replay;
mod reservation;
mod routes;
pub mod rules;
pub mod sampler;
pub mod sav_preview;
mod saved;
pub mod schema;
mod suggest;
pub mod top;
