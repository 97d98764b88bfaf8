//! Two gateways that differ in the flow table alone, and the comparison of all that they show.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::offload::Offload;
use weir_packet::packet::Packet;
use weir_packet::segment::Segmenter;
use weir_packet::text;
use weir_packet::vector::{Indices, Vector};
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::harness::{Harness, Options, Outcome};
use weir_plane::model::{FastPath, Gateway};
use weir_plane::reason::Reason;
use weir_plane::sample::Sample;
use weir_plane::stats::{self, FlowRow};
use weir_port::{Segmentation, Transmitter};

use crate::kit::l3;
use crate::traffic::{From, Input};

/// A frame that left, with its offload state.
type Frame = (Vec<u8>, Offload);

/// A queue of a port: the port, and the worker that sends by it. The order of frames of different workers means nothing.
type Queue = (u32, usize);

/// The frames that left by each queue, in their order.
type Sent = Arc<Mutex<BTreeMap<Queue, Vec<Frame>>>>;

/// Keeps the frames that leave by a queue.
struct Keeping {
    queue: Queue,
    sent: Sent,
    /// Frames that each queue takes until the next vector.
    room: Arc<Mutex<BTreeMap<Queue, usize>>>,
    /// The super-packets that it takes; `None`: it takes all, and the gateway merges nothing for it.
    takes: Option<Segmentation>,
    /// It keeps the segments of super-packets.
    cuts: bool,
}

impl Transmitter for Keeping {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let mut rooms = self.room.lock().unwrap();
        let count = rooms.get_mut(&self.queue).map_or(frame.len(), |room| {
            let count = frame.len().min(*room);
            *room -= count;
            count
        });
        let packets = frame.places()[..count].iter();
        let packets = packets.flat_map(|&place| match self.cuts && vector[place].is_to_be_segmented() {
            true => segments(&vector[place]).into_iter().map(|frame| (frame, Offload::default())).collect(),
            false if self.cuts => {
                // As the split of a super-packet leaves it.
                checksum::complete(&mut vector[place]);
                vec![(vector[place].data().to_vec(), Offload::default())]
            }
            false => vec![(vector[place].data().to_vec(), vector[place].offload())],
        });
        self.sent.lock().unwrap().entry(self.queue).or_default().extend(packets);
        count
    }

    fn segmentation(&self) -> Option<Segmentation> {
        self.takes
    }
}

/// The frames of the segments of a packet.
pub fn segments(packet: &Packet) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(packet).expect("what its state says");
    let mut frames = Vec::new();
    while let Some(length) = segmenter.next_length() {
        let mut frame = packet.data()[..packet.l3_offset()].to_vec();
        frame.resize(packet.l3_offset() + length, 0);
        segmenter.next(&mut frame[packet.l3_offset()..]);
        frames.push(frame);
    }
    frames
}

/// Whether a frame is one of ARP or of neighbour discovery.
fn is_of_link(frame: &[u8]) -> bool {
    let at = l3(frame);
    match [frame[at - 2], frame[at - 1]] {
        [0x08, 0x06] => true,
        [0x86, 0xdd] => frame[at + 6] == 58 && frame.get(at + 40).is_some_and(|kind| (133..=137).contains(kind)),
        _ => false,
    }
}

/// The addresses and the protocol of a frame.
fn ends(frame: &[u8]) -> (u8, &[u8]) {
    let at = l3(frame);
    let (protocol, range) = if frame[at] >> 4 == 4 { (9, at + 12..at + 20) } else { (6, at + 8..at + 40) };
    (frame.get(at + protocol).copied().unwrap_or_default(), frame.get(range).unwrap_or_default())
}

/// One of the gateways.
pub struct Side {
    pub harness: Harness,
    enabled: FastPath,
    sent: Sent,
    room: Arc<Mutex<BTreeMap<Queue, usize>>>,
    /// Frames that each queue of a port takes of each vector, where there is a bound.
    rooms: BTreeMap<u32, usize>,
    workers: usize,
    /// The control side sends frames.
    discovers: bool,
    takes: Option<Segmentation>,
    /// Frames that leave are kept as segments.
    cuts: bool,
    /// Packets that hit the same entry are merged.
    merges: bool,
}

