//! SAs in configurations whose key files are as they should be: their modes cannot be kept in a repository.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use weir::config::{self, Code, Loaded};
use weir::replay::Options;
use weir::replay::explanation::{Explanation, Incoming, explain};
use weir_plane::model::Tfc;

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
}

/// Checks a gateway with these pairs of SAs, beside which there are keys `a` to `d`.
fn check(sas: &str) -> (TempDir, Loaded) {
    let folder = tempfile::tempdir().unwrap();
    for (name, digit) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "1"), ("e", "4")] {
        write(folder.path(), name, &format!("{digit}0{digit}1").repeat(10), 0o600);
    }
    let names = sas.split("[sa.").skip(1).filter_map(|own| Some(own.split_once(']')?.0));
    let rule = |(at, name): (usize, &str)| format!("\"protect ip from any to 10.{at}.0.0/16 sa {name}\"");
    let rules = names.enumerate().map(rule).collect::<Vec<_>>().join(", ");
    let text = format!(
        r#"
        version = 1
        [ipsec]
        state = "state"
        [[interface]]
        name = "wan"
        port = "null"
        address = ["198.51.100.1/24", "198.51.100.7/32"]
        spd = "edge"
        [[interface]]
        name = "east"
        port = "ipsec"
        {sas}
        [spd.edge]
        rules = [{rules}]
        "#
    );
    write(folder.path(), "weir.toml", &text, 0o644);
    let loaded = config::check(&folder.path().join("weir.toml"));
    (folder, loaded)
}

fn sa(name: &str, local: &str, keys: &str) -> String {
    let ends =
        format!("local = \"{local}\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\ninterface = \"east\"");
    format!("[sa.{name}]\n{ends}\n{keys}\n")
}

fn codes(loaded: &Loaded) -> Vec<Code> {
    loaded.diagnostics.iter().map(|found| found.code).collect()
}

#[test]
fn whole_pairs_have_nothing_wrong() {
    let keys = |out: u32, into: u32, a: &str, b: &str| {
        format!("out = {{ spi = {out}, key-file = \"{a}\" }}\nin = {{ spi = {into}, key-file = \"{b}\" }}")
    };
    let (folder, loaded) = check(&sa("one", "198.51.100.1", &keys(0x1001, 0x2001, "a", "b")));
    assert_eq!(codes(&loaded), [], "{}", loaded.text(false));
    let gateway = loaded.gateway.unwrap();
    assert_eq!((gateway.sas.len(), gateway.sas[0].window), (1, 64));
    assert_eq!(gateway.ipsec.state.as_deref(), Some(folder.path().join("state").as_path()));
    let printed = format!("{:?}", gateway.sas);
    assert!(!printed.contains("10111011") && !printed.contains("16, 17"), "{printed}");
    // The same SPI at two addresses is two SPIs; in two directions, too.
    let pairs = |out: u32, key: &str| {
        sa("one", "198.51.100.1", &keys(500, 500, "a", "b")) + &sa("two", "198.51.100.7", &keys(out, 500, "c", key))
    };
    assert_eq!(codes(&check(&pairs(501, "e")).1), []);
    // The receiver of both knows them by their SPIs.
    assert_eq!(codes(&check(&pairs(500, "e")).1), [Code::DuplicateSpi]);
    // The peer sends with one key twice; or it sends with a key that the gateway sends with, too.
    assert_eq!(codes(&check(&pairs(501, "b")).1), [Code::KeyReused]);
    assert_eq!(codes(&check(&pairs(501, "d")).1), [Code::KeyReused]);
    // A gateway may have both ends of an SA.
    let ends = |local: &str, remote: &str, keys: &str| sa("x", local, keys).replace("198.51.100.2", remote);
    let there = ends("198.51.100.1", "198.51.100.7", &keys(500, 600, "a", "b"));
    let back = ends("198.51.100.7", "198.51.100.1", &keys(600, 500, "b", "a")).replace("sa.x", "sa.y");
    assert_eq!(codes(&check(&(there.clone() + &back)).1), []);
    assert_eq!(codes(&check(&(there + &back.replace("spi = 600", "spi = 601"))).1), [Code::KeyReused]);
}

