//! Punt devices that are deleted, renamed or set down while the gateway runs: reported once, and created again.

use std::time::Duration;

use weir_base::clock::Time;
use weir_port::{Creator, Link, Port};

use crate::neighbor::control::{News, Work};

/// The pause before the first attempt to create a device again: the program that deleted it may create one.
const FIRST: Duration = Duration::from_secs(1);

/// The longest pause between two attempts. Each pause is twice the one before.
const LONGEST: Duration = Duration::from_secs(60);

/// The time after which a device that was created again counts as stable: its next deletion is answered after [`FIRST`] again.
const STABLE: Duration = Duration::from_secs(120);

/// State of a punt device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Packets can pass.
    #[default]
    Up,
    /// The device is set down.
    Down,
    /// There is no device.
    Missing,
}

impl State {
    pub(super) fn of(port: &dyn Port) -> State {
        match (port.missing(), port.link()) {
            (Some(_), _) => State::Missing,
            (None, Link::Down) => State::Down,
            (None, Link::Up) => State::Up,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::Missing => "missing",
        }
    }
}

/// The state of a punt device that was reported last, and the next attempt to create it.
#[derive(Debug, Default)]
pub(super) struct Reported {
    device: String,
    state: State,
    /// Time of the next attempt.
    next: Option<Time>,
    /// The pause before the attempt after it; zero if the device was stable.
    pause: Duration,
    /// Time since which packets can pass again.
    created: Option<Time>,
    /// An attempt failed since the device is missing, which was reported.
    failed: bool,
}

impl Reported {
    pub(super) fn new(port: &dyn Port) -> Reported {
        Reported { device: port.device().unwrap_or_default().to_owned(), ..Reported::default() }
    }

    /// Plans the next attempt.
    fn plan(&mut self, now: Time) {
        let stable = self.created.is_some_and(|created| now.since(created) > STABLE.as_nanos() as u64);
        let pause = if stable || self.pause.is_zero() { FIRST } else { self.pause };
        (self.created, self.pause) = (None, (pause * 2).min(LONGEST));
        self.next = Some(Time(now.0.saturating_add(pause.as_nanos() as u64)));
    }

    /// Reports a change of a port's state or name. If the time has come, creates its missing device, or attaches to that of another
    /// program, which may have been in use when it came. Returns the time of the next attempt.
    pub(super) fn watch(&mut self, interface: &str, port: &mut dyn Port, now: Time, work: &mut Work) -> Option<Time> {
        let interface = || interface.to_owned();
        let is_due = self.next.is_some_and(|next| next <= now);
        if port.missing() == Some(Creator::Other) && is_due {
            port.refresh();
            self.next = None;
        }
        if port.missing() == Some(Creator::Port)
            && is_due
            && let Err(error) = port.recreate()
        {
            if !std::mem::replace(&mut self.failed, true) {
                let (device, error) = (self.device.clone(), error.to_string());
                work.news.push(News::PuntRefused { interface: interface(), device, error });
            }
            self.plan(now);
        }
        let (state, missing) = (State::of(port), port.missing());
        let device = port.device().unwrap_or_default().to_owned();
        // The name of a missing device is that of the configuration.
        if state != State::Missing && self.state != State::Missing && self.device != device {
            let before = std::mem::replace(&mut self.device, device.clone());
            work.news.push(News::PuntRenamed { interface: interface(), before, device: device.clone() });
        }
        if state != self.state {
            let before = std::mem::replace(&mut self.device, device.clone());
            work.news.push(match state {
                State::Up => News::PuntUp { interface: interface(), device },
                State::Down => News::PuntDown { interface: interface(), device },
                State::Missing => {
                    let own = missing == Some(Creator::Port);
                    News::PuntMissing { interface: interface(), device: before, own }
                }
            });
            (self.state, self.failed) = (state, false);
            if state == State::Up {
                self.created = Some(now);
            }
        }
        match missing {
            Some(Creator::Port) if self.next.is_none() => self.plan(now),
            Some(Creator::Other) if self.next.is_none() => {
                self.next = Some(Time(now.0.saturating_add(FIRST.as_nanos() as u64)));
            }
            Some(_) => {}
            None => self.next = None,
        }
        self.next
    }
}
