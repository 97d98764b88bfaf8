//! NAT rules, bindings, steer rules and allowlists: shows, changes and replaces them.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};

use super::super::Gateway;
use super::super::lists::{Put, SetRequest};
use super::answer::{Answer, Shared, apart, document, parsed, queried};
use super::body::Room;
use super::change::{self, Whole};
use crate::render::Report;

/// `POST`: a batch of changes of NAT rules.
pub(super) async fn change_nat(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    change::by_batch(gateway, room, request, move |g, source, changes| g.change_nat(&list, source, changes)).await
}

/// `POST`: a batch of changes of bindings.
pub(super) async fn change_bindings(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    change::by_batch(gateway, room, request, move |g, source, changes| g.change_bindings(&list, source, changes)).await
}

/// `POST`: a batch of changes of steer rules.
pub(super) async fn change_steer(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    change::by_batch(gateway, room, request, move |g, source, changes| g.change_steer(&list, source, changes)).await
}

/// `POST`: prefixes of an allowlist that are deleted, and prefixes that are inserted.
pub(super) async fn change_allowlist(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let request: SetRequest = parsed(&long.octets)?;
        change::of_source(&request.source)?;
        Ok(document(200, &g.change_allowlist(&list, &request)?))
    })
    .await?
}

/// `GET`: the prefixes of an allowlist.
pub(super) async fn allowed(State(gateway): State<Shared>, Path(list): Path<String>) -> Answer {
    change::change(gateway, move |g| g.allowed(&list)).await
}

/// `PUT`: all NAT rules of a list.
pub(super) async fn put_nat(
    gateway: State<Shared>,
    room: Extension<Room>,
    list: Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    put(gateway, room, (list, query), request, |g, list, source, put| g.put_nat(list, source, put)).await
}

/// `PUT`: all bindings of a list.
pub(super) async fn put_bindings(
    gateway: State<Shared>,
    room: Extension<Room>,
    list: Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    put(gateway, room, (list, query), request, |g, list, source, put| g.put_bindings(list, source, put)).await
}

/// `PUT`: all steer rules of a list.
pub(super) async fn put_steer(
    gateway: State<Shared>,
    room: Extension<Room>,
    list: Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    put(gateway, room, (list, query), request, |g, list, source, put| g.put_steer(list, source, put)).await
}

/// `PUT`: all prefixes of an allowlist.
pub(super) async fn put_allowlist(
    gateway: State<Shared>,
    room: Extension<Room>,
    list: Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    put(gateway, room, (list, query), request, |g, list, source, put| g.put_allowlist(list, source, put)).await
}

async fn put<R: Report + 'static>(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    (Path(list), query): (Path<String>, Result<Query<Whole>, QueryRejection>),
    request: Request,
    put: fn(&dyn Gateway, &str, &str, &Put<'_>) -> change::Changed<R>,
) -> Answer {
    let Whole { source, allow_empty } = queried(query)?;
    let put = move |g: &dyn Gateway, source: &str, text: &str| put(g, &list, source, &Put { text, allow_empty });
    change::by_text(gateway, room, source, request, put).await
}
