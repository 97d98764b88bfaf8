//! Where the samples of one sampler go.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use weir_base::clock::Time;
use weir_plane::model::Sampler;
use weir_plane::sample::Sample;
use weir_plane::translation_log::NatEvent;

use super::files::{Files, Written};
use super::ipfix::{Collector, Known, Sent};

/// A time, by the gateway's clock and by the world's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The gateway's.
    pub(super) now: Time,
    /// Nanoseconds of the Unix epoch.
    pub(super) unix: u64,
}

impl Moment {
    /// The Unix time of another time of the gateway's clock.
    fn of(&self, time: Time) -> u64 {
        (self.unix.saturating_sub(self.now.since(time))).saturating_add(time.since(self.now))
    }
}

/// The status of a sampler, without the counters of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its files, if it has any.
    pub pcap: Option<PcapStatus>,
    /// Its collector, if it has one.
    pub ipfix: Option<IpfixStatus>,
    /// Samples that came when there was nowhere to put them.
    pub astray: u64,
}

/// The same of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapStatus {
    /// The file that is being written.
    pub path: PathBuf,
    /// Octets in it.
    pub length: u64,
    /// The counts of records written to all of them.
    pub written: Written,
    /// The present error, if there is one.
    pub failure: Option<String>,
}

/// The same of its collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpfixStatus {
    /// Its address and port.
    pub address: std::net::SocketAddr,
    /// The counts of records sent to it.
    pub sent: Sent,
    /// The present error, if there is one.
    pub failure: Option<String>,
}

/// Where samples go.
pub(super) struct Outlet {
    pub(super) name: String,
    files: Option<Files>,
    collector: Option<Collector>,
    astray: u64,
    /// The errors that were reported last.
    told: [Option<String>; 2],
}

impl Outlet {
    /// Returns the outlet of an unknown sampler.
    pub(super) fn unknown(name: &str) -> Outlet {
        Outlet { name: name.to_owned(), files: None, collector: None, astray: 0, told: [None, None] }
    }

    /// Opens the file and socket of a sampler.
    ///
    /// # Errors
    /// When the file cannot be created. A collector that cannot be reached is tried again later.
    pub(super) fn open(sampler: &Sampler, now: Time) -> Result<Outlet, io::Error> {
        let files = sampler.pcap.clone().map(Files::open).transpose()?;
        let collector = sampler.ipfix.map(|address| Collector::open(address, now));
        Ok(Outlet { files, collector, ..Outlet::unknown(&sampler.name) })
    }

    /// Goes on as the sampler is now: opens what has another name than before. What cannot be opened is tried again later.
    pub(super) fn follow(&mut self, sampler: &Sampler, now: Time) {
        self.files = match (self.files.take(), &sampler.pcap) {
            (Some(mut files), Some(spec)) if files.path() == spec.path => {
                files.set_bounds(spec);
                Some(files)
            }
            (before, Some(spec)) => {
                let opened = Files::open(spec.clone());
                let mut files = opened.unwrap_or_else(|error| Files::failed(spec.clone(), &error, now));
                files.count_from(before.as_ref().map(Files::written).unwrap_or_default());
                Some(files)
            }
            (_, None) => None,
        };
        self.collector = match (self.collector.take(), sampler.ipfix) {
            (Some(collector), Some(address)) if collector.address() == address => Some(collector),
            (before, Some(address)) => {
                let mut collector = Collector::open(address, now);
                collector.count_from(before.as_ref().map(Collector::sent).unwrap_or_default());
                Some(collector)
            }
            (_, None) => None,
        };
    }

    /// Takes a sample.
    pub(super) fn take(&mut self, sample: &Sample, moment: Moment, interface: &dyn Fn(u32) -> Option<Arc<str>>) {
        let time = moment.of(sample.time);
        if let Some(files) = &mut self.files {
            files.write(Time(time), sample.frame(), sample.length as usize, moment.now);
        }
        if let Some(collector) = &mut self.collector {
            let unix = moment.unix / 1_000_000_000;
            collector.send(sample, &Known { time, interface, now: moment.now, unix });
        }
        if self.files.is_none() && self.collector.is_none() {
            self.astray += 1;
        }
    }

    /// Takes an event of a translation, for the collector.
    pub(super) fn take_event(&mut self, event: &NatEvent, moment: Moment) {
        match &mut self.collector {
            Some(collector) => {
                let (time, unix) = (moment.of(event.time), moment.unix / 1_000_000_000);
                collector.send_event(event, &Known { time, interface: &|_| None, now: moment.now, unix });
            }
            None => self.astray += 1,
        }
    }

    /// Lets go of what was collected.
    pub(super) fn flush(&mut self, moment: Moment) {
        if let Some(files) = &mut self.files {
            files.flush(moment.now);
        }
        if let Some(collector) = &mut self.collector {
            collector.flush(moment.now, moment.unix / 1_000_000_000);
        }
    }

    /// Returns the status.
    pub(super) fn status(&self) -> Status {
        Status {
            name: self.name.clone(),
            pcap: self.files.as_ref().map(|files| PcapStatus {
                path: files.path().to_owned(),
                length: files.length(),
                written: files.written(),
                failure: files.failure().map(str::to_owned),
            }),
            ipfix: self.collector.as_ref().map(|collector| IpfixStatus {
                address: collector.address(),
                sent: collector.sent(),
                failure: collector.failure().map(str::to_owned),
            }),
            astray: self.astray,
        }
    }

    /// Logs what is wrong or right again since the last call.
    pub(super) fn tell(&mut self) {
        let now = [
            self.files.as_ref().and_then(|files| files.failure().map(str::to_owned)),
            self.collector.as_ref().and_then(|collector| collector.failure().map(str::to_owned)),
        ];
        for (told, now) in self.told.iter_mut().zip(now) {
            match (&*told, &now) {
                (before, Some(failure)) if before.as_ref() != Some(failure) => {
                    tracing::error!(sampler = self.name, "sampler {}: {failure}; it is tried again", self.name);
                }
                (Some(_), None) => tracing::info!(sampler = self.name, "sampler {}: it works again", self.name),
                _ => {}
            }
            *told = now;
        }
    }
}
