//! `weir sav stage`: the action for invalid packets from now on.

use clap::{Args, ValueEnum};

use super::super::connection::Connection;
use super::super::error::Error;
use super::super::output::print;
use super::super::query::escaped;
use crate::control::sav::stage::{CONFIGURED, MONITOR, StageRequest};
use crate::render::Report as _;
use crate::render::sav::stage::Staged;

/// Puts another action for invalid packets into force, without a gap, until it is set anew
#[derive(Debug, Args)]
pub(super) struct Stage {
    /// A policy of the running gateway
    policy: String,
    /// The action for invalid packets
    #[arg(value_enum)]
    stage: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    /// They go on, and are counted
    Monitor,
    /// As many pass as the policy's rate limit lets
    RateLimit,
    /// They go to the next hop of the policy's redirect
    Redirect,
    /// They are dropped
    Discard,
    /// The action that the configuration sets
    Configured,
}

impl Stage {
    pub(super) fn run(&self, connection: &Connection, json: bool) -> Result<(), Error> {
        let stage = match self.stage {
            Word::Monitor => MONITOR,
            Word::RateLimit => "rate-limit",
            Word::Redirect => "redirect",
            Word::Discard => "discard",
            Word::Configured => CONFIGURED,
        };
        let client = connection.client();
        let order = StageRequest { stage: stage.to_owned() };
        let answer = client.post(&format!("/v1/sav/{}/stage", escaped(&self.policy)), &order)?;
        let staged: Staged = client.read(&answer)?;
        if json { print(&answer) } else { print(&staged.text()) }
    }
}