#[test]
fn spis_and_keys_are_used_once() {
    let one = sa("one", "198.51.100.1", "in = { spi = 300, key-file = \"a\" }");
    let two = sa("two", "198.51.100.1", "in = { spi = 0x12c, key-file = \"b\" }");
    let found = codes(&check(&(one + &two)).1);
    assert_eq!(found, [Code::DuplicateSpi, Code::NoOutbound, Code::NoOutbound]);
    let one = sa("one", "198.51.100.1", "out = { spi = 300, key-file = \"a\" }");
    let two = sa("two", "198.51.100.1", "out = { spi = 301, key-file = \"d\" }");
    let (_folder, loaded) = check(&(one + &two));
    assert_eq!(codes(&loaded), [Code::KeyReused], "another file with the same key");
    assert!(loaded.gateway.is_none());
    let both = "out = { spi = 300, key-file = \"a\" }\nin = { spi = 300, key-file = \"d\" }";
    let (_folder, loaded) = check(&sa("one", "198.51.100.1", both));
    assert_eq!(codes(&loaded), [Code::KeyReused]);
    assert!(loaded.gateway.is_none(), "{}", loaded.text(false));
    let other = "out = { spi = 300, key-file = \"a\" }\nin = { spi = 300, key-file = \"b\" }";
    assert_eq!(codes(&check(&sa("one", "198.51.100.1", other)).1), []);
}

/// A key stream comes of the key of the cipher and of the number of the packet, whatever authenticates it.
#[test]
fn keys_of_integrity_make_no_other_key_streams() {
    let folder = tempfile::tempdir().unwrap();
    let cipher = "1021".repeat(10);
    for (name, integrity) in [("a", "30"), ("b", "40")] {
        write(folder.path(), name, &format!("{cipher}{}", format!("{integrity}31").repeat(16)), 0o600);
    }
    let pair = |name: &str, spi: u32| {
        format!(
            "[sa.{name}]\nlocal = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128ctr-sha256\"\n\
             out = {{ spi = {spi}, key-file = \"{name}\" }}\n"
        )
    };
    let text = format!(
        "version = 1\n[ipsec]\nstate = \"s\"\n[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\n\
         spd = \"edge\"\n[spd.edge]\nrules = [\"protect udp from any to any sa a\", \"protect tcp from any to any sa b\"]\n{}{}",
        pair("a", 300),
        pair("b", 301)
    );
    write(folder.path(), "weir.toml", &text, 0o644);
    assert_eq!(codes(&config::check(&folder.path().join("weir.toml"))), [Code::KeyReused]);
}

#[test]
fn null_needs_no_key_and_the_word_insecure() {
    let pair = "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\nspd = \"edge\"\n\
        [spd.edge]\nrules = [\"protect ip from any to any sa one\"]\n[sa.one]\n\
        local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"null\"\nout = { spi = 300 }\nin = { spi = 301 }\n";
    for (insecure, expected) in [("insecure = true", vec![]), ("insecure = false", vec![Code::InvalidValue])] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("version = 1\n[ipsec]\nstate = \"s\"\n{insecure}\n{pair}");
        write(folder.path(), "weir.toml", &text, 0o644);
        let loaded = config::check(&folder.path().join("weir.toml"));
        assert_eq!(codes(&loaded), expected, "{}", loaded.text(false));
        if let Some(gateway) = loaded.gateway {
            assert_eq!((gateway.sas[0].window, gateway.sas[0].inbound.is_some()), (0, true));
        }
    }
}

