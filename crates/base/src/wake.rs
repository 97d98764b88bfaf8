//! Sleeping and waking of threads. Waking a running thread costs a memory fence only.
//!
//! A [`Sleeper`] waits for descriptors, a time and its [`Waker`]s. A waker is an eventfd, and a flag that says whether
//! it must be written. Sleeping takes three steps:
//!
//! 1. [`Sleeper::announce`] sets the flag.
//! 2. The thread checks all its inputs once more: rings, command channels.
//! 3. If there is no work, it calls [`Sleeper::sleep`]; else [`Sleeper::stay_up`].
//!
//! # Why no wake-up is lost
//! A waker publishes its work, then calls [`Waker::wake`], which reads the flag. Both sides run a `SeqCst` fence
//! between their write and their read (flag then rings; rings then flag). One of the fences is first in the single
//! total order of such fences:
//!
//! 1. *The waker's fence is first.* Its work was published before, so step 2 finds it, and the thread stays up.
//! 2. *The sleeper's fence is first.* The waker then reads the flag of this announcement, or a later value.
//!    - Set: the waker clears it and writes to the eventfd. An eventfd keeps its count until it is read, so the thread
//!      need not wait yet.
//!    - Cleared by another waker since: that waker writes to the eventfd.
//!    - Cleared by the thread since: the thread is up, and announces and checks again before it sleeps.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Separates the flag from cache lines that other threads write: wakers read it often.
#[repr(align(128))]
struct Shared {
    asleep: AtomicBool,
    event: OwnedFd,
}

/// The sleeping thread's end.
pub struct Sleeper {
    shared: Arc<Shared>,
    announced: bool,
}

/// The waking threads' end. Clones wake the same thread.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

/// Cause for the end of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A waker called.
    Called,
    /// A descriptor is readable or has an error.
    Ready,
    /// The time has passed, or a signal arrived.
    Time,
}

/// Creates a sleeper and its waker.
///
/// # Errors
/// If the process has no file descriptor left.
pub fn pair() -> io::Result<(Sleeper, Waker)> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { asleep: AtomicBool::new(false), event });
    Ok((Sleeper { shared: Arc::clone(&shared), announced: false }, Waker(shared)))
}

/// Makes the kernel end the calling thread's sleeps on time (`PR_SET_TIMERSLACK`). By default it may end them 50 µs
/// late to save wake-ups.
///
/// # Errors
/// If the kernel refuses.
pub fn be_punctual() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

impl Sleeper {
    /// Makes wakers write to the eventfd from now on. The thread must check its inputs afterwards.
    pub fn announce(&mut self) {
        self.announced = true;
        self.shared.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `Waker::wake`.
        fence(Ordering::SeqCst);
    }

    /// Returns whether the thread announced a sleep and has neither slept nor stayed up since.
    pub fn is_announced(&self) -> bool {
        self.announced
    }

