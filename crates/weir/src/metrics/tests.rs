use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::endpoint::{CONNECTIONS, PATIENCE};
use super::scrape::scrape;
use super::{Endpoint, families};
use crate::config::{Detail, Listen, Metrics};
use crate::control::fake::Fake;

const ALL: Detail = Detail { rules: true, sas: true, prefixes: true };

#[test]
fn a_scrape_has_counters_with_their_labels() {
    let text = scrape(&Fake::default(), Detail::default());
    for line in [
        "# TYPE weir_drop_packets counter",
        "# HELP weir_drop_packets Packets dropped, by reason.",
        "weir_drop_packets_total{reason=\"no-route\",node=\"ip-lookup\",severity=\"warning\"} 40",
        "weir_worker_received_packets_total{worker=\"0\"} 2000",
        "weir_node_vector_packets_bucket{le=\"128.0\",worker=\"0\",node=\"rx\"} 0",
        "weir_node_vector_packets_bucket{le=\"256.0\",worker=\"0\",node=\"rx\"} 10",
        "weir_node_vector_packets_bucket{le=\"+Inf\",worker=\"0\",node=\"rx\"} 10",
        "weir_node_vector_packets_count{worker=\"0\",node=\"rx\"} 10",
        "weir_node_packet_ticks_bucket{le=\"8.0\",worker=\"0\",node=\"rx\"} 10",
        "weir_generation 1",
        "weir_route_source_up{source=\"kernel\"} 1",
        "weir_route_source_up{source=\"fpm\"} 0",
        "weir_route_source_routes{source=\"kernel\"} 1000",
        "weir_route_source_refused_total{source=\"fpm\"} 3",
        "weir_tunnel_out_packets_total{tunnel=\"vx\",kind=\"vxlan\"} 900",
        "weir_tunnel_in_bytes_total{tunnel=\"vx\",kind=\"vxlan\"} 80000",
        "weir_bridge_broadcast_frames_total{bridge=\"lan\"} 40",
        "weir_bridge_macs{bridge=\"lan\"} 2",
        "weir_classify_matched_packets_total{table=\"edge\"} 17",
        "weir_build_info{version=\"0.1.0\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("node=\"drop\""), "a node that never ran has no series");
}

#[test]
fn rules_and_sas_have_series_only_if_wanted() {
    let (usual, all) = (scrape(&Fake::default(), Detail::default()), scrape(&Fake::default(), ALL));
    for name in ["weir_acl_rule_packets_total{", "weir_spd_rule_packets_total{", "weir_sa_out_packets_total{"] {
        assert!(!usual.contains(name) && all.contains(name), "{name}");
    }
}

#[test]
fn families_keep_the_rules_of_open_metrics() {
    let mut seen = HashSet::new();
    for family in families::read(&Fake::default(), ALL) {
        assert!(seen.insert(family.name), "{} twice", family.name);
        assert!(family.name.starts_with("weir_") && !family.name.ends_with("_total"), "{}", family.name);
        assert!(family.help.ends_with('.'), "{}: {}", family.name, family.help);
        let samples: HashSet<_> = family.samples.iter().map(|(labels, _)| format!("{labels:?}")).collect();
        assert_eq!(samples.len(), family.samples.len(), "{}: equal labels", family.name);
    }
}

/// The names of all metrics with their types, labels and descriptions. Counters have the suffix `_total`.
fn names() -> Vec<(String, &'static str, &'static str, &'static str)> {
    families::read(&Fake::default(), ALL)
        .into_iter()
        .map(|family| (family.full_name(), family.kind.name(), family.labels(), family.help))
        .collect()
}

/// The list of the documentation is that of the code.
#[test]
fn the_documentation_lists_all_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (begin, end) = ("<!-- metrics: written by the tests of weir::metrics -->\n", "<!-- end -->");
    let start = text.find(begin).expect("the mark of the list") + begin.len();
    let length = text[start..].find(end).expect("the end of the list");
    let mut list = String::from("\n| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, kind, labels, help) in names() {
        let labels: Vec<_> = labels.split(',').filter(|l| !l.is_empty()).map(|label| format!("`{label}`")).collect();
        list += &format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
    }
    list += "\n";
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        let new = [&text[..start], &list, &text[start + length..]].concat();
        std::fs::write(&path, new).expect("docs/metrics.md can be written");
    } else {
        assert_eq!(&text[start..start + length], list, "see CONTRIBUTING.md for the command that writes the list");
    }
}

/// Dashboard and rules of alarms name metrics that there are.
#[test]
fn packaging_names_metrics_that_there_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/metrics");
    let known: HashSet<String> = names()
        .into_iter()
        .flat_map(|(name, kind, ..)| match kind {
            "histogram" => vec![format!("{name}_bucket"), format!("{name}_count"), format!("{name}_sum")],
            _ => vec![name],
        })
        .collect();
    let mut seen = 0;
    for name in ["dashboard.json", "alerts.yml"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("a file of packaging/metrics");
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("weir_")) {
            assert!(known.contains(word), "{name}: there is no metric {word}");
            seen += 1;
        }
    }
    assert!(seen > 20);
    let dashboard = std::fs::read_to_string(folder.join("dashboard.json")).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["targets"][0]["expr"].is_string() && panel["gridPos"]["w"].is_u64(), "{panel}");
    }
}

