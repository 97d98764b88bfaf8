//! The real gateway behind the control socket.

mod described;
mod edits;
mod followed;
mod gateway;
mod history;
mod ipsec;
mod preview;
mod safe;
mod saved;
mod services;
mod snapshot;
mod state;

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use weir_base::clock::{Clock, Time};
use weir_base::random::Entropy;
use weir_plane::alarm::{self, Alarms};
use weir_plane::compile::{Offer, RoutesChanged, TableFull};
use weir_plane::engine::{self, Engine, EngineError};
use weir_plane::model::{self, Origins};
use weir_plane::reason::Reason;
use weir_plane::rib::By;
use weir_plane::stats;

use self::history::{Awaited, History};
use super::acl::attached::Attachments;
use super::host::{Host, Neighbors};
use super::ipsec::Live;
use super::services::{Services, Settings};
use super::{acl, classify, lists};
use crate::config::{Service, Texts};
use crate::full::{Full, Refusals};
use crate::moves::{Burst, Moves};
use crate::render::matched::Matched;
use crate::reservation::Reservations;
use crate::routes::state::Sources;
use crate::{events, notify, sampler};

/// An engine, and where its configuration comes from.
pub struct Running {
    engine: Engine,
    /// The file, read again by a reload; `None` for the built-in configuration.
    file: Option<PathBuf>,
    /// As whom it was started.
    service: Service,
    /// The settings of services beside the graph, and these. Changed by who holds `reloading` alone.
    settings: Mutex<Settings>,
    services: Mutex<Option<Box<dyn Services>>>,
    /// The states of other sources of routes.
    sources: Sources,
    started: Instant,
    /// Held by a reload, so that two do not overtake each other between reading the file and publishing it.
    reloading: Mutex<()>,
    failures: Mutex<Vec<String>>,
    /// Writes samples. Behind the engine: it ends when nothing more is taken.
    sampler: sampler::Thread,
    alarms: Mutex<Alarms>,
    /// Stations that move between the ports of bridges.
    moves: Mutex<Moves>,
    /// Packets that found no room for a session.
    refusals: Mutex<Refusals>,
    /// Sequence numbers of outbound SAs.
    reservations: Mutex<Reservations>,
    /// Live edits of NAT rules. Changed by who holds `reloading` alone.
    nat: Mutex<lists::Nats>,
    /// Live edits of bindings, likewise.
    bindings: Mutex<lists::Bindings>,
    /// Live edits of steer rules, likewise.
    steers: Mutex<lists::Steers>,
    /// Live edits of allowlists, likewise.
    allowlists: Mutex<lists::Allowlists>,
    classify: Mutex<classify::Tables>,
    /// Live changes of SAs and SPDs. Changed by who holds `reloading` alone.
    live: Mutex<Live>,
    /// The last refusal of a step of a rekey, which is tried again.
    rekey_refused: Mutex<Option<String>>,
    /// Live edits of the lists of interfaces, likewise.
    attached: Mutex<Attachments>,
    /// The MTUs, addresses and static neighbours that interfaces have from the host, likewise.
    host: Mutex<Host>,
    host_neighbors: Mutex<Neighbors>,
    /// The texts of the configuration in force, likewise; `None` for the built-in one.
    texts: Mutex<Option<Arc<Texts>>>,
    /// Held by a change from the look at the state before it to its end. Taken before `reloading`.
    changing: Mutex<()>,
    /// The last changes.
    history: Mutex<History>,
    /// A reload that waits for its confirmation.
    awaited: Mutex<Option<Awaited>>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The operating system gave no randomness.
    #[error("no randomness for the seeds of hashes: {0}")]
    Random(std::io::Error),
    /// A sampler's file cannot be created; in front of it the place in the configuration.
    #[error("{0}")]
    Sampler(String),
    /// There is no thread to write samples.
    #[error("cannot start the thread that writes samples: {0}")]
    Thread(std::io::Error),
    /// The engine says why; in front of it the place in the configuration, where there is one.
    #[error("{0}")]
    Engine(String),
}

