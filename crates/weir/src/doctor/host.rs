//! The host itself: CPU, memory, kernel.

use std::fs;
use std::path::Path;

use weir_base::affinity;
use weir_crypto::engines;
use weir_plane::model::{Buffers, Gateway, Interface, InterfaceKind};

use super::Finding;
use crate::render::number::octets;

/// Facts about the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// CPUs that the process may use.
    pub cpus: Vec<usize>,
    /// Instruction sets that weir uses and the CPU has.
    pub has: Vec<&'static str>,
    /// Instruction sets that weir uses and the CPU lacks.
    pub lacks: Vec<&'static str>,
    /// The fastest engine of IPsec for AES-GCM.
    pub engine: &'static str,
    /// The number of CPUs whose frequency the kernel lowers, and the governor of the first.
    pub governed: Option<(usize, String)>,
    /// Octets of memory that programs may still get; `None`: not known.
    pub available: Option<u64>,
    /// Free reserved huge pages of 2 MiB.
    pub huge_free: u64,
    /// Transparent huge pages are off.
    pub huge_never: bool,
    /// The kernel segments super-packets of UDP.
    pub udp: bool,
    /// Files that the process may have open; `None`: without a limit, or not known.
    pub files: Option<u64>,
}

/// Octets of a huge page.
const HUGE: u64 = 2 << 20;

impl Host {
    /// Reads the facts; `root`: the folder with `proc` and `sys`.
    pub(super) fn read(root: &Path) -> Host {
        let cpus = affinity::allowed().unwrap_or_default();
        let (has, lacks) = instructions();
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let governor = |cpu: &usize| {
            let own = text(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))?;
            Some(own.trim().to_owned()).filter(|own| own != "performance")
        };
        let governors: Vec<String> = cpus.iter().filter_map(governor).collect();
        let memory = text("proc/meminfo").unwrap_or_default();
        let number = |key: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let is_two_mebibytes = number("Hugepagesize") == Some(2048);
        let transparent = text("sys/kernel/mm/transparent_hugepage/enabled");
        Host {
            cpus,
            has,
            lacks,
            engine: engines::all().first().map_or("", |engine| engine.name()),
            governed: governors.first().cloned().map(|first| (governors.len(), first)),
            available: number("MemAvailable").map(|kibibytes| kibibytes << 10),
            huge_free: number("HugePages_Free").filter(|_| is_two_mebibytes).unwrap_or(0),
            huge_never: transparent.is_none_or(|text| text.contains("[never]")),
            udp: weir_port::segments_udp(),
            files: text("proc/self/limits").and_then(|text| {
                let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
                line.split_whitespace().next()?.parse().ok()
            }),
        }
    }
}

