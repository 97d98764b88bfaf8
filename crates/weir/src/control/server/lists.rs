//! NAT rules, bindings, steer rules and allowlists: shows, changes and replaces them.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::routing::{MethodRouter, post, put};

use super::super::Gateway;
use super::super::acl::Change;
use super::super::lists::{Put, SetRequest};
use super::answer::{Answer, Shared, apart, document, parsed, queried};
use super::body::Room;
use super::change::{self, Whole};
use crate::render::Report;

/// `POST`: a batch of changes of a list of rules, which `edit` carries out.
pub(super) fn batch<R: Report + 'static>(
    edit: fn(&dyn Gateway, &str, &str, &[Change]) -> change::Changed<R>,
) -> MethodRouter<Shared> {
    post(
        async move |State(gateway): State<Shared>,
                    Extension(room): Extension<Room>,
                    Path(list): Path<String>,
                    request: Request| {
            change::by_batch(gateway, room, request, move |g, source, changes| edit(g, &list, source, changes)).await
        },
    )
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

/// `PUT`: all rules or prefixes of a list, which `edit` replaces.
pub(super) fn whole<R: Report + 'static>(
    edit: fn(&dyn Gateway, &str, &str, &Put<'_>) -> change::Changed<R>,
) -> MethodRouter<Shared> {
    put(
        async move |State(gateway): State<Shared>,
                    Extension(room): Extension<Room>,
                    Path(list): Path<String>,
                    query: Result<Query<Whole>, QueryRejection>,
                    request: Request|
                    -> Answer {
            let Whole { source, allow_empty } = queried(query)?;
            let edit =
                move |g: &dyn Gateway, source: &str, text: &str| edit(g, &list, source, &Put { text, allow_empty });
            change::by_text(gateway, room, source, request, edit).await
        },
    )
}
