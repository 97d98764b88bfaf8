//! The server and its client against each other, with a made-up gateway behind them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::client::{Client, ClientError};
use super::fake::Fake;
use super::path::SocketPath;
use super::refusal::{Kind, Refusal};
use super::socket::Socket;
use super::{Clear, ClearRequest, ReloadRequest, TraceRequest, server};
use crate::config;
use crate::render::reloaded::Reloaded;
use crate::render::{self, Report};
use crate::render::{buffers, errors, interfaces, neighbors, routes, runtime, sample, tables, trace, version};

/// A served fake gateway, for as long as it is held.
struct Served {
    gateway: Arc<Fake>,
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new() -> Served {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-served-{}-{number}.sock", std::process::id()));
        let socket = Socket::take(&SocketPath { path: path.clone(), own_folder: false }).unwrap();
        let gateway = Arc::<Fake>::default();
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&gateway);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(socket.listener().unwrap()).unwrap();
                let until = async {
                    let _ = stopped.await;
                };
                server::serve(listener, served, until).await.unwrap();
            });
        });
        Served { gateway, path, stop: Some(stop), thread: Some(thread) }
    }

    fn client(&self) -> Client {
        Client::new(&self.path)
    }

    fn told(&self) -> Vec<String> {
        self.gateway.told.lock().unwrap().clone()
    }

    /// What is answered to a request written by hand: its status and its body.
    fn raw(&self, request: &str, body: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        let length = body.len();
        // A refusal may come before all is sent.
        let _ = write!(
            stream,
            "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the client reads is what the gateway's own values make, as text and as JSON.
fn agrees<R: Report>(client: &Client, target: &str, expected: &R) {
    let (report, json) = client.show::<R>(target).unwrap();
    assert_eq!(report.text(), expected.text());
    assert_eq!(json, render::json(expected) + "\n");
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema"], R::SCHEMA);
}

#[test]
fn every_show_says_what_the_gateway_said() {
    let served = Served::new();
    let client = served.client();
    let snapshot = sample::snapshot();
    agrees(&client, "/v1/show/runtime", &runtime::Runtime::new(&snapshot, false));
    agrees(&client, "/v1/show/runtime?all=true", &runtime::Runtime::new(&snapshot, true));
    agrees(&client, "/v1/show/errors", &errors::Errors::new(&snapshot, false));
    agrees(&client, "/v1/show/errors?all=true", &errors::Errors::new(&snapshot, true));
    agrees(&client, "/v1/show/interfaces", &interfaces::Interfaces::new(&snapshot, vec!["lan: unplugged".into()]));
    let filter = routes::Filter { vrf: Some("default".into()), limit: Some(2) };
    agrees(&client, "/v1/show/routes", &routes::Routes::new(sample::routes(), &routes::Filter::default()));
    agrees(&client, "/v1/show/routes?vrf=default&limit=2", &routes::Routes::new(sample::routes(), &filter));
    agrees(
        &client,
        "/v1/show/neighbors",
        &neighbors::Neighbors::new(sample::neighbors(), &sample::snapshot().neighbors),
    );
    agrees(&client, "/v1/show/trace", &trace::Traces::new(sample::traces()));
    agrees(&client, "/v1/show/buffers", &buffers::Buffers::new(&snapshot));
    agrees(&client, "/v1/show/tables", &tables::Tables::new(&snapshot));
    let (version, _) = client.show::<version::Version>("/v1/show/version").unwrap();
    assert_eq!(version.configuration, "fake");
}

fn refusal(error: ClientError) -> Refusal {
    match error {
        ClientError::Refused(refusal) => *refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn orders_are_carried_out_and_an_unknown_node_is_answered_with_those_there_are() {
    let served = Served::new();
    let client = served.client();
    let trace = |node: &str, count| client.post("/v1/trace", &TraceRequest { node: node.into(), count });
    assert_eq!(trace("drop", 7).unwrap(), "");
    assert_eq!(client.post("/v1/clear", &ClearRequest { what: Clear::All }).unwrap(), "");
    assert_eq!(served.told(), ["trace drop 7", "clear All"]);
    let refused = refusal(trace("dorp", 7).unwrap_err());
    assert_eq!(
        (refused.kind, refused.nodes.as_slice()),
        (Kind::UnknownNode, ["rx".to_owned(), "drop".to_owned()].as_slice())
    );
    assert_eq!(refused.message, "there is no node `dorp`; there are rx, drop");
    assert_eq!(refusal(trace("drop", 0).unwrap_err()).kind, Kind::BadRequest);
}

#[test]
fn a_reload_says_what_check_says() {
    let served = Served::new();
    let client = served.client();
    let reload = |text: &str, colour| {
        *served.gateway.configuration.lock().unwrap() = text.into();
        client.post("/v1/reload", &ReloadRequest { colour })
    };
    for colour in [false, true] {
        let bad = "version = 2\n[[interface]]\n";
        let refused = reload(bad, colour).unwrap_err();
        assert!(refused.invalid_configuration().is_some());
        let refused = refusal(refused);
        let loaded = config::parse_str("fake.toml", bad);
        assert_eq!(refused.findings, loaded.text(colour));
        assert_eq!(refused.check.unwrap().get(), loaded.json());
    }
    let reloaded: Reloaded = client.read(&reload("version = 1\n", false).unwrap()).unwrap();
    assert_eq!(reloaded.generation, 2);
    let loaded = config::parse_str("fake.toml", "version = 1\n");
    assert_eq!(reloaded.warnings.map(|warnings| warnings.text).unwrap_or_default(), loaded.text(false));
    let (status, body) = served.raw("POST /v1/reload", "");
    assert_eq!(status, 200, "{body}");
}

#[test]
fn what_is_not_understood_is_refused_in_json() {
    let served = Served::new();
    let long = format!("{{\"node\":\"{}\",\"count\":1}}", "x".repeat(100_000));
    let cases = [
        ("GET /", "", 404, Kind::NotFound),
        ("GET /v1/show/nothing", "", 404, Kind::NotFound),
        ("POST /v1/show/runtime", "", 405, Kind::MethodNotAllowed),
        ("GET /v1/reload", "", 405, Kind::MethodNotAllowed),
        ("GET /v1/show/runtime?all=perhaps", "", 400, Kind::BadRequest),
        ("GET /v1/show/errors?every=true", "", 400, Kind::BadRequest),
        ("GET /v1/show/routes?limit=-1", "", 400, Kind::BadRequest),
        ("POST /v1/trace", "", 400, Kind::BadRequest),
        ("POST /v1/trace", "{\"node\":\"drop\"}", 400, Kind::BadRequest),
        ("POST /v1/trace", "{\"node\":\"drop\",\"count\":1,\"more\":1}", 400, Kind::BadRequest),
        ("POST /v1/clear", "{\"what\":\"everything\"}", 400, Kind::BadRequest),
        ("POST /v1/reload", "[]]", 400, Kind::BadRequest),
        ("POST /v1/trace", &long, 413, Kind::TooLarge),
    ];
    for (request, body, status, kind) in cases {
        let answer = served.raw(request, body);
        assert_eq!(answer.0, status, "{request}: {}", answer.1);
        let refusal: Refusal =
            render::read(&answer.1).unwrap_or_else(|error| panic!("{request}: {error}: {}", answer.1));
        assert_eq!(refusal.kind, kind, "{request}");
        assert_eq!(refusal.kind.status(), status);
    }
    assert!(served.told().is_empty());
}

#[test]
fn a_gateway_that_fails_at_one_request_answers_the_next() {
    let served = Served::new();
    *served.gateway.configuration.lock().unwrap() = "panic".into();
    let failed = served.client().post("/v1/reload", &ReloadRequest::default()).unwrap_err();
    assert_eq!(refusal(failed).kind, Kind::Failed);
    assert!(served.client().show::<version::Version>("/v1/show/version").is_ok());
}

#[test]
fn a_client_that_never_ends_its_request_does_not_hold_up_the_end() {
    let mut served = Served::new();
    let mut idle = UnixStream::connect(&served.path).unwrap();
    idle.write_all(b"POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Le").unwrap();
    assert!(served.client().show::<version::Version>("/v1/show/version").is_ok());
    let start = Instant::now();
    served.end();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn nobody_to_talk_to() {
    let error = Client::new(Path::new("/nonexistent/x.sock")).show::<version::Version>("/v1/show/version").unwrap_err();
    assert!(matches!(error, ClientError::NoGateway { .. }));
    assert!(error.to_string().contains("/nonexistent/x.sock"), "{error}");
}

#[test]
fn someone_else_listens() {
    let path = std::env::temp_dir().join(format!("weir-other-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        for answer in [
            "no HTTP\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for _ in 0..3 {
        let error = Client::new(&path).show::<version::Version>("/v1/show/version").unwrap_err();
        assert!(matches!(error, ClientError::Answer { .. }), "{error}");
    }
    other.join().unwrap();
    std::fs::remove_file(&path).unwrap();
}