/// Instruction sets that the CPU has, and instruction sets that it lacks.
fn instructions() -> (Vec<&'static str>, Vec<&'static str>) {
    #[cfg(target_arch = "x86_64")]
    let all = [
        ("AVX2", std::is_x86_feature_detected!("avx2")),
        ("AVX-512", std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw")),
        ("VAES", std::is_x86_feature_detected!("vaes")),
        ("VPCLMULQDQ", std::is_x86_feature_detected!("vpclmulqdq")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [(&'static str, bool); 0] = [];
    let (has, lacks): (Vec<_>, Vec<_>) = all.into_iter().partition(|own| own.1);
    let names = |list: Vec<(&'static str, bool)>| list.into_iter().map(|own| own.0).collect();
    (names(has), names(lacks))
}

/// Octets of all packet buffers, without what the pool itself needs.
fn size(buffers: &Buffers) -> u64 {
    u64::from(buffers.small) * (2 << 10) + u64::from(buffers.large) * (66 << 10)
}

/// Files of a gateway without ports, with room for clients of its sockets.
const FILES: u64 = 96;

/// The files that a gateway may have open: its own and those of each port and worker.
fn files(gateway: &Gateway) -> u64 {
    let workers = u64::from(gateway.workers.count);
    // A port has a socket for each queue, and with each worker one of its own to send by and one to wait by.
    let of_port = |interface: &Interface| match interface.kind {
        InterfaceKind::Port { queues, .. } => 4 + 2 * workers + u64::from(queues),
        _ => 0,
    };
    let of = |interface: &Interface| of_port(interface) + u64::from(interface.punt.is_some());
    FILES + 4 * workers + gateway.interfaces.iter().map(of).sum::<u64>()
}

/// Returns the findings about the host.
pub(super) fn judge(host: &Host, gateway: Option<&Gateway>) -> Vec<Finding> {
    let mut findings = vec![cpu(host)];
    if let Some(gateway) = gateway {
        findings.push(workers(host, gateway.workers.count.into(), &gateway.workers.cores));
        findings.push(memory(host, size(&gateway.buffers)));
        findings.extend(open_files(host, files(gateway)));
    }
    if let Some((count, governor)) = &host.governed {
        let what =
            format!("{count} of {} CPUs save power (governor {governor}): ticks per packet rise", host.cpus.len());
        findings.push(Finding::advice("CPU frequency", what).mended_by("cpupower frequency-set -g performance"));
    }
    if !host.udp {
        let what = "it is older than Linux 6.2 and does not segment UDP super-packets: af-packet and tap ports send datagrams one by one";
        findings.push(Finding::advice("kernel", what));
    }
    findings
}

fn cpu(host: &Host) -> Finding {
    let has = if host.has.is_empty() { "no vector instructions".to_owned() } else { host.has.join(", ") };
    let has = format!("{has}; AES-GCM by {}", host.engine);
    if host.lacks.is_empty() {
        return Finding::fine("CPU", has);
    }
    Finding::advice("CPU", format!("{has}; without {} lookups or ciphers take longer", host.lacks.join(", ")))
}

/// Each worker needs a CPU of its own; the threads of control need some time of one.
fn workers(host: &Host, count: usize, cores: &[u16]) -> Finding {
    let missing: Vec<&u16> = cores.iter().filter(|&&core| !host.cpus.contains(&core.into())).collect();
    let cpus = host.cpus.len();
    if let Some(core) = missing.first() {
        return Finding::problem("workers", format!("`[workers] cores` names {core}, which this process may not use"));
    }
    if count > cpus {
        let what = format!("{count} workers share {cpus} CPUs: set `[workers] count` to {} at most", cpus.max(1));
        return Finding::problem("workers", what);
    }
    if count == cpus && count > 1 {
        let what = format!("{count} workers take all CPUs, and control threads interrupt them: leave one CPU free");
        return Finding::advice("workers", what);
    }
    Finding::fine("workers", format!("{count} on {cpus} CPUs"))
}

/// Buffers want huge pages.
fn memory(host: &Host, wanted: u64) -> Finding {
    let what = format!("packet buffers take {}", octets(wanted));
    let pages = wanted.div_ceil(HUGE);
    if pages <= host.huge_free {
        return Finding::fine("memory", format!("{what} of reserved huge pages"));
    }
    if let Some(available) = host.available.filter(|&available| wanted > available) {
        return Finding::problem("memory", format!("{what}, and {} are available", octets(available)));
    }
    if host.huge_never {
        return Finding::advice("memory", format!("{what} of small pages: transparent huge pages are off"))
            .mended_by(format!("sysctl -w vm.nr_hugepages={pages}"));
    }
    Finding::fine("memory", format!("{what} of transparent huge pages"))
}

/// Ports and workers need files.
fn open_files(host: &Host, wanted: u64) -> Option<Finding> {
    let limit = host.files.filter(|&limit| limit < wanted)?;
    let what = format!("the gateway may need {wanted} files, and the limit is {limit} (`LimitNOFILE` of a service)");
    Some(Finding::problem("open files", what).mended_by(format!("ulimit -n {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn host() -> Host {
        Host {
            cpus: vec![0, 1, 2, 3],
            has: vec!["AVX2"],
            lacks: vec![],
            engine: "aws-lc",
            governed: None,
            available: Some(8 << 30),
            huge_free: 0,
            huge_never: false,
            udp: true,
            files: Some(1024),
        }
    }

    #[test]
    fn facts_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let nothing = Host::read(folder.path());
        assert_eq!((nothing.available, nothing.huge_free, nothing.governed), (None, 0, None));
        assert_eq!(nothing.files, None);
        let limits =
            |files: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax open files  {files}  524288  files\n");
        write("proc/self/limits", &limits("64"));
        assert_eq!(Host::read(folder.path()).files, Some(64));
        write("proc/self/limits", &limits("unlimited"));
        assert_eq!(Host::read(folder.path()).files, None);
        write("proc/meminfo", "MemAvailable:  1000 kB\nHugePages_Total: 9\nHugePages_Free: 7\nHugepagesize: 2048 kB\n");
        write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        let cpu = nothing.cpus[0];
        write(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "powersave\n");
        let read = Host::read(folder.path());
        assert_eq!((read.available, read.huge_free, read.huge_never), (Some(1_024_000), 7, false));
        assert_eq!(read.governed, Some((1, "powersave".to_owned())));
        write("proc/meminfo", "HugePages_Free: 7\nHugepagesize: 1048576 kB\n");
        write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
        let read = Host::read(folder.path());
        assert_eq!((read.huge_free, read.huge_never), (0, true), "pages of 1 GiB are of no use");
    }

    #[test]
    fn workers_need_cpus() {
        let level = |count, cores: &[u16]| workers(&host(), count, cores).level;
        assert_eq!(level(1, &[]), Level::Fine);
        assert_eq!(level(4, &[]), Level::Advice);
        assert_eq!(level(5, &[]), Level::Problem);
        assert_eq!(level(2, &[1, 9]), Level::Problem);
    }

    #[test]
    fn ports_need_files() {
        let text = |ports: u32| {
            let port = |number| {
                format!(
                    "[[interface]]\nname = \"i{number}\"\nport = \"null\"\naddress = \"10.0.{number}.1/24\"\nqueues = 4\n"
                )
            };
            format!("version = 1\n[workers]\ncount = 2\n{}", (0..ports).map(port).collect::<String>())
        };
        let found = |ports| {
            let gateway = crate::config::parse_str("weir.toml", &text(ports)).gateway.unwrap();
            open_files(&Host { files: Some(256), ..host() }, files(&gateway))
        };
        assert_eq!(found(12), None);
        assert_eq!(found(13).unwrap().command.as_deref(), Some("ulimit -n 260"));
    }

    #[test]
    fn buffers_need_memory() {
        let wanted = 64 << 20;
        assert_eq!(memory(&host(), wanted).level, Level::Fine);
        let never = Host { huge_never: true, ..host() };
        assert_eq!(memory(&never, wanted).command.as_deref(), Some("sysctl -w vm.nr_hugepages=32"));
        assert_eq!(memory(&Host { huge_free: 32, ..never.clone() }, wanted).level, Level::Fine);
        assert_eq!(memory(&Host { available: Some(1 << 20), ..never }, wanted).level, Level::Problem);
    }
}
