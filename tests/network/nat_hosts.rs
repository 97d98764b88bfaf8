//! Translation between real hosts: what programs of hosts do through it, and floods beside.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_base::random::Random;
use weir_packet::checksum;

use crate::lab::{Lab, Line, LineOptions, Space, Weir, echo, inject, listening};
use crate::mtu::{ROUTES, behind, discover};

/// Downloads of the test with a flood beside, unless `WEIR_TEST_DOWNLOADS` gives another number.
const DOWNLOADS: u64 = 2_000;

/// Octets of a download.
const OCTETS: usize = 20_000;

/// SYN segments a second beside the downloads.
const FLOOD: u32 = 10_000;

/// The usual line, whose right side is outside.
fn config(line: &Line) -> String {
    line.config().replace("address = [\"10.2.0.1", "nat = \"edge\"\naddress = [\"10.2.0.1")
        + "\n[nat.edge]\nrules = \"source ip from any to any as interface\"\n"
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

#[test]
fn traceroute_and_path_mtu_discovery_work_through_it() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let (_beyond, far) = behind(&mut lab, &line);
    let weir = Weir::start(&line.gate, &(config(&line) + ROUTES));
    echo(&line.left, "10.4.0.2", [56, 4000]);
    echo(&line.left, "2001:db8:4::2", [56]);
    for method in ["-U", "-I", "-T"] {
        for (target, hops) in [
            ("10.4.0.2", ["10.1.0.1", "10.2.0.2", "10.3.0.2", "10.4.0.2"]),
            ("2001:db8:4::2", ["2001:db8:1::1", "2001:db8:2::2", "2001:db8:3::2", "2001:db8:4::2"]),
        ] {
            let text = line.left.run("traceroute", &["-n", "-q", "1", "-w", "10", "-m", "6", method, target]);
            let seen: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
            assert_eq!(seen, hops, "{method}");
        }
    }
    // The error of the small link quotes a translated segment. The host gets it with the segment that it sent.
    discover(&line.left, (&far, ["10.4.0.2", "2001:db8:4::2"]), ["10.2.0.2", "2001:db8:2::2"]);
    weir.end();
}

/// Serves one file by FTP (RFC 959) on a control connection: by a data connection to the client (PORT, EPRT), or from it (PASV, EPSV).
fn serve_ftp(control: TcpStream, own: Ipv4Addr) -> std::io::Result<()> {
    let mut answer = control.try_clone()?;
    let mut lines = BufReader::new(control).lines();
    let mut say = |text: &str| answer.write_all(format!("{text}\r\n").as_bytes());
    let (mut active, mut passive): (Option<SocketAddr>, Option<TcpListener>) = (None, None);
    say("220 ready")?;
    while let Some(line) = lines.next().transpose()? {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "USER" => say("331 password")?,
            "PASS" => say("230 welcome")?,
            "PWD" => say("257 \"/\"")?,
            "TYPE" | "CWD" => say("200 yes")?,
            "SIZE" => say(&format!("213 {OCTETS}"))?,
            "EPSV" | "EPRT" => say("500 unknown")?,
            "PASV" => {
                let listener = TcpListener::bind((own, 0))?;
                let port = listener.local_addr()?.port();
                let [a, b, c, d] = own.octets();
                say(&format!("227 passive ({a},{b},{c},{d},{},{})", port >> 8, port & 255))?;
                passive = Some(listener);
            }
            "PORT" => {
                let numbers: Vec<u8> = rest.split(',').filter_map(|number| number.trim().parse().ok()).collect();
                let [a, b, c, d, high, low] = numbers[..] else { return say("501 not six numbers") };
                active = Some(SocketAddr::from(([a, b, c, d], u16::from(high) << 8 | u16::from(low))));
                say("200 yes")?;
            }
            "RETR" => {
                let data = match (&passive, active) {
                    (Some(listener), _) => listener.accept().map(|(data, _)| data),
                    (None, Some(to)) => TcpStream::connect_timeout(&to, Duration::from_secs(3)),
                    (None, None) => return say("425 no mode"),
                };
                match data {
                    Ok(mut data) => {
                        say("150 it comes")?;
                        data.write_all(&vec![7; OCTETS])?;
                        drop(data);
                        say("226 done")?;
                    }
                    Err(_) => say("425 no data connection")?,
                }
            }
            "QUIT" => return say("221 bye"),
            _ => say("500 unknown")?,
        }
    }
    Ok(())
}

