//! `weir sav diff`: which sources get another verdict when one configuration takes the place of another.

use std::io::{self, BufWriter, ErrorKind};
use std::path::PathBuf;

use clap::Args;

use super::super::configuration;
use super::super::error::Error;
use crate::render::sav::diff::{Json, Text};
use crate::sav_preview::diff::Diff as Run;

/// Lists the sources whose verdict differs between two configurations, as prefixes, by interface
#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The configuration that is in force, a TOML file
    old: PathBuf,
    /// The one that is to take its place
    new: PathBuf,
}

impl Diff {
    pub(super) fn run(&self, json: bool) -> Result<(), Error> {
        let old = configuration::load(&self.old, json)?;
        let new = configuration::load(&self.new, json)?;
        let diff = Run::new(old, new)?;
        let out = BufWriter::new(io::stdout().lock());
        let alone = diff.alone();
        let written = if json {
            Json::new(out, &alone).and_then(|mut json| diff.run(&mut json).and_then(|()| json.finish()))
        } else {
            Text::new(out, &alone).and_then(|mut text| diff.run(&mut text).and_then(|()| text.finish()))
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Error::Closed,
            _ => Error::Failed(format!("cannot write to standard output: {error}")),
        })
    }
}