impl Side {
    fn new(
        mut model: Gateway,
        (enabled, merges): (FastPath, bool),
        options: Options,
        workers: usize,
        (takes, cuts): (Option<Segmentation>, bool),
    ) -> Side {
        (model.flow_table.enabled, model.flow_table.merges) = (enabled, merges);
        // Each worker keeps buffers for itself: none may find the pool empty where another order of packets would not.
        let share = 2 * (workers as u32 - 1);
        model.buffers.small += share * model.buffers.small;
        model.buffers.large += share * model.buffers.large;
        let harness = Harness::with_workers(model, options, workers).unwrap();
        let mut side = Side {
            harness,
            enabled,
            sent: Sent::default(),
            room: Arc::default(),
            rooms: BTreeMap::new(),
            workers,
            discovers: false,
            takes,
            cuts,
            merges,
        };
        side.harness.set_recording(false);
        // One error is due about a super-packet, and one about each packet that is not merged.
        side.harness.never_pause_merging();
        side.connect();
        side
    }

    /// Finds neighbours from now on.
    pub fn discover(&mut self) {
        self.discovers = true;
        self.harness.discover(&[0, 1]).unwrap();
    }

    /// Takes the frames that left since the last call. Those of the control side, whose order depends on the order of a map,
    /// come first, in an order of their own.
    fn sent(&self) -> BTreeMap<Queue, Vec<Frame>> {
        let mut sent = std::mem::take(&mut *self.sent.lock().unwrap());
        if self.cuts {
            // Super-packets that are cut go behind packets of other flows, and hits that are merged before them, also before an ICMP
            // error about their flow: each flow has its order.
            for frames in sent.values_mut() {
                frames.sort_by(|(one, _), (other, _)| ends(one).cmp(&ends(other)));
            }
        }
        if self.discovers {
            for frames in sent.values_mut() {
                let (mut first, rest): (Vec<Frame>, Vec<Frame>) =
                    std::mem::take(frames).into_iter().partition(|(frame, _)| is_of_link(frame));
                first.sort_by(|(one, _), (other, _)| one.cmp(other));
                frames.extend(first.into_iter().chain(rest));
            }
        }
        sent
    }

    fn connect(&mut self) {
        for index in 0..self.harness.model().interfaces.len() as u32 {
            self.connect_port(index);
        }
    }

    /// Gives the port of an interface, and its punt device, a new transmitter.
    pub fn connect_port(&mut self, index: u32) {
        let own = Some(index).filter(|&index| self.harness.port_of(index) == index);
        let punt = self.harness.model().interfaces[index as usize].punt.is_some();
        for port in own.into_iter().chain(punt.then(|| self.harness.punt_port(index))) {
            let (sent, room, mut workers, takes, cuts) = (&self.sent, &self.room, 0.., self.takes, self.cuts);
            self.harness.connect_each(port, || {
                let queue = (port, workers.next().expect("a worker"));
                Box::new(Keeping { queue, sent: Arc::clone(sent), room: Arc::clone(room), takes, cuts })
            });
        }
    }

    /// Bounds the frames that a port takes of each vector.
    pub fn bound_port(&mut self, port: u32, room: Option<usize>) {
        match room {
            Some(room) => drop(self.rooms.insert(port, room)),
            None => drop(self.rooms.remove(&port)),
        }
    }

    pub fn reload(&mut self, model: &Gateway) -> String {
        let mut model = model.clone();
        (model.flow_table.enabled, model.flow_table.merges) = (self.enabled, self.merges);
        let result = self.harness.reload(model).map_err(|error| error.to_string());
        self.connect();
        format!("{result:?}")
    }

    /// Merges packets that hit the same entry from now on, with the flow table on.
    #[allow(dead_code, reason = "another test uses it")]
    pub fn merge_hits(&mut self, model: &Gateway) -> String {
        (self.enabled, self.merges) = (FastPath::On, true);
        self.reload(model)
    }

