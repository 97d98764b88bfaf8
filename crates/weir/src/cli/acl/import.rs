//! `weir acl import`: rules of others as our own.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::error::Error;
use super::super::output::print;
use super::super::text::Input;
use crate::control::remarks::Remarks;
use crate::render::acl::imported::Imported;
use crate::render::{self, Report as _};
use crate::rules::import::{self, import};

/// Converts rules of other programs to rules of weir, for a file or for `weir acl replace`; needs no gateway
#[derive(Debug, Args)]
pub(super) struct Import {
    /// How the rules are written
    #[arg(long, value_enum)]
    format: Format,
    /// The rules; `-`: those on standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// There may be no rule
    #[arg(long)]
    allow_empty: bool,
}

/// How others write rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Filters of ClassBench, which have no actions: they come to `permit`
    Classbench,
    /// Rules of VPP's ACL plugin, as `acl_add_replace` and `set acl-plugin acl` read them
    Vpp,
}

impl Import {
    pub(super) fn run(&self, json: bool) -> Result<(), Error> {
        let input = Input::of(&self.file);
        let (name, text) = (input.name(), input.read()?);
        let format = match self.format {
            Format::Classbench => import::Format::Classbench,
            Format::Vpp => import::Format::Vpp,
        };
        let mut stderr = io::stderr().lock();
        let mut say = |kind: &str, found: &crate::rules::Findings| {
            // A failure to write the report cannot be reported.
            for finding in found.shown() {
                let _ = writeln!(stderr, "{kind}: {name}: {finding}");
            }
            if found.more() > 0 {
                let _ = writeln!(stderr, "and {} more", found.more());
            }
        };
        let imported = import(&text, format).map_err(|found| {
            say("error", &found);
            Error::InvalidEntries
        })?;
        say("warning", &imported.warnings);
        drop(stderr);
        if imported.rules.is_empty() && !self.allow_empty {
            let message = format!("{name} has no rules; if that is right, say `--allow-empty`");
            return Err(Error::Failed(message));
        }
        let mut warnings = Remarks::default();
        warnings.extend(None, &imported.warnings);
        let imported = Imported {
            rules: imported.rules.iter().map(ToString::to_string).collect(),
            warnings: warnings.shown,
            more_warnings: warnings.more,
        };
        if json { print(&(render::json(&imported) + "\n")) } else { print(&imported.text()) }
    }
}
