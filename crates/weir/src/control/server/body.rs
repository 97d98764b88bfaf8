//! Long bodies: entries by the million. They are taken in piece by piece, beside everything else that the gateway's main
//! thread does, and bounded in length, in time and in number.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::LONGEST_TEXT;
use super::super::refusal::Kind;
use super::answer::{BODY_LIMIT, Refused};

/// How long a client may take to send one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long bodies that may be in memory at a time; others wait for their turn.
const AT_A_TIME: usize = 2;

/// Room for long bodies, of all connections together.
#[derive(Debug, Clone)]
pub(super) struct Room {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Room {
    fn default() -> Self {
        Room { places: Arc::new(Semaphore::new(AT_A_TIME)), patience: PATIENCE }
    }
}

/// A body, and its place in the room if it is long.
pub(super) struct Long {
    pub(super) octets: Vec<u8>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes in a body. What says that it is short needs no place.
    pub(super) async fn take(&self, body: Body) -> Result<Long, Refused> {
        let short = body.size_hint().upper().is_some_and(|octets| octets <= BODY_LIMIT as u64);
        let all = async {
            let _place = match short {
                true => None,
                // The semaphore is never closed.
                false => Arc::clone(&self.places).acquire_owned().await.ok(),
            };
            Ok(Long { octets: gather(body).await?, _place })
        };
        tokio::time::timeout(self.patience, all).await.unwrap_or_else(|_| {
            let message = format!("the request did not come to its end within {} seconds", self.patience.as_secs());
            Err(Refused::new(Kind::TooSlow, message))
        })
    }
}

async fn gather(mut body: Body) -> Result<Vec<u8>, Refused> {
    let mut octets = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refused::new(Kind::BadRequest, error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if octets.len() + data.len() > LONGEST_TEXT {
            let message = format!("entries come in at most {LONGEST_TEXT} octets at a time");
            return Err(Refused::new(Kind::TooLarge, message));
        }
        octets.extend_from_slice(&data);
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use http_body_util::Full;
    use hyper::body::Frame;

    use super::*;

    /// Of which nothing ever comes.
    struct Endless;

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn what_never_ends_is_refused_and_its_place_is_free_again() {
        let room = Room { patience: Duration::from_millis(5), ..Room::default() };
        for _ in 0..=AT_A_TIME {
            let refused = room.take(Body::new(Endless)).await.err().expect("nothing came");
            assert_eq!(refused.0.kind, Kind::TooSlow);
        }
        let long = vec![b'x'; BODY_LIMIT + 1];
        let taken = room.take(Body::from(long.clone())).await.ok().expect("there is room");
        assert!(taken.octets == long && taken._place.is_some());
    }

    #[tokio::test]
    async fn what_is_short_waits_for_nobody() {
        let room = Room { patience: Duration::from_secs(5), ..Room::default() };
        let _all = Arc::clone(&room.places).acquire_many_owned(AT_A_TIME as u32).await;
        let taken = room.take(Body::new(Full::from("some"))).await.ok().expect("it needs no place");
        assert!(taken.octets == b"some" && taken._place.is_none());
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused_before_it_is_all_there() {
        let room = Room { patience: Duration::from_secs(60), ..Room::default() };
        let refused = room.take(Body::from(vec![0; LONGEST_TEXT + 1])).await.err().expect("too much");
        assert_eq!(refused.0.kind, Kind::TooLarge);
    }
}