#[test]
fn the_engine_is_chosen_for_all_sas_or_refused() {
    let pair = |algorithm: &str| {
        format!(
            "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\nspd = \"edge\"\n\
            [spd.edge]\nrules = [\"protect ip from any to any sa one\"]\n[sa.one]\n\
            local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"{algorithm}\"\n\
            tfc = \"mtu\"\ndummies = \"10pps\"\nencapsulation = {{ keepalive = \"off\" }}\n\
            lifetime = {{ hard = {{ time = \"1h\", octets = 7 }} }}\n\
            out = {{ spi = 300, key-file = \"key\" }}\n"
        )
    };
    let named = |name| weir_crypto::engines::by_name(name).map(|engine| engine.name());
    let (native, many) = (named("native"), named("ipsec-mb"));
    for (engine, algorithm, octets, expected) in [
        ("engine = \"auto\"", "aes128gcm16", 20, Some(native.or(many).unwrap_or("aws-lc"))),
        ("engine = \"native\"", "aes128gcm16", 20, native),
        ("engine = \"aws-lc\"", "aes128gcm16", 20, Some("aws-lc")),
        ("", "aes128-sha256", 48, Some(many.unwrap_or("aws-lc"))),
        ("engine = \"ipsec-mb\"", "aes128-sha256", 48, many),
        ("engine = \"ipsec-mb\"", "aes128gcm16", 20, many),
        ("engine = \"ipsec-mb\"", "aes128gmac", 20, None),
        ("engine = \"native\"", "aes128-sha256", 48, None),
        ("engine = \"fast\"", "aes128gcm16", 20, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "key", &"1011".repeat(octets / 2), 0o600);
        let text = format!("version = 1\n[ipsec]\nstate = \"s\"\n{engine}\n{}", pair(algorithm));
        write(folder.path(), "weir.toml", &text, 0o644);
        let loaded = config::check(&folder.path().join("weir.toml"));
        let made = loaded.gateway.as_ref().map(|gateway| {
            let sa = &gateway.sas[0];
            assert_eq!((sa.dummies, sa.tfc, sa.lifetimes.hard.octets), (10, Some(Tfc::Mtu), Some(7)));
            assert_eq!(sa.encapsulation.unwrap().keepalive, None);
            sa.outbound.as_ref().unwrap().key().engine_name()
        });
        assert_eq!(made, expected, "{engine} {algorithm}: {}", loaded.text(false));
        if expected.is_none() {
            assert_eq!(codes(&loaded), [Code::InvalidValue], "{}", loaded.text(false));
        }
    }
}

#[test]
fn key_files_that_others_can_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "key", &"1011".repeat(10), 0o640);
    write(folder.path(), "short", "11 22", 0o600);
    let pair = "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\nspd = \"edge\"\n\
        [spd.edge]\nrules = [\"protect ip from any to any sa one\"]\n[sa.one]\n\
        local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
        out = { spi = 300, key-file = \"key\" }\nin = { spi = 300, key-file = \"short\" }\n";
    write(folder.path(), "weir.toml", &format!("version = 1\n[ipsec]\nstate = \"s\"\n{pair}"), 0o644);
    let loaded = config::load(&folder.path().join("weir.toml"));
    assert_eq!(codes(&loaded), [Code::KeyFile; 2]);
    let text = loaded.text(false);
    assert!(
        text.contains("key` can be used by others than its owner (mode 0640)") && text.contains("chmod 600"),
        "{text}"
    );
    assert!(text.contains("short` has 2 octets; aes128gcm16 needs 20"), "{text}");
    assert!(!text.contains("1011"), "{text}");
}

/// Explains a packet that comes in by `lan` or `wan` of a gateway with a pair in tunnel mode, one with UDP and one whose peer
/// no route leads to.
fn explained(input: &str, packet: &str) -> Explanation {
    explained_with("", input, packet)
}

