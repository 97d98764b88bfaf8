//! `GET /v1/watch`: events as they come, a line of JSON each.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{Response, header};
use hyper::body::{Bytes, Frame};
use serde::Deserialize;

use super::super::refusal::Kind as RefusalKind;
use super::answer::{Answer, Refused, Shared, apart, queried};
use crate::events::{self, Kind, Watcher, watch};
use crate::render;

/// The query of events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Kinds, apart by commas; all without it.
    #[serde(default)]
    kinds: String,
    /// A filter of sessions, which needs their kind.
    sessions: Option<String>,
}

pub(super) async fn events(State(gateway): State<Shared>, query: Result<Query<Wanted>, QueryRejection>) -> Answer {
    let Wanted { kinds, sessions } = queried(query)?;
    let kind = |word: &str| {
        let found = <Kind as clap::ValueEnum>::from_str(word, false);
        found.map_err(|_| Refused::new(RefusalKind::BadRequest, format!("there is no kind of event `{word}`")))
    };
    let kinds: Vec<Kind> = kinds.split(',').filter(|word| !word.is_empty()).map(kind).collect::<Result<_, _>>()?;
    let filter = if kinds.contains(&Kind::Session) {
        Some(apart(gateway, move |g| g.watch_sessions(sessions.as_deref())).await??)
    } else if sessions.is_some() {
        return Err(Refused::new(RefusalKind::BadRequest, "a filter of sessions needs the kind `session`"));
    } else {
        None
    };
    let Some(watcher) = watch(events::Wanted { kinds, sessions: filter }) else {
        return Err(Refused::new(RefusalKind::NoRoom, "32 clients watch already, which is the most"));
    };
    let mut response = Response::new(Body::new(Lines(watcher)));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json-seq"));
    Ok(response)
}

/// The lines of a watcher's events.
struct Lines(Watcher);

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll(context).map(|event| Some(Ok(Frame::data((render::json(&event?) + "\n").into()))))
    }
}