    /// Changes the pairs of SAs and the rules of SPDs alone.
    pub fn change_ipsec(&mut self, model: &Gateway) -> String {
        let mut model = model.clone();
        (model.flow_table.enabled, model.flow_table.merges) = (self.enabled, self.merges);
        let result = self.harness.change_ipsec(model).map_err(|error| error.to_string());
        format!("{result:?}")
    }

    /// Runs a vector; returns the outcomes, of which there are none unless fates are recorded.
    fn run(&mut self, inputs: &[Input], now: Time) -> (usize, Vec<Outcome>) {
        // A super-packet takes one place.
        let rooms = self
            .rooms
            .iter()
            .filter(|_| !self.cuts)
            .flat_map(|(port, room)| (0..self.workers).map(|worker| ((*port, worker), *room)));
        *self.room.lock().unwrap() = rooms.collect();
        self.harness.set_time(now);
        let mut taken = 0;
        for (number, input) in (0..).zip(inputs) {
            let Input { port, frame, offload, .. } = input;
            let port = *port as u32;
            let has_punt = self.harness.model().interfaces[port as usize].punt.is_some();
            let added = match input.from {
                From::Tunnel(nesting) => {
                    let interface = self.harness.interface_number(port).expect("every interface has a number");
                    self.harness.inject_decapsulated(interface, nesting, frame, number)
                }
                From::Host if has_punt => {
                    let port = self.harness.punt_port(port);
                    self.harness.inject_offloaded(port, frame, *offload, now, number)
                }
                From::Link | From::Host => {
                    let port = self.harness.port_of(port);
                    self.harness.inject_offloaded(port, frame, *offload, now, number)
                }
            };
            taken += usize::from(added);
        }
        let mut outcomes = self.harness.run();
        for outcome in &mut outcomes {
            (outcome.flow, outcome.learning) = (None, None);
            // The order of paths in words depends on the numbers of adjacencies, which are not the same on both.
            if let Some(sav) = &mut outcome.sav {
                sav.by.clear();
                sav.why.clear();
                // Of several that are equally near, any.
                sav.nearest = None;
            }
            if let Some(route) = &mut outcome.route {
                route.to.clear();
            }
        }
        (taken, outcomes)
    }
}

/// The two gateways: with the flow table, and without.
pub struct Pair {
    pub on: Side,
    pub off: Side,
    /// Samplers take each packet.
    exact_samples: bool,
    /// Frames that left in the latest vector, by port.
    pub latest: Vec<(u32, Vec<u8>)>,
    /// The gateways differ in the sizes of their packets.
    is_of_sizes: bool,
    /// One of the gateways merges packets that hit the same entry.
    joins: bool,
}

/// Returns an error at the first place where two listings differ.
fn same<T: PartialEq + Debug>(name: &str, on: &[T], off: &[T]) -> Result<(), String> {
    let place = (0..on.len().max(off.len())).find(|&place| on.get(place) != off.get(place));
    match place {
        None => Ok(()),
        Some(place) => {
            let texts = [on, off].map(|rows| format!("{:?}", rows.get(place)));
            let [one, other] = texts.each_ref().map(|text| text.char_indices());
            let at = one.zip(other).find(|(one, other)| one != other).map_or(0, |((at, _), _)| at);
            let [on_text, off_text] =
                texts.each_ref().map(|text| text.chars().skip(at.saturating_sub(200)).take(400).collect::<String>());
            let mut message = format!("{name}[{place}], octet {at}:\n   on: {on_text}\n  off: {off_text}");
            // Rows that one has and the other has not: places move behind the first difference.
            for row in on.iter().filter(|row| !off.contains(row)).skip(1).take(5) {
                message.push_str(&format!("\n  only on: {row:?}"));
            }
            for row in off.iter().filter(|row| !on.contains(row)).take(6) {
                message.push_str(&format!("\n  only off: {row:?}"));
            }
            Err(message)
        }
    }
}

