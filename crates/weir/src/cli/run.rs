//! `weir run`: the gateway itself.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustix::fs::{Access, AtFlags, CWD, access};
use rustix::io::Errno;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};
use tracing_subscriber::filter::{LevelFilter, Targets};
use weir_base::affinity;
use weir_plane::engine::LostEdit;
use weir_plane::model::Sampler;

use super::configuration;
use super::connection::Place;
use super::error::Error;
use super::live::Live;
use super::log;
use super::output::{colour, print};
use super::services::{Opened, Services};
use super::watchdog::Watchdog;
use crate::config::{Position, Texts};
use crate::control::running::{Running, Stopped};
use crate::control::services::Settings;
use crate::control::socket::Socket;
use crate::control::{Gateway as _, ReloadError, server};
use crate::privilege::{self, Account, Dropped};
use crate::render::Report as _;
use crate::render::sas::Sas;
use crate::render::spd::Spds;
use crate::render::summary::{Ended, Summary};
use crate::{bystander, config, demo, events, looped, notify, render, reservation, sampler};

/// How often failures and the end of inputs are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How often alarms are looked at, in ticks.
const ALARMS: u32 = 10;
/// The device that creates taps, tuns and punt devices.
const TUN: &str = "/dev/net/tun";

/// Runs the gateway until SIGTERM or SIGINT, then prints a summary; SIGHUP reloads
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration, a TOML file
    #[arg(required_unless_present = "demo")]
    config: Option<PathBuf>,
    /// Run a built-in configuration: needs no file, no privileges and no interface; implies --live
    #[arg(long, conflicts_with = "config")]
    demo: bool,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// End when all inputs have ended (finite generators, captures); else the gateway goes on serving its socket
    #[arg(long)]
    exit_when_done: bool,
    /// Show rates while running, if standard output is a terminal
    #[arg(long, conflicts_with = "json")]
    live: bool,
    /// Write the summary, or what is wrong with the configuration, as JSON
    #[arg(long)]
    json: bool,
    /// Log level (error, warn, info, debug, trace, off), or levels of modules as in `warn,weir::control=debug`
    /// [default: info; warn with a live table]
    #[arg(long, value_name = "FILTER", env = "WEIR_LOG", hide_env_values = true, value_parser = log::filter)]
    log_level: Option<Targets>,
    /// Where to log
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = log::Place::Auto)]
    log: log::Place,
    #[command(flatten)]
    place: Place,
}

/// Checks that a process that may use these cores can run a worker on each core of the configuration.
///
/// # Errors
/// Says which cores it cannot use, and which it can.
fn usable(cores: &[u16], allowed: &[usize]) -> Result<(), String> {
    let missing: Vec<usize> = cores.iter().map(|&core| core.into()).filter(|core| !allowed.contains(core)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = if missing.len() == 1 { "core" } else { "cores" };
    Err(format!("cannot run a worker on {what} {}: this process may use cores {}", ranges(&missing), ranges(allowed)))
}

/// Numbers in ascending order as ranges: `0-3, 8`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A positive number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("not a time to run for".to_owned()),
    }
}