impl Running {
    /// Opens the ports, calls `before_threads`, and starts the workers.
    ///
    /// # Errors
    /// When a port cannot be opened, `before_threads` fails, or the system has no room.
    pub fn start(
        gateway: model::Gateway,
        file: Option<&Path>,
        (service, settings): (Service, Settings),
        before_threads: impl FnOnce() -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<Running, StartError> {
        let random = Entropy::from_system().map_err(StartError::Random)?;
        let options = engine::Options { clock: Clock::monotonic(), random, invent_neighbors: false, pin: true };
        let origins = gateway.origins.clone();
        let outlets = sampler::Outlets::open(&gateway.samplers).map_err(|error| {
            let place = origins.place(error.origin).map_or_else(String::new, |place| format!("{place}: "));
            StartError::Sampler(format!("{place}{error}"))
        })?;
        let state = gateway.ipsec.state.clone();
        let mut reservations = Reservations::default();
        let before_threads = |numbers| {
            before_threads()?;
            // As the user whom the directory belongs to.
            reservations.step(state.as_deref(), numbers);
            Ok(())
        };
        let mut engine = Engine::start_after(gateway, options, before_threads)
            .map_err(|error| StartError::Engine(placed(&error, &origins)))?;
        let reader = engine.take_samples().expect("nobody has taken them from an engine that was just started");
        let sampler = sampler::Thread::start(outlets, reader).map_err(StartError::Thread)?;
        Ok(Running {
            engine,
            file: file.map(Path::to_owned),
            service,
            settings: Mutex::new(settings),
            services: Mutex::default(),
            sources: Sources::default(),
            host: Mutex::default(),
            host_neighbors: Mutex::default(),
            started: Instant::now(),
            reloading: Mutex::default(),
            failures: Mutex::default(),
            sampler,
            alarms: Mutex::default(),
            moves: Mutex::default(),
            refusals: Mutex::default(),
            reservations: Mutex::new(reservations),
            nat: Mutex::default(),
            bindings: Mutex::default(),
            steers: Mutex::default(),
            allowlists: Mutex::default(),
            classify: Mutex::default(),
            live: Mutex::default(),
            rekey_refused: Mutex::default(),
            attached: Mutex::default(),
            texts: Mutex::default(),
            changing: Mutex::default(),
            history: Mutex::default(),
            awaited: Mutex::default(),
        })
    }

    /// Keeps the texts of the configuration that it was started with.
    #[must_use]
    pub fn with_texts(self, texts: Option<Texts>) -> Running {
        Running { texts: Mutex::new(texts.map(Arc::new)), ..self }
    }

    /// Sets the services beside the graph, which reloads change; returns the services of before.
    pub fn set_services(&self, services: Option<Box<dyn Services>>) -> Option<Box<dyn Services>> {
        std::mem::replace(&mut *self.services.lock().unwrap_or_else(PoisonError::into_inner), services)
    }

    /// Notes ports that failed; returns the failures that were not noted before.
    pub fn note_failures(&self) -> Vec<String> {
        let mut new = self.engine.faults();
        let mut so_far = self.failures_so_far();
        let ended = "the thread that writes samples ended by mistake: restart the gateway";
        if self.sampler.has_failed() && !so_far.iter().any(|failure| failure == ended) {
            new.push(ended.to_owned());
        }
        so_far.extend(new.iter().cloned());
        new
    }

    /// Returns the news of links and neighbours since the last call, each once.
    pub fn news(&self) -> Vec<engine::News> {
        self.engine.news()
    }

    /// Returns the changes of neighbours since the last call, which are noted while somebody watches them.
    pub(crate) fn neighbor_changes(&self) -> Vec<engine::NeighborChange> {
        self.engine.neighbor_changes(events::watches(events::Kind::Neighbor))
    }

    /// Has workers note sessions while somebody watches them. To be called often.
    pub(crate) fn follow_watchers(&self) {
        self.engine.watch_sessions(events::watches(events::Kind::Session));
    }

    /// Holds what interfaces have counted against their alarms; gives what follows. To be called about once a second.
    pub fn look_at_alarms(&self) -> Vec<alarm::Event> {
        let readings = self.engine.alarms();
        let now = Time(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.alarms_so_far().step(now, unix_time(), &readings)
    }

    /// Returns the bursts of stations that move between the ports of bridges. To be called about once a second.
    pub(crate) fn look_at_moves(&self) -> Vec<Burst> {
        // A panic in between lost a report at worst.
        let mut moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        moves.step(Instant::now(), &self.engine.bridges())
    }

    /// Returns the packets that found the session table full, if they are to be reported. To be called about once a second.
    pub(crate) fn look_at_sessions(&self) -> Option<Full> {
        // A panic in between lost a report at worst.
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.step(Instant::now(), self.engine.drops(Reason::SessionLimit))
    }

    /// Workers that have not gone round since the last call, which was to be some seconds ago, and threads that failed.
    pub fn stuck(&self) -> Vec<engine::Stuck> {
        self.engine.stuck()
    }

    /// Reserves sequence numbers for the outbound SAs that have used half of theirs, sends keepalives, and ends SAs whose
    /// lifetime is over. To be called about 20 times a second.
    pub(crate) fn reserve(&self) {
        let (state, numbers) = self.engine.numbers();
        self.reservations().step(state.as_deref(), numbers);
        self.engine.tend_sas();
    }

    /// Returns the states of the sources of routes, which their threads update.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Changes the routes that a source offers for a VRF.
    pub(crate) fn change_routes(&self, vrf: &str, by: By, offers: Vec<Offer>) -> RoutesChanged {
        self.engine.change_routes(vrf, by, offers)
    }

    /// Returns the generation in force, and if it is not `known` the numbers of interfaces by name of their punt device.
    pub(crate) fn punt_devices(&self, known: Option<u64>) -> (u64, Option<HashMap<String, u32>>) {
        let generation = self.engine.generation();
        if known == Some(generation) {
            return (generation, None);
        }
        let (model, numbers) = self.engine.numbered();
        let devices = model.interfaces.iter().zip(numbers);
        let device =
            |(interface, number): (&model::Interface, u32)| Some((interface.punt.as_ref()?.name.clone(), number));
        (generation, Some(devices.filter_map(device).collect()))
    }

    fn reservations(&self) -> MutexGuard<'_, Reservations> {
        // Whatever is noted there is on disk: a panic in between noted too little.
        self.reservations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the status line of the service manager.
    pub fn status(&self) -> String {
        format!("generation {}", self.engine.generation())
    }

    /// Nothing will ever happen again by itself: all inputs have ended, and nothing is under way.
    pub fn finished(&self) -> bool {
        self.engine.finished()
    }

    /// Stops the workers once all that was received has been dealt with.
    pub fn stop(self) -> Stopped {
        let Running { mut engine, started, failures, sampler, reservations, .. } = self;
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        engine.halt();
        // No worker takes a number any more.
        reservations.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
        // Writes what is left.
        drop(sampler);
        // Read last: the last flush of a port may have failed.
        failures.extend(engine.faults());
        Stopped {
            snapshot: engine.snapshot(),
            generation: engine.generation(),
            uptime: started.elapsed().as_secs_f64(),
            rules: acl::live::matched(&engine),
            spds: engine.spds(),
            sas: engine.sas(),
            failures,
        }
    }

    fn alarms_so_far(&self) -> MutexGuard<'_, Alarms> {
        // A panic in between lost an event at worst.
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures_so_far(&self) -> MutexGuard<'_, Vec<String>> {
        // A list of texts is whole at all times.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gateway that has stopped.
#[derive(Debug)]
pub struct Stopped {
    /// The last reading of every counter.
    pub snapshot: stats::Snapshot,
    /// The generation that ran last.
    pub generation: u64,
    /// Seconds that it ran.
    pub uptime: f64,
    /// Every rule of an access list that matched packets.
    pub rules: Vec<Matched>,
    /// The SPDs, with what their rules matched.
    pub spds: Vec<stats::SpdStats>,
    /// The pairs of SAs, with their counters.
    pub sas: Vec<stats::SaStats>,
    /// Ports that failed.
    pub failures: Vec<String>,
}

/// Seconds of the Unix epoch; 0 for a clock that stands before it.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A reload that was announced to the service manager. Dropping it announces its end. The protocol has no failed reloads: the
/// status names the failure.
struct Told<'a> {
    running: &'a Running,
    failure: Option<String>,
}

impl Told<'_> {
    fn of_a_reload(running: &Running) -> Told<'_> {
        notify::reloading();
        Told { running, failure: None }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let status = self.running.status();
        notify::ready(&match &self.failure {
            None => status,
            Some(failure) => format!("{status}; not reloaded: {failure}"),
        });
    }
}

/// An engine's error, with the place in the configuration that it is about in front.
fn placed(error: &EngineError, origins: &Origins) -> String {
    match error {
        EngineError::Port { origin, .. }
        | EngineError::Punt { origin, .. }
        | EngineError::FileTaken { origin, .. }
        | EngineError::TableFull(TableFull { origin, .. }) => match origins.place(*origin) {
            Some(place) => format!("{place}: {error}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}