impl Pair {
    pub fn new(model: &Gateway, options: Options, workers: usize, exact_samples: bool) -> Pair {
        let takes = match options.seed % 4 {
            0 => None,
            1 => Some(Segmentation::default()),
            2 => Some(Segmentation { tcp4: true, tcp6: true, udp: false, largest: 9000 }),
            _ => Some(Segmentation { tcp4: true, tcp6: true, udp: true, largest: 65_549 }),
        };
        let joins = options.seed % 4 > 1 && (options.seed / 4).is_multiple_of(2);
        let mut model = model.clone();
        model.buffers.large += if joins { 512 } else { 0 };
        let side = |(enabled, merges)| Side::new(model.clone(), (enabled, merges), options, workers, (takes, joins));
        let [on, off] = [(FastPath::On, joins), (FastPath::Off, false)].map(side);
        let exact_samples = exact_samples && !joins;
        Pair { on, off, exact_samples, latest: Vec::new(), is_of_sizes: false, joins }
    }

    /// Two gateways with the same flow table whose ports take these super-packets.
    #[allow(dead_code, reason = "another test uses it")]
    pub fn of_sizes(model: &Gateway, options: Options, takes: Segmentation) -> Pair {
        let side = || Side::new(model.clone(), (model.flow_table.enabled, false), options, 1, (Some(takes), true));
        Pair { on: side(), off: side(), exact_samples: false, latest: Vec::new(), is_of_sizes: true, joins: false }
    }

    /// One of the gateways merges packets that hit the same entry.
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// Gives one gateway packets, and the other what these are in other sizes; compares the frames that leave, as segments, and
    /// drops. Segments of `last` begin a vector.
    #[allow(dead_code, reason = "another test uses it")]
    pub fn run_sizes(
        &mut self,
        wholes: &[Input],
        (segments, last): (&[Input], &[Input]),
        now: Time,
    ) -> Result<(), String> {
        let taken = (self.on.run(wholes, now).0, self.off.run(segments, now).0);
        same("packets taken", &[taken], &[(wholes.len(), segments.len())])?;
        if !last.is_empty() {
            same("packets taken", &[self.off.run(last, now).0], &[last.len()])?;
        }
        let drops = |side: &Side| -> Vec<(&str, u64)> {
            Reason::ALL.iter().map(|&reason| (reason.name(), side.harness.drops(reason))).collect()
        };
        let differ = |pair: &Pair| same("drops", &drops(&pair.on), &drops(&pair.off)).err().unwrap_or_default();
        self.same_frames(segments).map_err(|message| format!("{message}\n  {}", differ(self)))?;
        same("drops", &drops(&self.on), &drops(&self.off))?;
        for side in [&self.on, &self.off] {
            let own = side.harness.conservation();
            if own.imbalance() != 0 {
                return Err(format!("imbalance: {own:?}"));
            }
        }
        self.each(|side| drop(samples(&mut side.harness)));
        Ok(())
    }

    pub fn each(&mut self, mut act: impl FnMut(&mut Side)) {
        act(&mut self.on);
        act(&mut self.off);
    }

    /// Has the control side find neighbours: often, not after each vector, as each time is a change.
    pub fn step(&mut self) {
        self.each(|side| {
            side.harness.step();
        });
    }

    /// Runs a vector on both, and compares the frames that leave, drops and conservation.
    pub fn run(&mut self, inputs: &[Input], now: Time) -> Result<(), String> {
        let (on, off) = (self.on.run(inputs, now), self.off.run(inputs, now));
        let drops = |side: &Side| -> Vec<(&str, u64)> {
            Reason::ALL.iter().map(|&reason| (reason.name(), side.harness.drops(reason))).collect()
        };
        let differ = |pair: &Pair| {
            let conservation = [&pair.on, &pair.off].map(|side| side.harness.conservation());
            let drops = same("drops", &drops(&pair.on), &drops(&pair.off)).err().unwrap_or_default();
            format!("{conservation:?}\n  {drops}")
        };
        self.same_frames(inputs).map_err(|message| format!("{message}\n  {}", differ(self)))?;
        same("drops", &drops(&self.on), &drops(&self.off))?;
        let (of_on, of_off) = (self.on.harness.conservation(), self.off.harness.conservation());
        if !self.joins {
            same("conservation", &[of_on], &[of_off])?;
        }
        if let Some(own) = [of_on, of_off].into_iter().find(|own| own.imbalance() != 0) {
            return Err(format!("imbalance: {own:?}"));
        }
        // Taken after each vector, so that their ring never overflows.
        let [of_on, of_off] = [&mut self.on, &mut self.off].map(|side| samples(&mut side.harness));
        if self.exact_samples {
            same("samples", &of_on, &of_off)?;
        }
        same("packets taken", &[on.0], &[off.0])?;
        same("outcomes", &on.1, &off.1)
    }

