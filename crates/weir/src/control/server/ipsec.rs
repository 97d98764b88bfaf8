//! Pairs of SAs: adds, updates, deletes and rekeys them. SPDs: shows, changes, replaces and resets their rules.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::Gateway;
use super::super::acl::Expect;
use super::super::ipsec::{SaAction, SaEdit, SpdEdit};
use super::answer::{Answer, Shared, queried};
use super::body::Room;
use super::change::{self, Whole, named};

/// The query of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    source: Option<String>,
}

/// The query of a pair that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeSa {
    source: Option<String>,
    expect: Option<Expect>,
}

/// `PUT`: a pair.
pub(super) async fn put_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(name): Path<String>,
    query: Result<Query<WholeSa>, QueryRejection>,
    request: Request,
) -> Answer {
    let WholeSa { source, expect } = queried(query)?;
    let put = move |g: &dyn Gateway, source: &str, keys: &str| {
        let is_there = g.sas().iter().any(|sa| sa.name == name);
        let edit = match expect.unwrap_or(if is_there { Expect::Existing } else { Expect::New }) {
            Expect::New => SaEdit::Add(keys),
            Expect::Existing => SaEdit::Update(keys),
        };
        g.edit_sa(&name, source, edit)
    };
    change::by_text(gateway, room, source, request, put).await
}

/// `DELETE`: deletes a pair.
pub(super) async fn delete_sa(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(queried(query)?.source)?;
    change::change(gateway, move |g| g.edit_sa(&name, &source, SaEdit::Delete)).await
}

/// `PUT`: a step of a rekey.
pub(super) async fn rekey_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path((name, action)): Path<(String, SaAction)>,
    query: Result<Query<Said>, QueryRejection>,
    request: Request,
) -> Answer {
    let step = move |g: &dyn Gateway, source: &str, keys: &str| {
        let edit = match action {
            SaAction::Rekey => SaEdit::Rekey(keys),
            SaAction::Switch => SaEdit::Switch,
            SaAction::Finish => SaEdit::Finish,
        };
        g.edit_sa(&name, source, edit)
    };
    change::by_text(gateway, room, queried(query)?.source, request, step).await
}

/// `GET`: the rules of an SPD, as they can be read again.
pub(super) async fn rules(State(gateway): State<Shared>, Path(spd): Path<String>) -> Answer {
    change::change(gateway, move |g| g.spd_rules(&spd)).await
}

/// `POST`: a batch of changes of an SPD.
pub(super) async fn change_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    request: Request,
) -> Answer {
    let batch = move |g: &dyn Gateway, source: &str, changes: &[_]| g.edit_spd(&spd, source, SpdEdit::Batch(changes));
    change::by_batch(gateway, room, request, batch).await
}

/// `PUT`: all rules of an SPD.
pub(super) async fn put_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    let Whole { source, allow_empty } = queried(query)?;
    let put = move |g: &dyn Gateway, source: &str, text: &str| {
        g.edit_spd(&spd, source, SpdEdit::Replace { text, allow_empty })
    };
    change::by_text(gateway, room, source, request, put).await
}

/// `DELETE`: the rules of the files again.
pub(super) async fn reset_spd(
    State(gateway): State<Shared>,
    Path(spd): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(queried(query)?.source)?;
    change::change(gateway, move |g| g.edit_spd(&spd, &source, SpdEdit::Reset)).await
}
