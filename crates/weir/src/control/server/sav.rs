//! Entries of source address validation: shown, changed by batches, and replaced as a whole. What is long is read and put
//! into force on threads apart.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use serde::Deserialize;

use super::super::Gateway;
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::super::sav::{batch, import};
use super::super::source;
use super::answer::{Answer, Refused, Shared, apart, document, parsed, queried, show, text};
use super::body::Room;
use crate::render::sav::changed::Changed;
use crate::render::sav::entries::{Entries, Filter};
use crate::rules::Format;
use weir_plane::compile::Edited;

pub(super) async fn show_entries(
    State(gateway): State<Shared>,
    Path(policy): Path<String>,
    query: Result<Query<Filter>, QueryRejection>,
) -> Answer {
    let filter = queried(query)?;
    let prefix = filter.net().map_err(|error| Refused::new(Kind::BadRequest, error))?;
    let most = filter.limit.unwrap_or(usize::MAX);
    apart(gateway, move |g| match g.sav_entries(&policy, prefix, most) {
        Some((rows, total)) => Ok(document(200, &Entries::new(&policy, rows, total))),
        None => Err(Refused::from(without_entries(g, &policy))),
    })
    .await?
}

/// Why a policy has no entries to show.
fn without_entries(gateway: &dyn Gateway, policy: &str) -> Refusal {
    let policies = gateway.sav_policies();
    match policies.iter().find(|known| known.name == policy) {
        Some(known) => {
            let message = format!("`{policy}` has no entries: its mechanism is `{}`", known.mechanism);
            Refusal::new(Kind::NotATable, message)
        }
        None => {
            let lists = policies.into_iter().filter(|policy| !policy.tables.is_empty());
            Refusal::of_policy(policy, lists.map(|policy| policy.name).collect())
        }
    }
}

/// The query of a dry run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Top {
    top: Option<usize>,
}

/// Returns the packets that would be dropped if every policy discarded invalid packets.
pub(super) async fn dry_run(gateway: State<Shared>, query: Result<Query<Top>, QueryRejection>) -> Answer {
    let top = queried(query)?.top.unwrap_or(usize::MAX);
    show(gateway, move |g| g.sav_dry_run(top)).await
}

/// The query of a proposal.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Least {
    min_packets: Option<u64>,
}

/// Rules that would let pass what was found not valid.
pub(super) async fn learn(gateway: State<Shared>, query: Result<Query<Least>, QueryRejection>) -> Answer {
    let least = queried(query)?.min_packets.unwrap_or(1);
    show(gateway, move |g| g.sav_learn(least)).await
}

/// `POST`: a batch.
pub(super) async fn change(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(policy): Path<String>,
    request: Request,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let batch::BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        let batch = batch::read(&changes, &interfaces(g)).map_err(|wrong| Refused::from(Refusal::of_entries(wrong)))?;
        let change = |number: usize| batch.of.get(number.checked_sub(1)?).copied();
        let edited = g.edit_sav(&policy, &source, &batch.edits)?;
        let edited = edited.map_err(|error| Refused::from(Refusal::of_sav(error, change)))?;
        Ok(document(200, &changed(policy, source, edited, batch.warnings)))
    })
    .await?
}

/// The query of an import.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Import {
    source: Option<String>,
    format: Option<String>,
    #[serde(default)]
    allow_empty: bool,
}

/// `PUT`: all that a source says.
pub(super) async fn import(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(policy): Path<String>,
    query: Result<Query<Import>, QueryRejection>,
    request: Request,
) -> Answer {
    let Import { source, format, allow_empty } = queried(query)?;
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    let format = self::format(format.as_deref(), request.headers())?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let text = text(&long.octets)?;
        let import = import::read(format, text, &interfaces(g));
        let import = import.map_err(|wrong| Refused::from(Refusal::of_entries(wrong)))?;
        // Of a policy that has no table, that is said first.
        let is_table = || g.sav_policies().iter().any(|known| known.name == policy && known.mechanism == "table");
        if import.entries.is_empty() && !allow_empty && is_table() {
            let message = format!(
                "no entry was sent: all entries of source `{source}` would be deleted; use `weir sav clear`, or allow it with \
                 `--allow-empty` (`allow-empty=true` in a query); nothing was changed"
            );
            return Err(Refused::new(Kind::Conflict, message));
        }
        let edited = g.replace_sav(&policy, &source, &import.entries)?;
        let edited = edited.map_err(|error| Refused::from(Refusal::of_sav(error, |_| None)))?;
        Ok(document(200, &changed(policy, source, edited, import.warnings)))
    })
    .await?
}

/// How a body is written: as the query says, else as the type of its content.
fn format(named: Option<&str>, headers: &HeaderMap) -> Result<Format, Refused> {
    let refuse = |message: String| Err(Refused::new(Kind::UnknownFormat, message));
    let format = match named {
        Some("rules") => Some(Format::Rules),
        Some("csv") => Some(Format::Csv),
        Some("json") => Some(Format::Json),
        Some(other) => return refuse(format!("there is no format `{other}`; there are rules, csv and json")),
        None => {
            let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            match value.unwrap_or_default().split(';').next().unwrap_or_default().trim() {
                "text/plain" => Some(Format::Rules),
                "text/csv" => Some(Format::Csv),
                "application/json" => Some(Format::Json),
                _ => None,
            }
        }
    };
    match format {
        Some(format) => Ok(format),
        None => refuse(
            "how are the entries written? The query says `format=rules`, `csv` or `json`, or the content is of the \
             type text/plain, text/csv or application/json"
                .to_owned(),
        ),
    }
}

fn of_source(source: &str) -> Result<(), Refused> {
    source::check(source).map_err(|wrong| Refused::new(Kind::BadRequest, wrong))
}

fn interfaces(gateway: &dyn Gateway) -> Vec<String> {
    gateway.snapshot().interfaces.into_iter().map(|interface| interface.name).collect()
}

fn changed(policy: String, source: String, edited: Edited, warnings: Remarks) -> Changed {
    let Edited { added, replaced, deleted, entries } = edited;
    Changed {
        policy,
        source,
        added,
        replaced,
        deleted,
        entries,
        warnings: warnings.shown,
        more_warnings: warnings.more,
    }
}
