//! `weir schema`: what editors need to complete and check configurations.

use clap::Args;

use super::error::Error;
use super::output::print;
use crate::schema::TEXT;

/// Prints the JSON schema of configurations
#[derive(Debug, Args)]
pub struct Schema {}

impl Schema {
    pub(super) fn run(&self) -> Result<(), Error> {
        print(TEXT)
    }
}