#[test]
fn ftp_works_in_passive_mode_and_not_in_active_mode() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    let own = Ipv4Addr::new(10, 2, 0, 2);
    let listener = line.right.enter(|| listening((own, 21)));
    let server = line.right.spawn(move || {
        for _ in 0..2 {
            let (control, _) = listener.accept().expect("a client comes");
            // A client that gives up closes the connection.
            let _ = serve_ftp(control, own);
        }
    });
    let get = |mode: &[&str]| {
        let mut arguments = vec!["-sS", "--max-time", "20", "--disable-epsv", "--disable-eprt", "-o", "/dev/null"];
        arguments.extend(mode);
        arguments.extend(["-w", "%{size_download}", "ftp://10.2.0.2/file"]);
        line.left.output("curl", &arguments)
    };
    let passive = get(&[]);
    assert!(passive.status.success(), "{passive:?}");
    assert_eq!(String::from_utf8_lossy(&passive.stdout), OCTETS.to_string());
    // The address in PORT is the inside one, as no gateway changes it (docs/nat.md, Limits).
    let active = get(&["--ftp-port", "10.1.0.2"]);
    assert!(!active.status.success(), "{active:?}");
    server.join().expect("the server has served both");
    weir.end();
}

/// Serves so many octets to each client that sends a request, until `stop` is set.
fn serve(space: &Space, on: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let listener = space.enter(|| listening(on));
    listener.set_nonblocking(true).expect("a listener can be polled");
    let stop = Arc::clone(stop);
    space.spawn(move || {
        let octets = vec![5; OCTETS];
        while !stop.load(Ordering::Relaxed) {
            let Ok((mut client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            };
            let octets = octets.clone();
            std::thread::spawn(move || {
                client.set_nonblocking(false).expect("a stream blocks");
                let mut question = [0; 16];
                if client.read(&mut question).is_ok() {
                    let _ = client.write_all(&octets);
                }
            });
        }
    })
}

/// Downloads all octets; returns how many came.
fn download(from: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&from, Duration::from_secs(30))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"GET /\r\n\r\n")?;
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets)
}

/// A SYN of one of the hosts on the left, from any port, to a host that never answers.
fn syn(gateway: &[u8], random: &mut Random) -> Vec<u8> {
    let mut frame = gateway.to_vec();
    frame.extend([2, 0, 0, 0, 1, 1, 8, 0]);
    frame.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, random.below(250) as u8 + 3, 10, 4, 0, 77]);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend((random.below(60_000) as u16 + 1024).to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = checksum::pseudo_v4(Ipv4Addr::new(10, 1, 0, frame[29]), Ipv4Addr::new(10, 4, 0, 77), 6, 20);
    let sum = pseudo.bytes(&frame[34..]).checksum();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    frame.resize(60, 0);
    frame
}

#[test]
fn thousands_of_downloads_by_one_address_succeed_beside_a_flood_of_requests() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let downloads = std::env::var("WEIR_TEST_DOWNLOADS").map_or(DOWNLOADS, |text| text.parse().expect("a number"));
    // The host on the right drops what it is not to forward.
    let config = config(&line)
        + "\n[flow-table]\nhalf-open = 4000\n\n[[route]]\nprefix = \"10.4.0.0/24\"\nvia = { address = \"10.2.0.2\" }\n";
    let weir = Weir::start(&line.gate, &config);
    echo(&line.left, "10.2.0.2", [56]);
    let text = line.gate.run("cat", &["/sys/class/net/left/address"]);
    let gateway: Vec<u8> =
        text.trim().split(':').map(|octet| u8::from_str_radix(octet, 16).expect("an octet")).collect();
    let (stop, from) = (Arc::new(AtomicBool::new(false)), at("10.2.0.2", 8080));
    let server = serve(&line.right, from, &stop);
    let flood = {
        let (left, stop) = (line.left.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (mut random, mut sent) = (Random::from_seed(3), 0_u64);
            let frames = std::iter::from_fn(|| {
                sent += 1;
                (!stop.load(Ordering::Relaxed)).then(|| syn(&gateway, &mut random))
            });
            inject(&left, "e0", FLOOD, frames);
            sent
        })
    };
    let (left, failed) = (AtomicU64::new(downloads), AtomicU64::new(0));
    let start = Instant::now();
    line.left.enter(|| {
        let client = || {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                if !download(from).is_ok_and(|octets| octets == OCTETS) {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        // Threads of a thread are in its namespace.
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(client))));
    });
    let time = start.elapsed();
    let translations = weir.weir(&["show", "nat", "translations", "tcp", "--json", "--limit", "1"]);
    stop.store(true, Ordering::Relaxed);
    let sent = flood.join().expect("the flood ends");
    server.join().expect("the server ends");
    println!("{downloads} downloads in {time:.1?} beside {sent} requests; {:?}", weir.drops());
    assert_eq!(failed.into_inner(), 0, "downloads failed");
    let translations: serde_json::Value = serde_json::from_slice(&translations.stdout).expect("JSON");
    let total = translations["total"].as_u64().expect("a number");
    assert!((downloads.min(2_000)..=downloads + 4_100).contains(&total), "{total} translations");
    weir.end();
}
