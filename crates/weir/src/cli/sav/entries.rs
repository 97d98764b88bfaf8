//! `weir sav add`, `replace`, `delete`, `import` and `clear`: entries of source address validation while the gateway runs.
//! Each call is one batch: all of it happens, or nothing.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::super::edit::{Editor, Live, path_of, rules_of, source_name};
use super::super::error::Error;
use super::super::query::target;
use super::super::text::Input;
use crate::control::sav::batch::{BatchRequest, Change};
use crate::control::source::SOURCE;
use crate::render::sav::changed::Changed;
use crate::rules::Format;

/// Changes to entries.
#[derive(Debug, Subcommand)]
pub(super) enum Entries {
    /// Adds entries for prefixes that the source has none for
    Add(Rules),
    /// Sets entries, whatever the source said of their prefixes before
    Replace(Rules),
    /// Deletes entries
    Delete {
        /// A policy whose mechanism is `table`
        policy: String,
        /// Prefixes that the source says something of; behind `deny`, `interface permit` or `interface deny` where it does so in
        /// lists of that kind: `'deny 192.0.2.0/24'`
        #[arg(required = true, num_args = 1.., value_name = "PREFIX")]
        prefixes: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Replaces all entries of a source by those of a file
    Import {
        /// A policy whose mechanism is `table`
        policy: String,
        /// Rules or CSV, each line with a line end, or JSON; `-`: what is on standard input
        file: PathBuf,
        /// The source that the entries belong to [default: the file's name; `api` for standard input]
        #[arg(long, value_name = "NAME", value_parser = source_name)]
        source: Option<String>,
        /// How the file is written [default: as its name ends]
        #[arg(long, value_enum)]
        format: Option<Written>,
        /// Delete all entries of the source if the file has none
        #[arg(long)]
        allow_empty: bool,
    },
    /// Deletes all entries of a source
    Clear {
        /// A policy whose mechanism is `table`
        policy: String,
        /// The source
        #[arg(long, value_name = "NAME", value_parser = source_name)]
        source: String,
    },
}

/// Rules, and who says so.
#[derive(Debug, Args)]
pub(super) struct Rules {
    /// A policy whose mechanism is `table`
    policy: String,
    /// Rules, each in quotes: `'permit from 192.0.2.0/24 on cust1, cust2'`; a single one may be several words
    #[arg(required = true, num_args = 1.., value_name = "RULE")]
    rules: Vec<String>,
    #[command(flatten)]
    source: Source,
}

/// The source of a change.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The source that the entries belong to; a source changes only its own
    #[arg(long = "source", value_name = "NAME", default_value = SOURCE, value_parser = source_name)]
    name: String,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Written {
    /// A rule a line
    Rules,
    /// With a header: prefix,interfaces, and perhaps action, scope and comment
    Csv,
    /// An array of objects with these names
    Json,
}

impl Written {
    /// The type of the content.
    fn content_type(self) -> &'static str {
        match self {
            Written::Rules => "text/plain",
            Written::Csv => "text/csv",
            Written::Json => "application/json",
        }
    }
}

impl Entries {
    pub(super) fn run(&self, live: &Live) -> Result<(), Error> {
        let changes = Changes { editor: live.editor() };
        match self {
            Entries::Add(rules) => changes.batch(&rules.policy, &rules.source, each(&rules.rules, Change::Add)),
            Entries::Replace(rules) => changes.batch(&rules.policy, &rules.source, each(&rules.rules, Change::Replace)),
            Entries::Delete { policy, prefixes, source } => {
                let of_words = ["interface", "permit", "deny"].contains(&prefixes[0].as_str());
                let one = of_words.then(|| vec![Change::Delete(prefixes.join(" "))]);
                let several = || prefixes.iter().cloned().map(Change::Delete).collect();
                changes.batch(policy, source, one.unwrap_or_else(several))
            }
            Entries::Import { policy, file, source, format, allow_empty } => {
                changes.import(policy, file, source.as_deref(), *format, *allow_empty)
            }
            Entries::Clear { policy, source } => {
                let editor = &changes.editor;
                let answer =
                    editor.client.put(&entries(policy, source, true), Written::Rules.content_type(), String::new());
                editor.report::<Changed>(answer, None)
            }
        }
    }
}

fn each(rules: &[String], change: fn(String) -> Change) -> Vec<Change> {
    rules_of(rules).into_iter().map(change).collect()
}

/// Returns the target of a request that replaces the entries of a source.
fn entries(policy: &str, source: &str, allow_empty: bool) -> String {
    let query = [("source", Some(source.to_owned())), ("allow-empty", allow_empty.then(|| "true".to_owned()))];
    target(&format!("{}/entries", path_of("sav", policy)), query)
}

struct Changes {
    editor: Editor,
}

impl Changes {
    fn batch(&self, policy: &str, source: &Source, changes: Vec<Change>) -> Result<(), Error> {
        let order = BatchRequest { source: source.name.clone(), changes };
        let answer = self.editor.client.post(&format!("{}/entries", path_of("sav", policy)), &order);
        self.editor.report::<Changed>(answer, None)
    }

    fn import(
        &self,
        policy: &str,
        file: &Path,
        source: Option<&str>,
        written: Option<Written>,
        allow_empty: bool,
    ) -> Result<(), Error> {
        let input = Input::of(file);
        let source = source.map_or_else(|| input.source(), |source| Ok(source.to_owned()))?;
        let written = written.or_else(|| of_name(file)).ok_or_else(|| {
            Error::Usage(format!("{} does not say how it is written: name it with --format", input.name()))
        })?;
        let text = input.read_whole(written != Written::Json)?;
        let answer = self.editor.client.put(&entries(policy, &source, allow_empty), written.content_type(), text);
        self.editor.report::<Changed>(answer, Some(input))
    }
}

fn of_name(file: &Path) -> Option<Written> {
    Some(match Format::of(file)? {
        Format::Rules => Written::Rules,
        Format::Csv => Written::Csv,
        Format::Json => Written::Json,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(entries("edge", "a&b=é", false), "/v1/sav/edge/entries?source=a%26b%3D%C3%A9");
        assert!(entries("edge", "api", true).ends_with("?source=api&allow-empty=true"));
    }
}
