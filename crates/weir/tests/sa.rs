//! SAs in configurations whose key files are as they should be: their modes cannot be kept in a repository.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use weir::config::{self, Code, Loaded};

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
}

/// Checks a gateway with these pairs of SAs, beside which there are keys `a` to `d`.
fn check(sas: &str) -> (TempDir, Loaded) {
    let folder = tempfile::tempdir().unwrap();
    for (name, digit) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "1")] {
        write(folder.path(), name, &digit.repeat(40), 0o600);
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
    assert!(!printed.contains("11111111") && !printed.contains("17, 17"), "{printed}");
    // The same SPI at two addresses is two SPIs; in two directions, too.
    let pairs =
        sa("one", "198.51.100.1", &keys(500, 500, "a", "b")) + &sa("two", "198.51.100.7", &keys(500, 500, "c", "b"));
    assert_eq!(codes(&check(&pairs).1), []);
}

#[test]
fn spis_and_keys_are_used_once() {
    let one = sa("one", "198.51.100.1", "in = { spi = 300, key-file = \"a\" }");
    let two = sa("two", "198.51.100.1", "in = { spi = 0x12c, key-file = \"b\" }");
    assert_eq!(codes(&check(&(one + &two)).1), [Code::DuplicateSpi]);
    let one = sa("one", "198.51.100.1", "out = { spi = 300, key-file = \"a\" }");
    let two = sa("two", "198.51.100.1", "out = { spi = 301, key-file = \"d\" }");
    let (_folder, loaded) = check(&(one + &two));
    assert_eq!(codes(&loaded), [Code::KeyReused], "another file with the same key");
    assert!(loaded.gateway.is_none());
    let both = "out = { spi = 300, key-file = \"a\" }\nin = { spi = 300, key-file = \"d\" }";
    let (_folder, loaded) = check(&sa("one", "198.51.100.1", both));
    assert_eq!(codes(&loaded), [Code::KeyReused]);
    assert!(loaded.gateway.is_some(), "it is a warning, as the peer decides");
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
fn key_files_that_others_can_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "key", &"1".repeat(40), 0o640);
    write(folder.path(), "short", "11 22", 0o600);
    let pair = "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\nspd = \"edge\"\n\
        [spd.edge]\nrules = [\"protect ip from any to any sa one\"]\n[sa.one]\n\
        local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
        out = { spi = 300, key-file = \"key\" }\nin = { spi = 300, key-file = \"short\" }\n";
    write(folder.path(), "weir.toml", &format!("version = 1\n[ipsec]\nstate = \"s\"\n{pair}"), 0o644);
    let loaded = config::load(&folder.path().join("weir.toml"));
    assert_eq!(codes(&loaded), [Code::KeyFile; 2]);
    let text = loaded.text(false);
    assert!(text.contains("others than its owner may use it (mode 0640)") && text.contains("chmod 600"), "{text}");
    assert!(text.contains("it has 2 octets, and aes128gcm16 needs 20"), "{text}");
    assert!(!text.contains("1111"), "{text}");
}
