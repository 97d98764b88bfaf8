//! Operations of the control side: one after the other, and an operation alone changes the compiler.

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::control::Control;
use super::made::ChangeKind;
use crate::compile::Compiler;

/// The time for which an operation lets new readers of the compiler in before they have to wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long an operation waits for readers to pass what it retired, at most; the next one frees the rest.
const FREEING: Duration = Duration::from_millis(100);

/// A short pause.
const PAUSE: Duration = Duration::from_micros(50);

/// The right to change the compiler. Dropping it applies the changes that were learned meanwhile.
pub(super) struct Operation<'c> {
    control: &'c Control,
    alone: Option<MutexGuard<'c, ()>>,
}

impl Operation<'_> {
    /// Locks the compiler for reading, together with other readers: it does not change meanwhile.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Compiler> {
        self.control.compiler.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the compiler for changes: readers wait.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Compiler> {
        let since = Instant::now();
        // A waiting writer keeps readers out. So the lock is tried, and long listings delay this operation only.
        while since.elapsed() < PATIENCE {
            match self.control.compiler.try_write() {
                Ok(compiler) => return compiler,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            }
        }
        self.control.compiler.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            let mut compiler = self.write();
            let published = self.control.tell(&mut self.control.state(), &mut compiler);
            compiler.collect();
            let rubbish = compiler.take_rubbish();
            drop(compiler);
            drop(rubbish);
            if published {
                self.control.wake();
            }
            let since = Instant::now();
            while self.control.domain.collect() > 0 && since.elapsed() < FREEING {
                thread::sleep(PAUSE);
            }
        }
        self.alone = None;
        // The control thread applies later changes: it found an operation under way.
        if self.control.state().is_ahead() {
            self.control.keeper.wake();
        }
    }
}

impl Control {
    /// Begins an operation of a kind when the operations before it have ended.
    pub(super) fn operate(&self, kind: ChangeKind) -> Operation<'_> {
        self.made.count(kind);
        // A panic in between left at worst a port open that no one uses.
        let alone = self.operating.lock().unwrap_or_else(PoisonError::into_inner);
        Operation { control: self, alone: Some(alone) }
    }
}