/// Legends of the dashboard and words of alarms name labels that their metrics have.
#[test]
fn packaging_names_labels_that_there_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/metrics");
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map(str::to_owned).collect()
    };
    let mut seen = 0;
    let mut check = |what: &str, metrics: &str, wanted: Vec<String>| {
        let metrics = words(metrics);
        let has = |label: &str| {
            let of = |name: &str| metrics.iter().any(|word| word.strip_suffix("_bucket").unwrap_or(word) == name);
            names().iter().any(|(name, _, labels, _)| of(name) && labels.split(',').any(|own| own == label))
        };
        for label in wanted.iter().filter(|label| !["instance", "value", "labels", ""].contains(&label.as_str())) {
            assert!(has(label), "{what}: no metric there has the label `{label}`");
            seen += 1;
        }
    };
    let between = |text: &str| -> Vec<String> {
        text.split("{{").skip(1).filter_map(|rest| rest.split(['}', '|']).next()).flat_map(words).collect()
    };
    let dashboard = std::fs::read_to_string(folder.join("dashboard.json")).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    for panel in dashboard["panels"].as_array().expect("a dashboard has panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |key: &str| target[key].as_str().unwrap_or_default();
            check("dashboard.json", text("expr"), between(text("legendFormat")));
        }
    }
    let alerts = std::fs::read_to_string(folder.join("alerts.yml")).expect("the alarms");
    for alert in alerts.split("- alert:").skip(1) {
        let metrics = alert.split("expr:").nth(1).and_then(|rest| rest.split("labels:").next()).unwrap_or_default();
        check("alerts.yml", metrics, between(alert));
    }
    assert!(seen > 20);
}

/// Sends a request, and returns all that comes back.
async fn request(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, request: &str) -> String {
    let mut stream = stream;
    stream.write_all(request.as_bytes()).await.expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer comes");
    answer
}

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn scrapes_are_answered_over_tcp_and_other_requests_are_refused() {
    run(async {
        let settings = |port| Metrics {
            listen: Listen::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], port))),
            detail: Detail::default(),
        };
        let endpoint = Endpoint::open(&settings(0)).expect("a socket");
        let address = endpoint.address().expect("an address");
        let taken = Endpoint::open(&settings(address.port())).expect_err("the port is taken").to_string();
        assert!(taken.starts_with(&format!("cannot serve metrics at {address}: ")), "{taken}");
        let serving = tokio::spawn(endpoint.serve(Arc::new(Fake::default())));
        let connect = || tokio::net::TcpStream::connect(address);
        for (text, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
            ("nothing\r\n\r\n", "400 Bad Request"),
        ] {
            let answer = request(connect().await.expect("a connection"), text).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{text}: {answer}");
            let open_metrics = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
            assert_eq!(answer.contains(open_metrics), status == "200 OK");
        }
        // Clients that say nothing, or half of a request, lose their places; meanwhile the others wait.
        let start = std::time::Instant::now();
        let mut slow = Vec::new();
        for number in 0..CONNECTIONS {
            let mut stream = connect().await.expect("a connection");
            stream.write_all(&b"GET /metrics HTTP/1.1\r\n"[..22 * (number % 2)]).await.expect("half of a request");
            slow.push(stream);
        }
        let answer = request(connect().await.expect("a connection"), "GET /metrics HTTP/1.0\r\n\r\n").await;
        assert!(answer.contains("200 OK"), "{answer}");
        assert!(start.elapsed() > PATIENCE, "all places were taken");
        let mut rest = Vec::new();
        slow[0].read_to_end(&mut rest).await.expect("the end of the connection");
        assert!(rest.is_empty(), "{rest:?}");
        serving.abort();
    });
}

#[test]
fn a_unix_socket_is_replaced_if_nobody_listens_and_removed_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metrics.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "a socket without a listener");
    let settings = Metrics { listen: Listen::Unix(path.clone()), detail: Detail::default() };
    run(async {
        let endpoint = Endpoint::open(&settings).expect("the socket is replaced");
        let taken = Endpoint::open(&settings).expect_err("somebody listens").to_string();
        assert!(taken.ends_with("another program listens there"), "{taken}");
        let serving = tokio::spawn(endpoint.serve(Arc::new(Fake::default())));
        let stream = tokio::net::UnixStream::connect(&path).await.expect("a connection");
        let answer = request(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.ends_with("# EOF\n"), "{answer}");
        serving.abort();
        let _ = serving.await;
    });
    assert!(!path.exists(), "the socket is removed");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("a file");
    let settings = Metrics { listen: Listen::Unix(file.clone()), detail: Detail::default() };
    assert!(Endpoint::open(&settings).is_err());
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "text", "a file is never replaced");
}