impl Run {
    pub(super) fn run(&self) -> Result<(), Error> {
        let live = if (self.live || self.demo) && !self.json { Live::new() } else { None };
        let level = if live.is_some() { LevelFilter::WARN } else { LevelFilter::INFO };
        log::start(self.log_level.clone().unwrap_or_else(|| Targets::new().with_default(level)), self.log)?;
        let loaded = self.config.as_deref().map_or_else(demo::load, config::load);
        let (service, cores, files) = (loaded.service.clone(), loaded.cores.clone(), loaded.files());
        let settings = Settings::of(&loaded);
        let texts = self.config.as_deref().map(|file| Texts::of(file, &loaded));
        let gateway = configuration::valid(loaded, self.json)?;
        // All that can be known to fail does so before anything is opened.
        if let Some(missing) = privilege::missing(&gateway).map_err(failed)? {
            return Err(failed(missing));
        }
        if let Some(cores) = &cores {
            let allowed = affinity::allowed().map_err(failed)?;
            usable(&gateway.workers.cores, &allowed).map_err(|wrong| {
                let Position { file, line, .. } = cores;
                Error::Failed(format!("{file}:{line}: {wrong}"))
            })?;
        }
        let beside = bystander::warnings(&gateway, Path::new(bystander::SETTINGS));
        for line in beside.into_iter().chain(looped::warnings(&gateway)) {
            tracing::warn!("{line}");
        }
        let root = rustix::process::geteuid().is_root();
        let account = if root { Account::of(&service).map_err(failed)? } else { None };
        if let Some(account) = &account {
            weir_base::file::set_owner(account.user, account.group);
        }
        // Before any port is opened: a second gateway must not touch what the first one uses.
        let socket = Socket::take(&self.place.path(), account.as_ref().map(|account| account.user)).map_err(failed)?;
        let opened = Opened::of(&settings, &Settings::default()).map_err(failed)?;
        let samplers = gateway.samplers.clone();
        let give_up = || self.give_up_privileges(account.as_ref(), &socket, (&files, &samplers));
        let running =
            Running::start(gateway, self.config.as_deref(), (service, settings.clone()), give_up).map_err(failed)?;
        let running = Arc::new(running.with_texts(texts));
        let reserving = reservation::Thread::start({
            let running = Arc::clone(&running);
            move || running.reserve()
        })
        .map_err(|error| Error::Failed(format!("cannot start the thread that reserves sequence numbers: {error}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Failed(format!("cannot start the control thread: {error}")))?;
        let services = Services::start(&running, runtime.handle(), &settings, opened);
        running.set_services(Some(Box::new(services)));
        let ended = runtime.block_on(self.serve(&running, &socket, live));
        // Waits for requests that are still being worked on, which hold the gateway.
        drop(runtime);
        drop(socket);
        reserving.end();
        drop(running.set_services(None));
        let Some(running) = Arc::into_inner(running) else {
            return Err(Error::Failed("the gateway is still in use".to_owned()));
        };
        let stopped = running.stop();
        let ended = ended?;
        let Stopped { snapshot, generation, uptime, rules, spds, sas, failures } = stopped;
        let (spds, sas) = (Spds::new(spds).spds, Sas::new(sas, &Default::default(), None).sas);
        let summary = Summary { rules, spds, sas, ..Summary::new(&snapshot, ended, uptime, generation, failures) };
        print(&if self.json { render::json(&summary) + "\n" } else { summary.text() })?;
        match summary.failures.len() as u64 {
            0 => Ok(()),
            n => Err(Error::Failed(format!("{} while running", render::number::plural(n, "port failure")))),
        }
    }

    /// Keeps of root's powers what a reload needs, and becomes the user of the account.
    fn give_up_privileges(
        &self,
        account: Option<&Account>,
        socket: &Socket,
        (files, samplers): (&[PathBuf], &[Sampler]),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if let Some(account) = account {
            socket.give_to(account.user, account.group)?;
        }
        match (privilege::drop(account)?, account) {
            (Dropped::Changed, Some(account)) => tracing::info!("running as the user {}", account.name),
            (Dropped::StillRoot, None) => {
                tracing::info!(
                    "running as root, capabilities dropped: there is no user `weir`, and `[service]` names none"
                );
            }
            _ => {}
        }
        for path in files.iter().filter(|_| self.config.is_some()) {
            if let Err(error) = rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) {
                tracing::warn!("a reload cannot read {}: {error}", path.display());
            }
        }
        for trouble in sampler::unwritable(samplers) {
            tracing::warn!("{trouble}");
        }
        // Each queue of such a device opens it again. udev permits every user; capabilities decide about the operation.
        if account.is_some()
            && let Err(error @ (Errno::ACCESS | Errno::PERM)) = access(TUN, Access::READ_OK | Access::WRITE_OK)
        {
            tracing::warn!("a reload cannot add taps, tuns or punt devices: {TUN}: {error}");
        }
        Ok(())
    }

    /// The control thread's work, until there is a reason to end.
    async fn serve(&self, running: &Arc<Running>, socket: &Socket, mut live: Option<Live>) -> Result<Ended, Error> {
        let failed_signal = |error: std::io::Error| Error::Failed(format!("cannot wait for signals: {error}"));
        let listen = |kind: SignalKind| -> Result<Signal, Error> { signal(kind).map_err(failed_signal) };
        let mut terminate = listen(SignalKind::terminate())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut hangup = listen(SignalKind::hangup())?;

        let failed_socket = |error: std::io::Error| Error::Failed(format!("the control socket failed: {error}"));
        let listener = socket.listener().and_then(tokio::net::UnixListener::from_std).map_err(failed_socket)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let gateway = Arc::clone(running);
        let until = async {
            let _ = stopped.await;
        };
        let mut server = tokio::spawn(server::serve(listener, gateway, until));
        let generation = running.version().generation;
        tracing::info!("running generation {generation}, control socket {}", socket.path().display());
        notify::ready(&running.status());
        let mut watchdog = Watchdog::new(running);

        let deadline = self.duration.and_then(|duration| Instant::now().checked_add(duration));
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks = 0;
        let mut going_back: Option<tokio::task::JoinHandle<()>> = None;
        let mut following: Option<tokio::task::JoinHandle<()>> = None;
        let ended = loop {
            let time_is_up = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = terminate.recv() => break Ended::Signal,
                _ = interrupt.recv() => break Ended::Signal,
                () = time_is_up => break Ended::Duration,
                ended = &mut server => {
                    let reason = match ended {
                        Ok(Ok(())) => "the control socket was closed".to_owned(),
                        Ok(Err(error)) => format!("the control socket failed: {error}"),
                        Err(error) => format!("the control socket's server failed: {error}"),
                    };
                    return Err(Error::Failed(reason));
                }
                _ = hangup.recv() => {
                    let gateway = Arc::clone(running);
                    tokio::task::spawn_blocking(move || reload(&gateway));
                }
                () = watchdog.is_due() => watchdog.look(running),
                _ = tick.tick() => {
                    for news in running.news() {
                        log::news(&news);
                    }
                    running.follow_watchers();
                    for change in running.neighbor_changes() {
                        let address = change.address.to_string();
                        let fields = [("interface", change.interface.as_str().into()), ("address", address.into())];
                        events::publish(events::Kind::Neighbor, change.to_string(), fields.into());
                    }
                    if running.is_overdue() && going_back.as_ref().is_none_or(|task| task.is_finished()) {
                        let gateway = Arc::clone(running);
                        going_back = Some(tokio::task::spawn_blocking(move || gateway.go_back()));
                    }
                    if running.has_news_of_host() && following.as_ref().is_none_or(|task| task.is_finished()) {
                        let gateway = Arc::clone(running);
                        following = Some(tokio::task::spawn_blocking(move || gateway.follow_host()));
                    }
                    if ticks % ALARMS == 0 && running.is_rekeying() {
                        let gateway = Arc::clone(running);
                        tokio::task::spawn_blocking(move || gateway.tend_rekeys());
                    }
                    if ticks % ALARMS == 0 {
                        running.look_at_alarms().iter().for_each(log::alarm);
                        running.look_at_moves().iter().for_each(log::burst);
                        running.look_at_sessions().iter().for_each(log::full);
                    }
                    ticks = (ticks + 1) % ALARMS;
                    for failure in running.note_failures() {
                        tracing::error!("{failure}");
                    }
                    if let Some(live) = live.as_mut().filter(|live| live.is_due()) {
                        live.draw(running.snapshot());
                    }
                    if self.exit_when_done && running.finished() {
                        break Ended::Done;
                    }
                }
            }
        };
        if let Some(live) = &mut live {
            live.clear();
        }
        tracing::info!("ending");
        events::close();
        notify::stopping();
        let _ = stop.send(());
        // However serving ended, the run has.
        let _ = server.await;
        Ok(ended)
    }
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Failed(error.to_string())
}

/// Handles SIGHUP. No client waits for an answer: findings go to standard error, as those of the start did.
fn reload(gateway: &Running) {
    let findings = match gateway.reload(LostEdit::Refuse) {
        Ok(reloaded) => reloaded.warnings.map(|warnings| warnings.text),
        Err(ReloadError::Invalid(loaded)) => Some(loaded.text(colour(std::io::stderr().is_terminal()))),
        Err(ReloadError::EditsLost(lines)) => Some(lines.iter().map(|line| format!("! {line}\n")).collect()),
        Err(_) => None,
    };
    if let Some(findings) = findings {
        let _ = std::io::stderr().write_all(findings.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_run_for() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e300", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_that_cannot_be_used_are_named_with_those_that_can() {
        assert_eq!(usable(&[1, 0], &[0, 1, 2]), Ok(()));
        assert_eq!(
            usable(&[0, 99], &[0, 1, 2, 8]).unwrap_err(),
            "cannot run a worker on core 99: this process may use cores 0-2, 8"
        );
        assert!(usable(&[7, 99], &[0]).unwrap_err().starts_with("cannot run a worker on cores 7, 99: "));
    }
}
