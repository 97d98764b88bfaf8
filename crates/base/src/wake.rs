//! How a thread sleeps until something happens, and how others wake it for no more than a memory fence while it is awake.
//!
//! A [`Sleeper`] waits for descriptors, for a time, and for its [`Waker`]s; these are an eventfd and a flag that says
//! whether writing to it is needed at all. Sleeping takes three steps:
//!
//! 1. [`Sleeper::announce`]: sets the flag.
//! 2. The thread looks once more at everything that others bring it: rings, mailboxes.
//! 3. If there was nothing, [`Sleeper::sleep`]; else [`Sleeper::stay_up`].
//!
//! # Why no wake-up is lost
//! A waker publishes what it brings, then calls [`Waker::wake`], which reads the flag. Both sides run a `SeqCst` fence
//! between their write and their read (flag then rings; rings then flag), so one of the fences is first in the single
//! total order of such fences:
//!
//! 1. *The waker's fence is first.* What it published happens before it, so step 2 sees it, and the thread stays up.
//! 2. *The sleeper's fence is first.* The waker then sees the flag of this announcement, or a later value of it.
//!    - It is set: the waker clears it and writes to the eventfd. An eventfd keeps its count until it is read, so it does
//!      not matter whether the thread waits already.
//!    - It was cleared by another waker since: that one writes to the eventfd.
//!    - It was cleared by the thread itself since: the thread is up, and announces itself and looks again before it sleeps.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Keeps the flag off cache lines that others write: wakers read it all the time.
#[repr(align(128))]
struct Shared {
    asleep: AtomicBool,
    event: OwnedFd,
}

/// A thread's own end.
pub struct Sleeper {
    shared: Arc<Shared>,
    announced: bool,
}

/// The end of those who wake the thread. Cloning gives another handle of the same thread.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

/// What ended a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A waker.
    Called,
    /// A descriptor is readable, or has an error to tell.
    Ready,
    /// The time is over, or a signal came.
    Time,
}

/// A sleeper and its waker.
///
/// # Errors
/// When the system gives no descriptor.
pub fn pair() -> io::Result<(Sleeper, Waker)> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { asleep: AtomicBool::new(false), event });
    Ok((Sleeper { shared: Arc::clone(&shared), announced: false }, Waker(shared)))
}

/// Asks the kernel to end the calling thread's sleeps on time, where it may else be 50 µs late to save wake-ups
/// (`PR_SET_TIMERSLACK`).
///
/// # Errors
/// When the kernel refuses.
pub fn be_punctual() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

impl Sleeper {
    /// From now on wakers leave a call behind. To be followed by a last look at what they bring.
    pub fn announce(&mut self) {
        self.announced = true;
        self.shared.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `Waker::wake`.
        fence(Ordering::SeqCst);
    }

    /// It announced itself, and has neither slept nor decided otherwise since.
    pub fn is_announced(&self) -> bool {
        self.announced
    }

    /// There was something to do: wakers need not call.
    pub fn stay_up(&mut self) {
        if self.announced {
            self.announced = false;
            self.shared.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Waits until a waker calls, one of `descriptors` is readable, or `timeout` is over (`None`: it never is). May end
    /// earlier. A wait that the system refuses ends at once, as if its time were over.
    ///
    /// A call since [`Sleeper::announce`] ends it at once. Without an announcement wakers do not call.
    pub fn sleep(&mut self, descriptors: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Cause {
        let own = PollFd::from_borrowed_fd(self.shared.event.as_fd(), PollFlags::IN);
        let others = descriptors.iter().map(|&descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = std::iter::once(own).chain(others).collect();
        // What does not fit is centuries away.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let ready = poll(&mut all, timeout.as_ref()).unwrap_or(0);
        let called = ready > 0 && !all[0].revents().is_empty();
        if called {
            // Non-blocking: whoever wrote has done so before it became readable, and nobody else reads.
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
    /// Sees to it that the thread looks at what was published before this call: a system call if it sleeps or is about
    /// to, a fence and a load if it is up.
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
        // Fails only when 2^64 - 2 calls are unread, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// The thread sleeps, or is about to.
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

    /// Far longer than anything here takes.
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

    /// No sleep ends early, and one of many ends within half a millisecond: none would if times were rounded to
    /// milliseconds. How many do depends on who else wants the CPU.
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

    /// Two threads hand a number back and forth, each sleeping until the other has answered: a lost wake-up leaves both
    /// asleep for ever.
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
                        // Now and then the other has the time to fall asleep, now and then it is caught on its way.
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
