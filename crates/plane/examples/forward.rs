use weir_plane::*;
use weir_plane::model::*;
use weir_base::{clock::Clock, random::Random};
use weir_port::spec::*;
fn main() {
    let n: u32 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(10_000);
    let workers: u16 = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1);
    let nets = |s: &str| Address { net: s.parse().unwrap(), origin: Origin(0) };
    let iface = |name: &str, port: PortSpec, addr: &str| Interface { name: name.into(), kind: InterfaceKind::Port { port, middleware: Middleware::default(), queues: workers }, mac: None, mtu: 1500, addresses: vec![nets(addr)], vrf: VrfIndex(0), origin: Origin(0) };
    let t = StreamSpec { source: StreamSource::Template(TemplateSpec { source: ("10.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap()), destination: ("20.0.0.0".parse().unwrap(), "20.255.255.255".parse().unwrap()), protocol: Transport::Udp, source_port: (1024, 1024), destination_port: (1, 65535), size: SizeSpec::Fixed(60), flows: n, ttl: 64, dont_fragment: false, vlan: vec![], source_mac: None, destination_mac: None, seed: 1 }), rate: None, count: None };
    let gw = Gateway { vrfs: vec![Vrf { name: "default".into(), origin: Origin(0) }], interfaces: vec![iface("a", PortSpec::Generator(GeneratorSpec { streams: vec![t] }), "10.0.0.254/24"), iface("b", PortSpec::Null, "10.1.0.1/24")],
        routes: (0..256u32).map(|i| Route { vrf: VrfIndex(0), prefix: format!("20.{i}.0.0/16").parse().unwrap(), target: RouteTarget::Via([NextHop { interface: InterfaceIndex(1), address: Some(format!("10.1.0.{}", 2 + i % 64).parse().unwrap()), weight: 1 }].into()), origin: Origin(0) }).collect(),
        neighbors: (0..64).map(|i| Neighbor { interface: InterfaceIndex(1), address: format!("10.1.0.{}", 2 + i).parse().unwrap(), mac: weir_packet::wire::MacAddress([2, 0, 0, 0, 0, i]), origin: Origin(0) }).collect(),
        workers: Workers { count: workers, cores: vec![] }, buffers: Default::default(), icmp: Default::default(), limits: Default::default(), origins: Default::default() };
    let e = engine::Engine::start(gw, engine::Options { clock: Clock::monotonic(), random: Random::from_seed(1), invent_neighbors: false, pin: true }).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    e.clear(engine::Clear::All);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let s = e.snapshot();
    for w in &s.workers { for x in &w.nodes { if x.packets > 0 { println!("{} {:15} {:12} {:6.1} ticks {:6.1}/call", w.worker, x.name, x.packets, x.ticks as f64 / x.packets as f64, x.packets as f64 / x.calls as f64); } } }
    println!("{:.2} Mpps {:?}", s.conservation.transmitted as f64 / s.elapsed / 1e6, s.conservation);
    for d in s.drops { if d.packets > 0 { println!("{} {}", d.reason, d.packets); } }
    e.clear(engine::Clear::All);
    let s = e.stop();
    println!("imbalance {} buffers {:?}", s.conservation.imbalance(), s.buffers);
}