    /// Compares the frames that left by each port since the last call.
    fn same_frames(&mut self, inputs: &[Input]) -> Result<(), String> {
        let (on, off) = (self.on.sent(), self.off.sent());
        let kept = off.iter().flat_map(|((port, _), frames)| frames.iter().map(|(frame, _)| (*port, frame.clone())));
        self.latest = kept.filter(|(_, frame)| !is_of_link(frame)).collect();
        let (none, all) = (Vec::new(), (&on, &off));
        for queue @ (port, worker) in on.keys().chain(off.keys()) {
            let (on, off) = (on.get(queue).unwrap_or(&none), off.get(queue).unwrap_or(&none));
            let Some(place) = (0..on.len().max(off.len())).find(|&place| on.get(place) != off.get(place)) else {
                continue;
            };
            let line = |sent: Option<&Frame>| {
                sent.map_or("no frame".to_owned(), |(frame, offload)| {
                    format!("{} {offload:?}\n       {frame:02x?}", text::summary(frame))
                })
            };
            let mut message = format!(
                "port {port}, worker {worker}: {} and {} frames, and frame {place} differs",
                on.len(),
                off.len()
            );
            message.push_str(&format!("\n   on: {}\n  off: {}", line(on.get(place)), line(off.get(place))));
            let counts = |sent: &BTreeMap<Queue, Vec<Frame>>| {
                let counts: Vec<String> =
                    sent.iter().map(|((port, worker), frames)| format!("{port}/{worker}: {}", frames.len())).collect();
                counts.join(", ")
            };
            message.push_str(&format!(
                "\n  frames by port and worker:\n   on: {}\n  off: {}",
                counts(all.0),
                counts(all.1)
            ));
            for (number, input) in inputs.iter().enumerate() {
                // Those from which one of the two frames may come.
                let end = &input.frame[input.frame.len().saturating_sub(8)..];
                let is_of = |sent: Option<&Frame>| sent.is_some_and(|(frame, _)| frame.ends_with(end));
                if is_of(on.get(place)) || is_of(off.get(place)) {
                    let is_bare = matches!(input.from, From::Tunnel(_));
                    let summary = if is_bare { text::packet_summary } else { text::summary };
                    let summary = summary(&input.frame);
                    message.push_str(&format!("\n  perhaps of input {number}, {:?}: {summary}", input.from));
                }
            }
            return Err(message);
        }
        Ok(())
    }

