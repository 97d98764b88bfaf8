//! NAT rules: changes and replaces the rules of a list.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};

use super::super::{Gateway, nat};
use super::answer::{Answer, Shared, asked};
use super::body::Room;
use super::change::{self, Whole};

/// `POST`: a batch of changes of NAT rules.
pub(super) async fn change(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    change::by_batch(gateway, room, request, move |g, source, changes| g.change_nat(&list, source, changes)).await
}

/// `PUT`: all NAT rules of a list.
pub(super) async fn put(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    let Whole { source, allow_empty } = asked(query)?;
    let put =
        move |g: &dyn Gateway, source: &str, text: &str| g.put_nat(&list, source, &nat::Put { text, allow_empty });
    change::by_text(gateway, room, source, request, put).await
}