    /// Withdraws the announcement: wakers need not write.
    pub fn stay_up(&mut self) {
        if self.announced {
            self.announced = false;
            self.shared.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Waits until a waker calls, one of `descriptors` is readable, or `timeout` has passed (`None`: no limit). May end
    /// earlier. If the system refuses to wait, returns at once as if the time had passed.
    ///
    /// Returns at once if a waker called since [`Sleeper::announce`]. Wakers do not call without an announcement.
    pub fn sleep(&mut self, descriptors: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Cause {
        let own = PollFd::from_borrowed_fd(self.shared.event.as_fd(), PollFlags::IN);
        let others = descriptors.iter().map(|&descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = std::iter::once(own).chain(others).collect();
        // A time-out that does not fit is centuries away.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let ready = poll(&mut all, timeout.as_ref()).unwrap_or(0);
        let called = ready > 0 && !all[0].revents().is_empty();
        if called {
            // Does not block: a waker wrote before the descriptor became readable, and only this thread reads.
            let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
        }
        self.stay_up();
        match (called, ready) {
            (true, _) => Cause::Called,
            (false, 0) => Cause::Time,
            (false, _) => Cause::Ready,
        }
    }
}

impl Waker {
    /// Makes the thread check inputs that were published before this call. Costs a system call if the thread sleeps or
    /// is about to, else a fence and a load.
    #[inline]
    pub fn wake(&self) {
        // Pairs with the fence in `Sleeper::announce`.
        fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::Relaxed) && self.0.asleep.swap(false, Ordering::Relaxed) {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        // Fails only with 2^64 - 2 unread calls, when the thread wakes anyway.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Returns whether the thread sleeps or is about to.
    pub fn is_asleep(&self) -> bool {
        self.0.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    use super::*;

    /// Far longer than any step of a test.
    const LONG: Option<Duration> = Some(Duration::from_secs(120));

    #[test]
    fn time_a_descriptor_and_a_call_end_a_sleep() {
        let (mut sleeper, waker) = pair().unwrap();
        let (receiver, mut sender) = UnixStream::pair().unwrap();
        let start = Instant::now();
        sleeper.announce();
        assert!(waker.is_asleep());
        assert_eq!(sleeper.sleep(&[receiver.as_fd()], Some(Duration::from_millis(5))), Cause::Time);
        assert!(start.elapsed() >= Duration::from_millis(5) && !waker.is_asleep());

        sender.write_all(b"x").unwrap();
        sleeper.announce();
        assert_eq!(sleeper.sleep(&[receiver.as_fd()], LONG), Cause::Ready);

        // A call counts once, and only after an announcement.
        waker.wake();
        sleeper.announce();
        assert_eq!(sleeper.sleep(&[], Some(Duration::ZERO)), Cause::Time);
        sleeper.announce();
        waker.wake();
        waker.wake();
        assert_eq!(sleeper.sleep(&[], LONG), Cause::Called);
        sleeper.announce();
        assert_eq!(sleeper.sleep(&[], Some(Duration::ZERO)), Cause::Time);
        sleeper.announce();
        sleeper.stay_up();
        assert!(!waker.is_asleep() && !sleeper.is_announced());
    }

    /// No sleep ends early. One of many ends within half a millisecond, which no sleep would if times were rounded to
    /// milliseconds. The share depends on the load of the CPU.
    #[test]
    fn sleeps_end_on_time() {
        std::thread::spawn(|| {
            be_punctual().unwrap();
            let (mut sleeper, _waker) = pair().unwrap();
            let begin = Instant::now();
            let mut least = Duration::MAX;
            for round in 0.. {
                let start = Instant::now();
                sleeper.announce();
                assert_eq!(sleeper.sleep(&[], Some(Duration::from_micros(300))), Cause::Time);
                let late = start.elapsed().checked_sub(Duration::from_micros(300)).expect("not early");
                least = least.min(late);
                if round >= 50 && least < Duration::from_micros(500) {
                    break;
                }
                assert!(begin.elapsed() < Duration::from_secs(120), "{least:?} late at best");
            }
        })
        .join()
        .unwrap();
    }

    /// Two threads pass a number back and forth, and each sleeps until the other has answered. A lost wake-up leaves
    /// both asleep.
    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u64 = 150_000;
        let ball = Arc::new(AtomicU64::new(0));
        let ((one, wake_one), (two, wake_two)) = (pair().unwrap(), pair().unwrap());
        let play = |mut sleeper: Sleeper, other: Waker, parity: u64| {
            let ball = Arc::clone(&ball);
            move || {
                let mut slept = 0u64;
                loop {
                    let seen = ball.load(Ordering::Relaxed);
                    if seen >= ROUNDS {
                        other.wake();
                        return slept;
                    }
                    if seen % 2 == parity {
                        sleeper.stay_up();
                        // Sometimes the other thread has time to sleep, sometimes it is about to.
                        for _ in 0..(seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) {
                            std::hint::spin_loop();
                        }
                        ball.store(seen + 1, Ordering::Relaxed);
                        other.wake();
                    } else if sleeper.is_announced() {
                        assert_ne!(sleeper.sleep(&[], LONG), Cause::Time, "asleep for ever after {seen}");
                        slept += 1;
                    } else {
                        sleeper.announce();
                    }
                }
            }
        };
        let (first, mut second) = (play(one, wake_two, 0), play(two, wake_one, 1));
        let thread = std::thread::spawn(first);
        let slept = second() + thread.join().unwrap();
        assert!(slept > ROUNDS / 100, "they hardly ever slept: {slept}");
    }
}
