//! The common parts of commands that change a running gateway: the gateway, the source of the change, entries as arguments or
//! as a file, and the report.

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::text::Input;
use crate::control::acl::{BatchRequest, Change};
use crate::control::client::{Client, ClientError};
use crate::control::refusal::Kind;
use crate::control::source;
pub(super) use crate::control::source::SOURCE;
use crate::render::remark::Remark;
use crate::render::{self, Report};

/// The gateway that a command changes, and the form of its report.
#[derive(Debug, Args)]
pub(super) struct Live {
    #[command(flatten)]
    pub(super) connection: Connection,
    /// Write JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Live {
    pub(super) fn editor(&self) -> Editor {
        Editor { client: self.connection.client(), json: self.json }
    }
}

/// All entries of an object, as a file.
#[derive(Debug, Args)]
pub(super) struct Whole {
    /// Entries, one a line, each with a line end; `-`: those on standard input
    file: PathBuf,
    /// The file may have no entry: then the object loses all of its own
    #[arg(long)]
    allow_empty: bool,
    /// The source that the entries belong to [default: the file's name, or `api`]
    #[arg(long, value_name = "NAME", value_parser = source_name)]
    source: Option<String>,
}

/// The source of a change.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The source that the change belongs to
    #[arg(long = "source", value_name = "NAME", default_value = SOURCE, value_parser = source_name)]
    pub(super) name: String,
}

/// The name of a source, as an argument.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn source_name(text: &str) -> Result<String, String> {
    source::check(text).map(|()| text.to_owned())
}

/// Returns the path of an object: its kind and its name.
pub(super) fn path_of(kind: &str, name: &str) -> String {
    format!("/v1/{kind}/{}", escaped(name))
}

/// Rules that are arguments: each is one; or all are the words of one.
pub(super) fn rules_of(arguments: &[String]) -> Vec<String> {
    match arguments {
        [first, ..] if !first.contains(char::is_whitespace) => vec![arguments.join(" ")],
        _ => arguments.to_vec(),
    }
}

/// The report of a change, with warnings.
pub(super) trait Changed: Report {
    /// The first warnings, and how many there are beside them.
    fn warnings(&self) -> (&[Remark], usize);
}

impl Changed for crate::render::sav::changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

impl Changed for crate::render::acl::changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

impl Changed for crate::render::nat_changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

impl Changed for crate::render::binding_changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        self.0.warnings()
    }
}

impl Changed for crate::render::steer_changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        self.0.warnings()
    }
}

impl Changed for crate::render::allowlist_changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

impl Changed for crate::render::ipsec_changed::SpdChanged {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

impl Changed for crate::render::classify_changed::Changed {
    fn warnings(&self) -> (&[Remark], usize) {
        (&[], 0)
    }
}

impl Changed for crate::render::ipsec_changed::SaChanged {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, 0)
    }
}

impl Changed for crate::render::acl::changed::Regrouped {
    fn warnings(&self) -> (&[Remark], usize) {
        (&self.warnings, self.more_warnings)
    }
}

/// A client that requests changes and reports their results.
pub(super) struct Editor {
    pub(super) client: Client,
    pub(super) json: bool,
}

impl Editor {
    /// Requests a batch of changes of an ordered list, an object with the path `path`.
    pub(super) fn batch<R: Changed>(&self, path: &str, source: &Source, changes: Vec<Change>) -> Result<(), Error> {
        let request = BatchRequest { source: source.name.clone(), changes };
        self.report::<R>(self.client.post(&format!("{path}/changes"), &request), None)
    }

    /// Replaces all entries of an object.
    pub(super) fn replace<R: Changed>(&self, path: &str, whole: &Whole) -> Result<(), Error> {
        let input = Input::of(&whole.file);
        let source = whole.source.clone().map_or_else(|| input.source(), Ok)?;
        let text = input.read_whole(true)?;
        let query = [("source", Some(source)), ("allow-empty", whole.allow_empty.then(|| "true".to_owned()))];
        self.report::<R>(self.client.put(&target(path, query), "text/plain", text), Some(input))
    }

    /// Prints the report of a change. Each problem of a file is printed behind the file's name.
    pub(super) fn report<R: Changed>(
        &self,
        answer: Result<String, ClientError>,
        file: Option<Input<'_>>,
    ) -> Result<(), Error> {
        let remark = |remark: &dyn Display| match file {
            Some(file) => format!("{}: {remark}", file.name()),
            None => remark.to_string(),
        };
        let mut stderr = std::io::stderr();
        let json = match answer {
            Ok(json) => json,
            Err(ClientError::Refused(refusal)) if matches!(refusal.kind, Kind::InvalidEntries | Kind::InvalidRules) => {
                for problem in &refusal.problems {
                    // A failure to write the report cannot be reported.
                    let _ = writeln!(stderr, "error: {}", remark(problem));
                }
                if self.json {
                    print(&(render::json(&*refusal) + "\n"))?;
                }
                let _ = writeln!(stderr, "nothing was changed");
                return Err(Error::InvalidEntries);
            }
            Err(ClientError::Refused(refusal)) if !refusal.findings.is_empty() && !self.json => {
                let _ = stderr.write_all(refusal.findings.as_bytes());
                return Err(Error::Failed("nothing was changed".to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        let changed: R = self.client.read(&json)?;
        let (warnings, more) = changed.warnings();
        for warning in warnings {
            let _ = writeln!(stderr, "warning: {}", remark(warning));
        }
        if more > 0 {
            let _ = writeln!(stderr, "and {more} more warnings");
        }
        if self.json { print(&json) } else { print(&changed.text()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_an_argument_or_several() {
        let rules = |words: &[&str]| rules_of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let one = "permit from 10.0.0.0/8 on a, b";
        assert_eq!(rules(&[one]), [one]);
        assert_eq!(rules(&[one, "permit from any on c"]), [one, "permit from any on c"]);
        assert_eq!(rules(&["permit", "from", "10.0.0.0/8", "on", "a,", "b"]), [one]);
    }
}
