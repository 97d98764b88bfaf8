//! The tables that stand once: `[workers]`, `[buffers]`, `[icmp]`, `[limits]`, `[neighbor-discovery]`, `[service]`, `[metrics]`, `[routes]`.

use std::path::PathBuf;
use std::time::Duration;

use weir_plane::model::{FastPath, FlowTable, IcmpLimits, Limits, NeighborDiscovery, Timeouts};

use super::super::Service;
use super::super::diagnostic::{Code, Diagnostic};
use super::super::metrics::Metrics;
use super::super::plural;
use super::super::routes::Routes;
use super::super::source::{At, Source, Span};
use super::super::table::{Reader, Table, Value};
use super::{metrics, refuse, routes};

/// The settings of the tables.
#[derive(Default)]
pub(in super::super) struct Settings {
    pub(in super::super) workers: Option<At<u16>>,
    pub(in super::super) cores: Option<At<Vec<u16>>>,
    pub(in super::super) max_latency: Option<Duration>,
    /// A worker's number or core could not be read.
    pub(in super::super) lost_workers: bool,
    pub(in super::super) small: Option<At<u32>>,
    pub(in super::super) large: Option<u32>,
    pub(in super::super) icmp: IcmpLimits,
    pub(in super::super) limits: Limits,
    pub(in super::super) neighbor_discovery: NeighborDiscovery,
    pub(in super::super) flow_table: FlowTable,
    /// Where its bounds are set, if they are.
    pub(in super::super) flows_span: Option<Span>,
    pub(in super::super) sessions_span: Option<Span>,
    /// The interfaces whose flows are learned; `None`: all.
    pub(in super::super) flow_interfaces: Option<Vec<At<String>>>,
    pub(in super::super) service: Service,
    pub(in super::super) metrics: Option<Metrics>,
    pub(in super::super) routes: Option<Routes>,
    /// The VRFs that `[[routes.table]]` names.
    pub(in super::super) route_vrfs: Vec<At<String>>,
    /// The key `kernel` of `[routes]`, if routes of the kernel are taken.
    pub(in super::super) kernel_routes: Option<Span>,
    /// The directory in which sequence numbers of SAs are reserved.
    pub(in super::super) ipsec_state: Option<PathBuf>,
    /// The engine of all SAs; `None`: for each SA the first that has its algorithm.
    pub(in super::super) engine: Option<At<&'static str>>,
    /// SAs may have neither encryption nor integrity.
    pub(in super::super) insecure: bool,
    /// Where the limits are set, if they are.
    pub(in super::super) routes_span: Option<Span>,
    pub(in super::super) neighbors_span: Option<Span>,
    pub(in super::super) sav_prefixes_span: Option<Span>,
    pub(in super::super) acl_rules_span: Option<Span>,
    pub(in super::super) allowed_prefixes_span: Option<Span>,
    tables: Vec<At<&'static str>>,
}

/// Buffers of one size, at most: of the small ones 32 GiB.
const MOST_SMALL: u32 = 1 << 24;
const MOST_LARGE: u32 = 1 << 18;

/// Rules of access lists, at most.
const MOST_ACL_RULES: u32 = 1 << 22;

/// Sessions, at most.
const MOST_SESSIONS: u32 = 1 << 24;
/// Packets before a flow is learned, at most.
const MOST_PACKETS: u8 = 100;

/// Messages per second, at most.
const MOST_RATE: u32 = 1_000_000_000;

/// In milliseconds.
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