    /// Compares all other counters.
    pub fn compare(&mut self) -> Result<(), String> {
        let (on, off) = (&self.on.harness, &self.off.harness);
        let count = off.model().interfaces.len() as u32;
        let interfaces = |harness: &Harness| {
            let mut rows: Vec<_> = (0..count).map(|index| harness.interface_stats(index)).collect();
            if self.is_of_sizes || self.joins {
                rows.iter_mut().flatten().for_each(|row| (row.merged, row.cut) = Default::default());
            }
            rows
        };
        same("interfaces", &interfaces(on), &interfaces(off))?;
        same("sav", &on.sav(), &off.sav())?;
        same("sav policies", &policies(on), &policies(off))?;
        for policy in &off.model().sav {
            let name = &policy.name;
            same(&format!("sav entries of {name}"), &on.sav_entries(name), &off.sav_entries(name))?;
        }
        let (of_on, of_off) = (on.acl_lists(), off.acl_lists());
        for list in &of_off {
            let name = &list.name;
            same(&format!("rules of {name}"), &on.acl_rules(name), &off.acl_rules(name))?;
        }
        same("access lists", &of_on, &of_off)?;
        same("bindings", &on.bindings(), &off.bindings())?;
        same("allowlists", &on.allowlists(), &off.allowlists())?;
        same("classifier tables", &on.classify(None), &off.classify(None))?;
        same("bridges", &on.bridges(), &off.bridges())?;
        for bridge in &off.model().bridges {
            let stations = |harness: &Harness| harness.bridge_macs(&bridge.name).unwrap_or_default();
            same("stations", &stations(on), &stations(off))?;
        }
        same("ethertypes", &on.ethertypes(), &off.ethertypes())?;
        let samplers = |harness: &Harness| {
            let mut samplers = harness.samplers();
            if !self.exact_samples {
                samplers.iter_mut().for_each(|own| (own.taken, own.over_rate) = (0, 0));
            }
            if self.is_of_sizes {
                samplers.clear();
            }
            samplers
        };
        same("samplers", &samplers(on), &samplers(off))?;
        same("alarms", &on.alarms(), &off.alarms())?;
        same("sessions", &sessions(on), &sessions(off))?;
        same("sessions opened, and ended or open", &[balance(on).0], &[balance(on).1])?;
        same("sessions opened, and ended or open, without the fast path", &[balance(off).0], &[balance(off).1])?;
        same("steer rules", &on.steer(), &off.steer())?;
        let lists = |harness: &Harness| {
            let mut lists = harness.nat_lists();
            if self.is_of_sizes {
                // A packet behind the border of a vector opens anew what no packet before it confirmed.
                lists.iter_mut().flat_map(|list| &mut list.rules).for_each(|rule| rule.opened = 0);
            }
            lists
        };
        same("lists of translators", &lists(on), &lists(off))?;
        let translations = |harness: &Harness| {
            let mut rows = harness.translations(&FlowFilter::default(), usize::MAX).rows;
            // Whether their packets take decisions.
            rows.iter_mut().for_each(|row| row.slow = [None; 2]);
            rows
        };
        same("translations", &translations(on), &translations(off))?;
        // Packets that take decisions use no cache.
        let policies = |harness: &Harness| {
            let mut spds = harness.spds();
            spds.iter_mut().for_each(|own| own.caches.clear());
            spds
        };
        same("SPDs", &policies(on), &policies(off))?;
        same("SAs", &on.sas(), &off.sas())?;
        same("pools", &on.nat_pools(), &off.nat_pools())?;
        if self.is_of_sizes {
            // They hold packets taken at random.
            return Ok(());
        }
        for (name, on, off) in [
            ("invalid sources", on.invalid_sources(), off.invalid_sources()),
            ("unknown sources", on.unknown_sources(), off.unknown_sources()),
        ] {
            same(name, &rows(&on), &rows(&off))?;
            same(name, &[on.lost], &[off.lost])?;
        }
        Ok(())
    }
}

