//! The queues of watchers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use weir_plane::engine::SessionFilter;
use weir_plane::session_watch::SessionEvent;

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

/// The events that a watcher wants.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Kinds; empty: all but sessions.
    pub(crate) kinds: Vec<Kind>,
    /// The sessions, if they are wanted.
    pub(crate) sessions: Option<SessionFilter>,
}

struct Queue {
    wanted: Wanted,
    events: Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl Queue {
    fn is_of(&self, kind: Kind) -> bool {
        let Wanted { kinds, sessions } = &self.wanted;
        match kind {
            Kind::Session => sessions.is_some(),
            _ => kinds.is_empty() || kinds.contains(&kind),
        }
    }

    fn push(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
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

/// Begins to watch events; `None`: there are too many watchers.
pub(crate) fn watch(wanted: Wanted) -> Option<Watcher> {
    let (sender, events) = channel(ROOM);
    let lost = Arc::<AtomicU64>::default();
    let mut queues = queues();
    queues.retain(|queue| !queue.events.is_closed());
    if queues.len() >= MOST {
        return None;
    }
    queues.push(Queue { wanted, events: sender, lost: Arc::clone(&lost) });
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
        queue.push(event.clone());
    }
}

/// Gives the event of a session to all whose filters match it.
pub(super) fn send_session(session: &SessionEvent, event: impl FnOnce() -> Event) {
    let queues = queues();
    let matching = |queue: &&Queue| queue.wanted.sessions.as_ref().is_some_and(|filter| filter.matches(session));
    let mut wanting = queues.iter().filter(matching).peekable();
    if wanting.peek().is_some() {
        let event = event();
        wanting.for_each(|queue| queue.push(event.clone()));
    }
}

/// Counts events of sessions that were lost on their way here. Filters cannot match them.
pub(crate) fn lose_sessions(lost: u64) {
    for queue in queues().iter().filter(|queue| queue.is_of(Kind::Session)) {
        queue.lost.fetch_add(lost, Ordering::Relaxed);
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
        let mut watcher = watch(Wanted { kinds: vec![Kind::Link], sessions: None }).unwrap();
        assert!(is_watched() && watches(Kind::Link) && !watches(Kind::Route) && !watches(Kind::Session));
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
