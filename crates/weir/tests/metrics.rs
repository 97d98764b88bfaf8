//! Metrics as a real Prometheus reads them, from a gateway that runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// The body of the answer to a GET; `None` if nobody answers with 200.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines().next()?.contains(" 200 ").then(|| body.to_owned())
}

/// Waits until `look` finds something.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} did not come within a minute");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The value of the first series that a query gives.
fn query(prometheus: SocketAddr, query: &str) -> Option<f64> {
    let answer: Value = serde_json::from_str(&get(prometheus, &format!("/api/v1/query?query={query}"))?).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn prometheus_reads_the_counters_of_a_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (metrics, web) = (free(), free());
    let configuration = format!(
        r#"version = 1

[metrics]
listen = "{metrics}"
detail = ["rules"]

[[interface]]
name = "in"
address = "10.0.0.1/24"
port = {{ generator = {{ source = "10.0.0.10", destination = "192.0.2.1-192.0.2.9", rate = 2000 }} }}
acl = {{ in = "web" }}

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[[route]]
prefix = "192.0.2.0/24"
via = {{ address = "10.0.1.2" }}

[[neighbor]]
interface = "out"
address = "10.0.1.2"
mac = "02:00:00:00:00:02"

[acl.web]
rules = ["deny ip from any to 192.0.2.1", "permit ip from any to any"]
"#
    );
    fs::write(path("weir.toml"), configuration).expect("a file");
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg("run").arg(path("weir.toml")).arg("--socket").arg(path("weir.sock")).env_remove("WEIR_LOG");
    let _weir = Ended(weir.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("weir starts"));
    let scrape = wait("an answer of weir", || get(metrics, "/metrics"));
    assert!(scrape.ends_with("# EOF\n"), "{scrape}");

    let scraping = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: ['{}']\n\
         scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: ['{metrics}'] }}] }}]\n",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/metrics/alerts.yml").display()
    );
    fs::write(path("prometheus.yml"), scraping).expect("a file");
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", path("prometheus.yml").display()));
    prometheus.arg(format!("--storage.tsdb.path={}", path("data").display()));
    prometheus.arg(format!("--web.listen-address={web}"));
    let started = prometheus.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _prometheus = Ended(started.expect("Debian's package prometheus is installed (scripts/setup)"));

    let up = wait("a scrape", || query(web, "up%7Bjob=%22weir%22%7D").filter(|up| *up > 0.0));
    assert_eq!(up, 1.0);
    let received = wait("a counter", || query(web, "weir_interface_rx_packets_total%7Binterface=%22in%22%7D"));
    assert!(received > 0.0);
    let denied = wait("a rule's counter", || query(web, "weir_acl_rule_packets_total%7Blist=%22web%22%7D"));
    assert!(denied > 0.0);
    // The histogram's buckets are cumulative, and end with all vectors.
    let quantile = "histogram_quantile(1,sum%20by%20(le)%20(weir_node_vector_packets_bucket))";
    let most = wait("a quantile", || query(web, quantile));
    assert!((1.0..=256.0).contains(&most), "{most}");
    let rules: Value =
        serde_json::from_str(&wait("rules of alerts", || get(web, "/api/v1/rules"))).expect("an answer of JSON");
    let rules = rules["data"]["groups"][0]["rules"].as_array().expect("rules").clone();
    assert!(rules.len() >= 5 && rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
}

#[test]
fn alerts_fire_as_their_tests_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/metrics");
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(&folder).output();
        let output = output.expect("Debian's package prometheus is installed (scripts/setup)");
        let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
    }
}

#[test]
fn a_port_that_is_taken_is_named_and_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let path = folder.path().join("weir.toml");
    let text =
        format!("version = 1\nmetrics = {{ listen = \"{address}\" }}\n[[interface]]\nname = \"a\"\nport = \"null\"\n");
    fs::write(&path, text).expect("a file");
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg("run").arg(&path).arg("--socket").arg(folder.path().join("weir.sock")).args(["--duration", "5"]);
    let output = weir.stdin(Stdio::null()).output().expect("weir runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot serve metrics at {address}: Address already in use")), "{stderr}");
}