/// Returns counters of a gateway that are to have counted something, by name.
pub fn counted(harness: &Harness) -> Vec<(&'static str, u64)> {
    let model = harness.model();
    let mut counted = Vec::new();
    for own in harness.sav() {
        let invalid = own.invalid.iter().map(|(_, traffic)| traffic.packets).sum();
        counted.extend([("sav checked", own.checked), ("sav invalid", invalid), ("sav unknown", own.unknown)]);
        counted.extend([("sav exempt", own.exempt), ("sav limited", own.limited), ("sav redirected", own.redirected)]);
    }
    for policy in &model.sav {
        let hits = harness.sav_entries(&policy.name).into_iter().filter_map(|entry| entry.hits);
        counted.push(("sav hits", hits.sum()));
    }
    for list in harness.acl_lists() {
        counted.push(("acl default", list.default_matched.packets));
        for row in harness.acl_rules(&list.name) {
            let from = if row.time.is_some() { "acl rules of edits" } else { "acl rules" };
            counted.extend([(from, row.matched.bytes), ("acl limited", row.limited.unwrap_or(0))]);
        }
    }
    for rule in harness.nat_lists().iter().flat_map(|list| &list.rules) {
        counted.extend([("nat packets", rule.packets), ("nat octets", rule.bytes), ("nat opened", rule.opened)]);
        counted.extend([("nat exhausted", rule.exhausted), ("nat limited", rule.limited)]);
    }
    let translations = harness.nat_vrfs().iter().map(|own| own.translations as u64).sum();
    counted.push(("translations of vrfs", translations));
    for own in harness.sas() {
        counted.push(("packets sealed", own.outbound.map_or(0, |own| own.packets)));
        if let Some(own) = own.inbound {
            counted.extend([("packets opened", own.packets), ("packets of other policies", own.selector)]);
        }
    }
    for own in harness.bindings() {
        let matched = own.rules.iter().map(|rule| rule.matched.bytes).sum();
        counted.extend([("bindings matched", matched), ("bindings unmatched", own.unmatched.packets)]);
    }
    for own in harness.bridges() {
        counted.extend([("frames to known stations", own.known), ("stations learned", own.learned)]);
        counted.extend([("stations moved", own.moved), ("stations held", own.held), ("bridge full", own.full)]);
    }
    counted.push(("bindings learned", harness.bindings().iter().map(|own| own.learned.len() as u64).sum()));
    for own in harness.allowlists() {
        counted.extend([("allowlists passed", own.passed), ("allowlists refused", own.refused)]);
    }
    counted.extend(harness.ethertypes().iter().map(|own| ("ethertypes refused", own.refused)));
    for own in harness.samplers() {
        counted.extend([("samples taken", own.taken), ("samples over rate", own.over_rate)]);
    }
    counted.extend(harness.alarms().iter().map(|own| ("alarms", own.packets)));
    counted.push(("invalid sources", harness.invalid_sources().rows.len() as u64));
    counted.push(("unknown sources", harness.unknown_sources().rows.len() as u64));
    for index in 0..model.interfaces.len() as u32 {
        let own = harness.interface_stats(index).expect("every interface counts");
        counted.push(("punted", own.punt.packets));
        counted.extend([("packets merged", own.merged.1), ("super-packets cut", own.cut.0)]);
    }
    for row in sessions(harness) {
        let replies = row.packets[1];
        counted.extend([(row.state, 1), ("packets of sessions", row.packets[0]), ("replies of sessions", replies)]);
    }
    counted
}

/// Returns the samples since the last call, in an order that does not depend on the packets'.
fn samples(harness: &mut Harness) -> Vec<Sample> {
    let mut samples = harness.samples();
    samples.sort_by_cached_key(|sample| format!("{:?} {:?}", sample.cause, sample));
    samples
}

/// Returns the policies without their memory, which depends on the order of maps.
fn policies(harness: &Harness) -> Vec<stats::SavPolicyStats> {
    let mut policies = harness.sav_policies();
    for table in policies.iter_mut().flat_map(|policy| &mut policy.tables) {
        (table.lookup_octets, table.control_octets) = (0, 0);
    }
    policies.iter_mut().for_each(|policy| policy.dynamic_octets = 0);
    policies
}

/// Returns the sessions in an order that does not depend on the table's, without what is said of their learned decisions.
fn sessions(harness: &Harness) -> Vec<FlowRow> {
    let mut rows = harness.flows(&FlowFilter::default(), FlowOrder::Age, usize::MAX).rows;
    rows.iter_mut().for_each(|row| row.slow = [None; 2]);
    rows.sort_by_key(|row| {
        let FlowRow { protocol, source, destination, ports, request, .. } = row;
        (*protocol, *source, *destination, *ports, *request, row.received_on.clone(), row.age)
    });
    rows
}

/// Returns how many sessions were opened, and how many of these have ended or are open.
fn balance(harness: &Harness) -> (u64, u64) {
    let counted = harness.flows(&FlowFilter::default(), FlowOrder::Age, 0).counted;
    let stats::SessionsCounted { opened, open, expired, replaced, revoked, renewed, unconfirmed, cleared } = counted;
    (opened, open + expired + replaced + revoked + renewed + unconfirmed + cleared)
}

/// Returns the rows of a table of sources in an order that does not depend on the table's.
fn rows(sources: &stats::InvalidSources) -> Vec<stats::InvalidSourceRow> {
    let mut rows = sources.rows.clone();
    rows.sort_by_key(|row| (row.interface.clone(), row.prefix, row.by));
    rows
}