/// Does the same with more keys of the pair in tunnel mode.
fn explained_with(keys: &str, input: &str, packet: &str) -> Explanation {
    let folder = tempfile::tempdir().unwrap();
    for (name, digit) in [("a", "1"), ("b1", "2"), ("c", "3"), ("b2", "4")] {
        write(folder.path(), name, &format!("{digit}0{digit}1").repeat(10), 0o600);
    }
    let pair = |name: &str, remote: &str, number: u32, key: &str, more: &str| {
        format!(
            "[sa.{name}]\nlocal = \"198.51.100.1\"\nremote = \"{remote}\"\nalgorithm = \"aes128gcm16\"\n{more}\
             out = {{ spi = 0x100{number}, key-file = \"{key}\" }}\nin = {{ spi = 0x200{number}, key-file = \"b{number}\" }}\n"
        )
    };
    let text = format!(
        "version = 1\n[ipsec]\nstate = \"state\"\n\
         [[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\nspd = \"edge\"\n\
         [[interface]]\nname = \"lan\"\nport = \"null\"\naddress = \"10.1.0.1/24\"\n\
         [[route]]\nprefix = \"10.0.0.0/8\"\nvia = {{ address = \"198.51.100.2\" }}\n\
         {}{}\
         [spd.edge]\nrules = [\n\"protect ip from 10.1.0.0/24 to 10.2.0.0/24 sa near\",\n\
         \"protect ip from 10.1.0.0/24 to 10.3.0.0/24 sa far\",\n]\n",
        pair("near", "198.51.100.2", 1, "a", keys),
        pair("far", "203.0.113.9", 2, "c", "encapsulation = {}\n"),
    );
    explained_by(folder.path(), &text, input, packet)
}

/// Explains a packet that comes in by a gateway of this configuration.
fn explained_by(folder: &Path, text: &str, input: &str, packet: &str) -> Explanation {
    write(folder, "weir.toml", text, 0o644);
    let loaded = config::load(&folder.join("weir.toml"));
    let findings = loaded.text(false);
    let gateway = loaded.gateway.unwrap_or_else(|| panic!("{findings}"));
    let packet = Incoming { input, sas: Vec::new(), packet: packet.parse().unwrap() };
    explain(gateway, &[], &packet, Options::default()).unwrap()
}

/// Explains a packet that a tunnel of VXLAN carries under an SA; `mtu` is a key of the tunnel.
fn tunnelled(mtu: &str, packet: &str) -> Explanation {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &"1011".repeat(10), 0o600);
    write(folder.path(), "b", &"2021".repeat(10), 0o600);
    let text = format!(
        r#"
        version = 1
        [ipsec]
        state = "state"
        [[interface]]
        name = "wan"
        port = "null"
        address = "198.51.100.1/24"
        spd = "edge"
        [[interface]]
        name = "lan"
        port = "null"
        address = "10.1.0.1/24"
        [[interface]]
        name = "vx"
        port = {{ vxlan = {{ local = "198.51.100.1", remote = "198.51.100.2", vni = 1 }} }}
        address = "172.16.0.1/30"
        {mtu}
        [[route]]
        prefix = "10.2.0.0/24"
        via = {{ address = "172.16.0.2" }}
        [sa.near]
        local = "198.51.100.1"
        remote = "198.51.100.2"
        algorithm = "aes128gcm16"
        out = {{ spi = 0x1001, key-file = "a" }}
        in = {{ spi = 0x2001, key-file = "b" }}
        [spd.edge]
        rules = [
          "protect udp from 198.51.100.1 to 198.51.100.2 port 4789 sa near",
          "protect udp from 198.51.100.1 port 4789 to 198.51.100.2 sa near",
        ]
        "#
    );
    explained_by(folder.path(), &text, "lan", packet)
}

