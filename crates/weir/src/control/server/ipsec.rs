//! Pairs of SAs: added, updated, deleted, rekeyed. SPDs: shown as rules, changed by batches, replaced, reset.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::acl::{BatchRequest, Expect};
use super::super::ipsec::{SaAction, SaEdit, SpdEdit};
use super::super::source;
use super::acl::of_source;
use super::body::Room;
use super::{Answer, Refused, Shared, apart, asked, document, parsed, text};

/// The query of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    source: Option<String>,
}

/// The query of a pair that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    source: Option<String>,
    expect: Option<Expect>,
}

/// The query of an SPD that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeSpd {
    source: Option<String>,
    #[serde(default, rename = "allow-empty")]
    allow_empty: bool,
}

/// `PUT`: a pair.
pub(super) async fn put_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(name): Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    let Whole { source, expect } = asked(query)?;
    let source = named(source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let keys = text(&long.octets)?;
        let is_there = g.sas().iter().any(|sa| sa.name == name);
        let edit = match expect.unwrap_or(if is_there { Expect::Existing } else { Expect::New }) {
            Expect::New => SaEdit::Add(keys),
            Expect::Existing => SaEdit::Update(keys),
        };
        Ok(document(200, &g.edit_sa(&name, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `DELETE`: a pair goes.
pub(super) async fn delete_sa(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(asked(query)?.source)?;
    apart(gateway, move |g| Ok(document(200, &g.edit_sa(&name, &source, SaEdit::Delete).map_err(Refused::from)?)))
        .await?
}

/// `PUT`: a step of a rekey.
pub(super) async fn rekey_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path((name, action)): Path<(String, SaAction)>,
    query: Result<Query<Said>, QueryRejection>,
    request: Request,
) -> Answer {
    let source = named(asked(query)?.source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let edit = match action {
            SaAction::Rekey => SaEdit::Rekey(text(&long.octets)?),
            SaAction::Switch => SaEdit::Switch,
            SaAction::Finish => SaEdit::Finish,
        };
        Ok(document(200, &g.edit_sa(&name, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `GET`: the rules of an SPD, as they can be read again.
pub(super) async fn rules(State(gateway): State<Shared>, Path(spd): Path<String>) -> Answer {
    apart(gateway, move |g| Ok(document(200, &g.spd_rules(&spd).map_err(Refused::from)?))).await?
}

/// `POST`: a batch of changes of an SPD.
pub(super) async fn change_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    request: Request,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        Ok(document(200, &g.edit_spd(&spd, &source, SpdEdit::Batch(&changes)).map_err(Refused::from)?))
    })
    .await?
}

/// `PUT`: all rules of an SPD.
pub(super) async fn put_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    query: Result<Query<WholeSpd>, QueryRejection>,
    request: Request,
) -> Answer {
    let WholeSpd { source, allow_empty } = asked(query)?;
    let source = named(source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let edit = SpdEdit::Replace { text: text(&long.octets)?, allow_empty };
        Ok(document(200, &g.edit_spd(&spd, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `DELETE`: the rules of the files again.
pub(super) async fn reset_spd(
    State(gateway): State<Shared>,
    Path(spd): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(asked(query)?.source)?;
    apart(gateway, move |g| Ok(document(200, &g.edit_spd(&spd, &source, SpdEdit::Reset).map_err(Refused::from)?)))
        .await?
}

fn named(source: Option<String>) -> Result<String, Refused> {
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    Ok(source)
}
