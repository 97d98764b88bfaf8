//! Notifications to the service manager, if there is one: sd_notify(3), `Type=notify-reload` and the watchdog.
//!
//! A failed notification is logged and has no other effect: a gateway does not stop forwarding because nobody listens.

use std::time::Duration;

use sd_notify::NotifyState;

/// The gateway forwards; what `systemctl status` shows, of which the first line counts: the next one would be taken for
/// another assignment.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status.lines().next().unwrap_or_default())]);
}

/// A reload has begun. To be followed by [`ready`], however it ends.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now, NotifyState::Status("reloading")]),
        Err(error) => tracing::warn!("cannot notify the service manager of a reload: {error}"),
    }
}

/// The gateway is ending.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("ending")]);
}

/// All is well.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often [`alive`] is to be called: twice as often as the service manager wants to hear of us, if it does.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2).filter(|half| !half.is_zero())
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot reach the service manager: {error}");
    }
}