#[test]
fn a_packet_of_esp_behind_a_tunnel_has_the_length_of_both() {
    let packet = "udp from 10.1.0.2 port 7 to 10.2.0.2 port 7 df length";
    // VXLAN takes 50 octets, and the packet of ESP around 1,446 has 1,500: the tunnel has this MTU.
    let fits = tunnelled("", &format!("{packet} 1396"));
    let text = fits.to_string();
    assert_eq!(fits.verdict, "forward", "{text}");
    assert!(text.contains("\nmtu       vx carries 1396 octets: the packet's 1396 fit\n"), "{text}");
    let wan = "\nmtu       wan carries 1500 octets: the packet of 1396 octets fits, as it has 1500 with vxlan and ESP; \
               the greatest that fits has 1396\n";
    assert!(text.contains(wan), "{text}");
    assert_eq!(fits.esp.unwrap().longest, Some(1396));
    let long = tunnelled("mtu = 1450", &format!("{packet} 1397"));
    let text = long.to_string();
    assert!(text.contains("the packet of 1397 octets does not fit, as it has 1504 with vxlan and ESP"), "{text}");
    assert_eq!(long.reason, Some("mtu-exceeded"), "{text}");
}

#[test]
fn an_explanation_has_the_length_and_the_route_of_esp() {
    let fits = explained("lan", "udp from 10.1.0.2 port 7 to 10.2.0.2 port 7 length 1400");
    let text = fits.to_string();
    assert_eq!(fits.verdict, "forward", "{text}");
    // An outer header of 20 octets, SPI and number, an IV of 8, padding to 4, two octets behind it and 16 of ICV.
    let esp = fits.esp.unwrap();
    assert_eq!(
        (esp.mtu.as_ref().map(|own| own.length), esp.longest),
        (Some(20 + 8 + 8 + 1400 + 2 + 2 + 16), Some(1446))
    );
    assert_eq!(esp.route.prefix.as_deref(), Some("198.51.100.0/24"));
    assert!(text.contains("sa        near encrypts it, SPI 0x1001\n"), "{text}");
    assert!(!text.contains("octets: the packet's"), "{text}");

    let text = explained("lan", "udp from 10.1.0.2 port 7 to 10.2.0.2 port 7 length 1480 df").to_string();
    let mtu = "wan carries 1500 octets: the packet of 1480 octets does not fit, as it has 1536 with ESP; \
               the greatest that fits, and is reported, has 1446\n";
    assert!(text.contains(mtu) && text.contains("drop mtu-exceeded"), "{text}");

    let far = explained("lan", "udp from 10.1.0.2 port 7 to 10.3.0.2 port 7");
    let text = far.to_string();
    assert_eq!(far.reason, Some("no-route"), "{text}");
    assert!(text.contains("esp       the peer of far, 203.0.113.9 matches nothing: no route"), "{text}");
    assert!(text.contains("udp 4500 > 4500 spi 0x1002"), "{text}");
}

#[test]
fn the_length_of_esp_has_the_padding_of_tfc() {
    let packet = |length| format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 7 length {length}");
    for (length, padded) in [(100, Some(600)), (600, None), (602, None)] {
        let explained = explained_with("tfc = 600\n", "lan", &packet(length));
        let text = explained.to_string();
        let esp = explained.esp.unwrap();
        // As long as the packet that leaves.
        let sealed = esp.mtu.unwrap().length;
        assert!(text.contains(&format!(" spi 0x1001 ttl 64 length {sealed}")), "{text}");
        assert_eq!(esp.padded, padded, "{text}");
        let said = format!("as it has {sealed} with ESP and padding to 600 by `tfc`; the greatest");
        assert_eq!(text.contains(&said), padded.is_some(), "{text}");
    }
}

#[test]
fn a_packet_that_an_sa_refuses_is_not_said_to_be_decrypted() {
    let forged = explained("wan", "esp from 198.51.100.2 to 198.51.100.1 spi 0x2001 length 100");
    let text = forged.to_string();
    assert_eq!(forged.reason, Some("esp-replay"), "number 0: {text}");
    assert!(text.contains("sa        near does not decrypt it, SPI 0x2001\n"), "{text}");
    assert!(!text.contains("near decrypts"), "{text}");
    let unknown = explained("wan", "esp from 198.51.100.2 to 198.51.100.1 spi 0x2002 length 100");
    assert_eq!(unknown.reason, Some("esp-no-sa"), "the SA expects UDP: {unknown}");
    assert!(unknown.description.is_some_and(|text| text.contains("in UDP")));
}
