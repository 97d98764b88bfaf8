//! The queues of watchers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Kind;
use crate::render::event::Event;

/// Events that wait for a watcher, at most.
const ROOM: usize = 1024;

/// Watchers at a time.
const MOST: usize = 32;

/// All queues. The log of a process has one place, so have its events.
static QUEUES: Mutex<Vec<Queue>> = Mutex::new(Vec::new());

/// The number of queues, which is read by every event.
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Queue {
    kinds: Vec<Kind>,
    events: Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl Queue {
    fn is_of(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// The events of a watcher.
pub(crate) struct Watcher {
    events: Receiver<Event>,
    lost: Arc<AtomicU64>,
}

fn queues() -> MutexGuard<'static, Vec<Queue>> {
    // Whole queues are pushed and dropped.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to watch events of these kinds, or of all; `None`: there are too many watchers.
pub(crate) fn watch(kinds: Vec<Kind>) -> Option<Watcher> {
    let (sender, events) = channel(ROOM);
    let lost = Arc::<AtomicU64>::default();
    let mut queues = queues();
    queues.retain(|queue| !queue.events.is_closed());
    if queues.len() >= MOST {
        return None;
    }
    queues.push(Queue { kinds, events: sender, lost: Arc::clone(&lost) });
    COUNT.store(queues.len(), Ordering::Relaxed);
    Some(Watcher { events, lost })
}

/// Ends all queues: watchers get what is in them, and their end.
pub(crate) fn close() {
    queues().clear();
    COUNT.store(0, Ordering::Relaxed);
}

/// Somebody watches.
pub(super) fn is_watched() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Somebody watches events of a kind.
pub(crate) fn watches(kind: Kind) -> bool {
    is_watched() && queues().iter().any(|queue| !queue.events.is_closed() && queue.is_of(kind))
}

/// Gives an event to all who watch its kind.
pub(super) fn send(event: &Event) {
    let mut queues = queues();
    queues.retain(|queue| !queue.events.is_closed());
    COUNT.store(queues.len(), Ordering::Relaxed);
    for queue in queues.iter().filter(|queue| queue.is_of(event.kind)) {
        if queue.events.try_send(event.clone()).is_err() {
            queue.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Watcher {
    /// Waits for the next event; `None`: there will be none.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context).map(|event| {
            let lost = self.lost.swap(0, Ordering::Relaxed);
            event.map(|event| Event { lost: event.lost + lost, ..event })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn event(kind: Kind, message: &str) -> Event {
        Event { kind, message: message.into(), ..Event::default() }
    }

    #[test]
    fn a_full_queue_counts_what_it_loses() {
        let mut watcher = watch(vec![Kind::Link]).unwrap();
        assert!(is_watched() && watches(Kind::Link) && !watches(Kind::Route));
        for number in 0..ROOM + 3 {
            send(&event(Kind::Link, &number.to_string()));
        }
        send(&event(Kind::Edit, "another kind"));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || match watcher.poll(&mut context) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        };
        // The count stands at the next event that is read.
        let first = next().unwrap();
        assert_eq!((first.message.as_str(), first.lost), ("0", 3));
        assert_eq!(next().unwrap().lost, 0);
        let rest = std::iter::from_fn(next).count();
        assert_eq!(rest, ROOM - 2);
    }
}
