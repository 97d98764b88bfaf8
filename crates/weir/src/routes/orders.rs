//! Orders for the threads of sources.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::question::Question;
use crate::config::Routes;

/// Settings that a thread is to follow, and a new socket if the address is another one.
pub(super) struct Next {
    pub(super) settings: Routes,
    pub(super) listener: Option<TcpListener>,
}

/// Orders for a thread.
#[derive(Default)]
pub(super) struct Orders {
    stop: AtomicBool,
    withdraw: AtomicBool,
    next: Mutex<Option<Next>>,
    questions: Mutex<Vec<Question>>,
}

impl Orders {
    /// Returns whether the thread is to end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether the routes of the source are to go with the thread.
    pub(super) fn withdraws(&self) -> bool {
        self.withdraw.load(Ordering::Relaxed)
    }

    /// Ends the thread, perhaps with the routes of its source.
    pub(super) fn end(&self, withdraw: bool) {
        self.withdraw.store(withdraw, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes the new settings, if there are any.
    pub(super) fn next(&self) -> Option<Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a question. A question that is not answered in time is forgotten with its answer.
    pub(super) fn ask(&self, question: Question) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question);
    }

    /// Takes the questions that were not answered yet.
    pub(super) fn questions(&self) -> Vec<Question> {
        std::mem::take(&mut *self.questions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the thread has to look before it sleeps.
    pub(super) fn is_due(&self) -> bool {
        self.is_over() || !self.questions.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives new settings.
    pub(super) fn give(&self, next: Next) {
        let mut place = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        // A socket that the thread has not taken yet is not lost.
        let unused = place.take().and_then(|before| before.listener);
        *place = Some(Next { listener: next.listener.or(unused), ..next });
    }
}