impl Settings {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, root: &Table<'_>, source: &Source) {
        self.ipsec(reader, root, source);
        self.workers(reader, root);
        self.buffers(reader, root);
        self.icmp(reader, root);
        self.limits(reader, root);
        self.neighbor_discovery(reader, root);
        self.flow_table(reader, root);
        self.service(reader, root);
        if let Some(table) = self.open(reader, root, "metrics", "`[metrics]`", metrics::KEYS) {
            self.metrics = metrics::read(reader, &table, source);
        }
        if let Some(table) = self.open(reader, root, "routes", "`[routes]`", routes::KEYS) {
            (self.routes, self.route_vrfs) = routes::read(reader, &table);
            let kernel = self.routes.as_ref().is_some_and(|routes| routes.kernel);
            self.kernel_routes = table.get("kernel").filter(|_| kernel).map(|value| reader.span(value.span()));
        }
    }

    fn ipsec(&mut self, reader: &mut Reader<'_>, root: &Table<'_>, source: &Source) {
        let Some(table) = self.open(reader, root, "ipsec", "`[ipsec]`", &["state", "insecure", "engine"]) else {
            return;
        };
        self.insecure = table.get("insecure").and_then(|value| reader.boolean(value)).unwrap_or(false);
        let state = table.get("state").and_then(|value| reader.path(value));
        self.ipsec_state = state.map(|path| source.resolve(path.value));
        let engines =
            [("auto", None), ("native", Some("native")), ("ipsec-mb", Some("ipsec-mb")), ("aws-lc", Some("aws-lc"))];
        self.engine = table.get("engine").and_then(|value| {
            let span = reader.span(value.span());
            reader.choice(value, "engine of IPsec", &engines)?.map(|value| At { value, span })
        });
    }

    /// Opens a table that may stand in one file only.
    fn open<'d>(
        &mut self,
        reader: &mut Reader<'_>,
        root: &Table<'d>,
        name: &'static str,
        what: &'static str,
        keys: &'d [&'d str],
    ) -> Option<Table<'d>> {
        let (key, value) = root.entry(name)?;
        let span = reader.span(key.span());
        if let Some(first) = self.tables.iter().find(|table| table.value == name) {
            let found = Diagnostic::error(Code::DuplicateTable, span, format!("`[{name}]` stands in two files"));
            reader.report(found.related(first.span, "first here"));
        } else {
            self.tables.push(At { value: name, span });
        }
        reader.table(value, what, keys)
    }

    fn workers(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        const KEYS: &[&str] = &["count", "cores", "max-latency"];
        let Some(table) = self.open(reader, root, "workers", "`[workers]`", KEYS) else { return };
        if let Some(value) = table.get("count") {
            let count = reader.u16(value, "the number of workers", 1..=16);
            self.lost_workers |= count.is_none();
            self.workers = count.map(|count| At { value: count, span: reader.span(value.span()) });
        }
        if let Some(value) = table.get("cores") {
            let mut cores: Vec<At<u16>> = Vec::new();
            for value in reader.one_at_least(value, "core") {
                let Some(core) = reader.u16(value, "a core", 0..=1023) else {
                    self.lost_workers = true;
                    continue;
                };
                let span = reader.span(value.span());
                if let Some(first) = cores.iter().find(|other| other.value == core) {
                    let message = format!("two workers cannot share core {core}");
                    reader.report(
                        Diagnostic::error(Code::DuplicateCore, span, message).related(first.span, "first here"),
                    );
                    self.lost_workers = true;
                }
                cores.push(At { value: core, span });
            }
            let span = reader.span(value.span());
            self.cores = Some(At { value: cores.iter().map(|core| core.value).collect(), span });
        }
        if let Some(value) = table.get("max-latency") {
            let micros = Duration::from_micros;
            let what = "the time that packets may wait for a pause";
            self.max_latency = reader.duration(value, what, Duration::ZERO..=micros(1000), micros(1));
        }
    }

    fn buffers(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        let Some(table) = self.open(reader, root, "buffers", "`[buffers]`", &["small", "large"]) else { return };
        if let Some(value) = table.get("small") {
            let small = reader.u32(value, "the number of small buffers", 1..=MOST_SMALL);
            self.small = small.map(|small| At { value: small, span: reader.span(value.span()) });
        }
        if let Some(value) = table.get("large") {
            self.large = reader.u32(value, "the number of large buffers", 1..=MOST_LARGE);
        }
    }

    fn icmp(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        const KEYS: &[&str] = &["error-rate", "error-burst", "echo-rate", "echo-burst"];
        let Some(table) = self.open(reader, root, "icmp", "`[icmp]`", KEYS) else { return };
        let mut set = |key: &str, what: &str, least: u32, target: &mut u32| {
            let value = table.get(key).and_then(|value| reader.u32(value, what, least..=MOST_RATE));
            *target = value.unwrap_or(*target);
        };
        set("error-rate", "a rate of errors", 0, &mut self.icmp.error_rate);
        set("error-burst", "a burst of errors", 1, &mut self.icmp.error_burst);
        set("echo-rate", "a rate of echo replies", 0, &mut self.icmp.echo_rate);
        set("echo-burst", "a burst of echo replies", 1, &mut self.icmp.echo_burst);
        if self.icmp.error_rate == 0 {
            self.icmp.error_burst = 0;
        }
        if self.icmp.echo_rate == 0 {
            self.icmp.echo_burst = 0;
        }
    }

    fn limits(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        const KEYS: &[&str] = &["routes", "neighbors", "sav-prefixes", "sav-sets", "acl-rules", "allowed-prefixes"];
        let Some(table) = self.open(reader, root, "limits", "`[limits]`", KEYS) else { return };
        if let Some(value) = table.get("routes") {
            let routes = reader.u32(value, "the number of routes", 1..=1 << 26);
            self.limits.routes = routes.unwrap_or(u32::MAX);
            self.routes_span = Some(reader.span(value.span()));
        }
        if let Some(value) = table.get("neighbors") {
            let neighbors = reader.u32(value, "the number of neighbours", 1..=1 << 24);
            self.limits.neighbors = neighbors.unwrap_or(u32::MAX);
            self.neighbors_span = Some(reader.span(value.span()));
        }
        if let Some(value) = table.get("sav-prefixes") {
            let prefixes = reader.u32(value, "the number of source prefixes", 1..=1 << 26);
            self.limits.sav_prefixes = prefixes.unwrap_or(u32::MAX);
            self.sav_prefixes_span = Some(reader.span(value.span()));
        }
        if let Some(value) = table.get("sav-sets") {
            let sets = reader.u32(value, "the number of sets of interfaces", 1..=1 << 20);
            self.limits.sav_sets = sets.unwrap_or(u32::MAX);
        }
        if let Some(value) = table.get("acl-rules") {
            let rules = reader.u32(value, "the number of rules", 1..=MOST_ACL_RULES);
            self.limits.acl_rules = rules.unwrap_or(u32::MAX);
            self.acl_rules_span = Some(reader.span(value.span()));
        }
        if let Some(value) = table.get("allowed-prefixes") {
            let prefixes = reader.u32(value, "the number of prefixes", 1..=1 << 26);
            self.limits.allowed_prefixes = prefixes.unwrap_or(u32::MAX);
            self.allowed_prefixes_span = Some(reader.span(value.span()));
        }
    }

    fn neighbor_discovery(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        const KEYS: &[&str] = &[
            "reachable-time",
            "retransmit-time",
            "probes",
            "delay-first-probe",
            "stale-time",
            "hold",
            "hold-total",
            "rate",
        ];
        let table = self.open(reader, root, "neighbor-discovery", "`[neighbor-discovery]`", KEYS);
        let Some(table) = table else { return };
        let found = &mut self.neighbor_discovery;
        let millis = Duration::from_millis;
        let mut time = |key: &str, what: &str, (least, most): (u64, u64), target: &mut u32| {
            let value = table.get(key)?;
            let time = reader.duration(value, what, millis(least)..=millis(most), millis(1))?;
            *target = u32::try_from(time.as_millis()).ok()?;
            Some(())
        };
        time("reachable-time", "the time for which a neighbour is reachable", (1000, HOUR), &mut found.reachable_time);
        time("retransmit-time", "the time between two questions", (100, MINUTE), &mut found.retransmit_time);
        time("delay-first-probe", "the time before the first question", (0, MINUTE), &mut found.delay_first_probe);
        time("stale-time", "the time after which a neighbour is forgotten", (1000, 24 * HOUR), &mut found.stale_time);
        if let Some(probes) = table.get("probes").and_then(|value| reader.u8(value, "the number of questions", 1..=20))
        {
            found.probes = probes;
        }
        let mut number = |key: &str, what: &str, least: u32, most: u32| {
            table.get(key).and_then(|value| reader.u32(value, what, least..=most))
        };
        let hold = number("hold", "the number of packets that wait for a neighbour", 0, 1024);
        let hold_total = number("hold-total", "the number of packets that wait", 0, 65_535);
        found.rate = number("rate", "a rate of questions", 1, 1_000_000).unwrap_or(found.rate);
        // Both fit, as just seen.
        found.hold = hold.map_or(found.hold, |hold| hold as u16);
        found.hold_total = hold_total.map_or(found.hold_total, |total| total as u16);
        let value = table.get("hold").or(table.get("hold-total"));
        if let Some(value) = value
            && found.hold > found.hold_total
        {
            let message = format!(
                "`hold` allows {} for one neighbour, more than the {} that `hold-total` allows for all",
                plural(found.hold.into(), "packet"),
                found.hold_total
            );
            let message = Diagnostic::error(Code::OutOfRange, reader.span(value.span()), message);
            let default = NeighborDiscovery::default();
            reader.report(message.help(format!(
                "`hold` is at most `hold-total`; they are {} and {} unless given",
                default.hold, default.hold_total
            )));
        }
    }

    fn flow_table(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        const KEYS: &[&str] = &[
            "enabled",
            "flows",
            "packets",
            "merge",
            "interfaces",
            "offload",
            "sessions",
            "half-open",
            "tcp-pickup",
            "on-change",
            "timeouts",
        ];
        const ON_CHANGE: &[(&str, bool)] = &[("recheck", true), ("keep", false)];
        let Some(table) = self.open(reader, root, "flow-table", "`[flow-table]`", KEYS) else { return };
        let span = |key: &str| table.get(key).map(|value| reader.span(value.span()));
        (self.flows_span, self.sessions_span) = (span("flows"), span("sessions"));
        let found = &mut self.flow_table;
        if let Some(sessions) =
            table.get("sessions").and_then(|value| reader.u32(value, "the number of sessions", 1..=MOST_SESSIONS))
        {
            found.sessions = sessions;
        }
        found.half_open = (found.sessions / 4).max(1);
        if let Some(value) = table.get("half-open")
            && let Some(half_open) = reader.u32(value, "the number of half-open sessions", 1..=MOST_SESSIONS)
        {
            if half_open > found.sessions {
                let message =
                    format!("{half_open} half-open sessions are more than the {} of `sessions`", found.sessions);
                let message = Diagnostic::error(Code::OutOfRange, reader.span(value.span()), message);
                reader
                    .report(message.help("half-open sessions are among the sessions: unless given, a quarter of them"));
            }
            found.half_open = half_open.min(found.sessions);
        }
        if let Some(enabled) = table.get("enabled").and_then(|value| reader.automatic(value)) {
            found.enabled = match enabled {
                None => FastPath::Auto,
                Some(true) => FastPath::On,
                Some(false) => FastPath::Off,
            };
        }
        if let Some(flows) =
            table.get("flows").and_then(|value| reader.u32(value, "the number of learned decisions", 1..=MOST_SESSIONS))
        {
            found.flows = flows;
        }
        let packets = table.get("packets");
        if let Some(packets) =
            packets.and_then(|value| reader.u8(value, "the packet from which on a flow is learned", 1..=MOST_PACKETS))
        {
            found.packets = packets;
        }
        if let Some(merges) = table.get("merge").and_then(|value| reader.boolean(value)) {
            found.merges = merges;
        }
        if let Some(value) = table.get("interfaces") {
            let names = reader.one_or_more(value).iter();
            let names = names.filter_map(|value| reader.reference(value, "an interface's name")).collect();
            self.flow_interfaces = Some(names);
        }
        if let Some(value) = table.get("offload")
            && reader.boolean(value) == Some(true)
        {
            let message = "no port offers to learn flows: weir does it in software";
            let message = Diagnostic::warning(Code::NoOffload, reader.span(value.span()), message);
            reader.report(message.help("`offload` has no effect, and may be left out"));
        }
        if let Some(pickup) = table.get("tcp-pickup").and_then(|value| reader.boolean(value)) {
            found.tcp_pickup = pickup;
        }
        if let Some(recheck) = table.get("on-change").and_then(|value| reader.choice(value, "on-change", ON_CHANGE)) {
            found.recheck = recheck;
        }
        if let Some(value) = table.get("timeouts") {
            self.timeouts(reader, value);
        }
    }

    fn timeouts(&mut self, reader: &mut Reader<'_>, value: Value<'_>) {
        let keys: Vec<&str> = Timeouts::default().all().map(|(key, _)| key).collect();
        let Some(table) = reader.table(value, "`[flow-table.timeouts]`", &keys) else { return };
        let (second, most) = (Duration::from_secs(1), Duration::from_secs(30 * 24 * 3600));
        for (key, timeout) in self.flow_table.timeouts.all() {
            let what = format!("the time-out `{key}`");
            if let Some(time) =
                table.get(key).and_then(|value| reader.duration(value, &what, second..=most, Duration::from_millis(1)))
            {
                *timeout = time;
            }
        }
    }

    fn service(&mut self, reader: &mut Reader<'_>, root: &Table<'_>) {
        let Some(table) = self.open(reader, root, "service", "`[service]`", &["user", "group"]) else { return };
        let mut name = |key: &str| table.get(key).and_then(|value| reader.account(value));
        let (user, group) = (name("user"), name("group"));
        if !table.has("user") {
            refuse(reader, &table, &["group"], "has no meaning without `user`");
        }
        self.service = Service { user, group };
    }
}
