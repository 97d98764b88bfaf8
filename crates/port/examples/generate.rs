//! Measures the generator alone: ticks of the time-stamp counter per packet.

use std::net::IpAddr;

use weir_base::clock::Time;
use weir_base::tsc;
use weir_packet::buffer::{Pool, PoolSize};
use weir_packet::vector::Vector;
use weir_port::Context;
use weir_port::spec::*;

const BURSTS: usize = 2000;
const ROUNDS: usize = 15;

fn main() {
    let v4 = |size, flows, dont_fragment| {
        template(["10.0.0.0", "10.255.255.255", "192.0.0.0", "192.255.255.255"], size, flows, dont_fragment)
    };
    let v6 = |size, flows| {
        template(["2001:db8::", "2001:db8::ffff:ffff", "2001:db8:1::", "2001:db8:ffff:ffff::"], size, flows, true)
    };
    let cases = [
        ("IPv4, 64 octets, 10k flows, DF", v4(SizeSpec::Fixed(64), 10_000, true)),
        ("IPv4, 64 octets, 10k flows", v4(SizeSpec::Fixed(64), 10_000, false)),
        ("IPv4, 64 octets, 1M flows, DF", v4(SizeSpec::Fixed(64), 1_000_000, true)),
        ("IPv4, 64 octets, 16M flows, DF", v4(SizeSpec::Fixed(64), 1 << 24, true)),
        ("IPv4, IMIX, 10k flows", v4(SizeSpec::Imix, 10_000, true)),
        ("IPv4, 1514 octets, 10k flows, DF", v4(SizeSpec::Fixed(1514), 10_000, true)),
        ("IPv6, 78 octets, 1k flows", v6(SizeSpec::Fixed(78), 1_000)),
        ("IPv6, 78 octets, 10k flows", v6(SizeSpec::Fixed(78), 10_000)),
        ("IPv6, 78 octets, 100k flows", v6(SizeSpec::Fixed(78), 100_000)),
        ("IPv6, 78 octets, 1M flows", v6(SizeSpec::Fixed(78), 1_000_000)),
    ];
    let pool = Pool::new(PoolSize { small: 4096, large: 0 }).expect("room for 8 MiB of buffers");
    println!("ticks per packet: least, median");
    for (name, template) in cases {
        let (least, median) = measure(template, &pool);
        println!("{name:34} {least:6.1} {median:6.1}");
    }
}

fn measure(template: TemplateSpec, pool: &Pool) -> (f64, f64) {
    let stream = StreamSpec { source: StreamSource::Template(template), rate: None, count: None };
    let spec = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
    let context = Context { name: "bench".into(), mac: [2; 6], max_frame: 2048, pool: pool.clone() };
    let mut port = weir_port::open(&spec, &Middleware::default(), 1, &context).expect("a valid generator");
    let mut queue = port.receivers().remove(0);
    let mut cache = pool.cache();
    let mut vector = Vector::new();
    let mut figures: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (mut ticks, mut packets) = (0, 0);
            for _ in 0..BURSTS {
                let start = tsc::ticks();
                queue.receive(&mut vector, &mut cache, Time(0));
                ticks += tsc::ticks() - start;
                packets += vector.len();
                vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
                vector.clear();
            }
            ticks as f64 / packets as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[ROUNDS / 2])
}

fn template(addresses: [&str; 4], size: SizeSpec, flows: u32, dont_fragment: bool) -> TemplateSpec {
    let [a, b, c, d] = addresses.map(|address| address.parse::<IpAddr>().expect("an address"));
    TemplateSpec {
        source: (a, b),
        destination: (c, d),
        protocol: Transport::Udp,
        source_port: (1024, 65535),
        destination_port: (53, 53),
        size,
        flows,
        ttl: 64,
        dont_fragment,
        vlan: Vec::new(),
        source_mac: None,
        destination_mac: None,
        seed: 1,
    }
}
