//! The server and its client against each other, with a made-up gateway behind them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::client::{Client, ClientError};
use super::fake::Fake;
use super::path::SocketPath;
use super::refusal::{Kind, Refusal};
use super::sav::stage::StageRequest;
use super::socket::Socket;
use super::{Clear, ClearRequest, ReloadRequest, TraceRequest, server};
use crate::config;
use crate::render::reloaded::Reloaded;
use crate::render::route_to::RoutesTo;
use crate::render::{self, Report};
use crate::render::{
    acl, alarms, allowlists, bindings, buffers, errors, ethertypes, interfaces, neighbors, routes, runtime, sample,
    samplers, sav, tables, trace, tunnels, version,
};

/// A served fake gateway, for as long as it is held.
struct Served {
    gateway: Arc<Fake>,
    path: PathBuf,
    _folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let socket = Socket::take(&SocketPath { path: path.clone(), own_folder: false }, None).unwrap();
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
        Served { gateway, path, _folder: folder, stop: Some(stop), thread: Some(thread) }
    }

    fn client(&self) -> Client {
        Client::new(&self.path)
    }

    fn calls(&self) -> Vec<String> {
        self.gateway.calls.lock().unwrap().clone()
    }

    /// Returns the status and the body of the response to a request written by hand.
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

/// Clients read the values of the gateway, as text and as JSON.
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
    let (taken, status) = sample::samplers();
    agrees(&client, "/v1/show/samplers", &samplers::Samplers::new(taken, &status));
    agrees(&client, "/v1/show/alarms", &alarms::Alarms::new(&sample::alarms()));
    agrees(&client, "/v1/show/errors", &errors::Errors::new(&snapshot, false));
    agrees(&client, "/v1/show/errors?all=true", &errors::Errors::new(&snapshot, true));
    let lists = sample::acls();
    let interfaces = interfaces::Interfaces::new(&snapshot, vec!["lan: unplugged".into()]).with_lists(&lists.chains);
    agrees(&client, "/v1/show/interfaces", &interfaces);
    assert!(interfaces.text().contains("\naccess lists on wan: in edge-in\n"), "{}", interfaces.text());
    agrees(&client, "/v1/acl", &lists);
    agrees(&client, "/v1/acl/edge-in", &acl::rules::sample());
    agrees(&client, "/v1/show/classify", &sample::classify());
    agrees(&client, "/v1/show/classify/edge", &sample::classify());
    agrees(&client, "/v1/show/bindings", &bindings::Bindings::new(sample::bindings()));
    agrees(&client, "/v1/show/allowlists", &allowlists::Allowlists::new(sample::allowlists()));
    agrees(&client, "/v1/show/ethertypes", &ethertypes::Ethertypes::new(sample::ethertypes()));
    let filter = routes::Filter { vrf: Some("default".into()), limit: Some(2) };
    agrees(&client, "/v1/show/routes", &routes::Routes::new(sample::routes(), &routes::Filter::default()));
    agrees(&client, "/v1/show/routes?vrf=default&limit=2", &routes::Routes::new(sample::routes(), &filter));
    agrees(&client, "/v1/show/routes/203.0.114.1", &sample::routes_to(None));
    agrees(&client, "/v1/show/routes/203.0.114.1?vrf=blue", &sample::routes_to(Some("blue")));
    let six = RoutesTo { address: "2001:db8::1".parse().unwrap(), ..sample::routes_to(None) };
    agrees(&client, "/v1/show/routes/2001%3Adb8%3A%3A1", &six);
    agrees(
        &client,
        "/v1/show/neighbors",
        &neighbors::Neighbors::new(sample::neighbors(), &sample::snapshot().neighbors),
    );
    agrees(&client, "/v1/show/sav", &sav::Sav::new(sample::sav_policies(), &snapshot));
    let entries = |rows: Vec<_>, total| sav::entries::Entries::new("edge", rows, total);
    agrees(&client, "/v1/show/sav/edge", &entries(sample::sav_entries(), 3));
    let mut some = sample::sav_entries();
    agrees(&client, "/v1/show/sav/edge?prefix=192.0.2.65", &entries(vec![some.remove(0), some.remove(1)], 2));
    agrees(&client, "/v1/show/sav/edge?limit=1&prefix=2001:db8::/32", &entries(some, 1));
    agrees(&client, "/v1/show/sav/edge?limit=0", &entries(vec![], 3));
    agrees(&client, "/v1/show/tunnels/vx", &tunnels::Tunnels::new(sample::tunnels()));
    agrees(&client, "/v1/show/trace", &trace::Traces::new(sample::traces(), |_| String::new()));
    agrees(&client, "/v1/show/buffers", &buffers::Buffers::new(&snapshot));
    let sources = super::Gateway::route_sources(&Fake::default());
    agrees(&client, "/v1/show/tables", &tables::Tables::new(&snapshot, &sources));
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
    let trace = |node: &str, count| client.post("/v1/trace", &TraceRequest { node: node.into(), count, filter: None });
    assert_eq!(trace("drop", 7).unwrap(), "");
    assert_eq!(client.post("/v1/clear", &ClearRequest { what: Clear::All, filter: None }).unwrap(), "");
    for (what, name) in [(Clear::Sa, "east"), (Clear::Tunnels, "vx")] {
        client.post("/v1/clear", &ClearRequest { what, filter: Some(name.into()) }).unwrap();
    }
    assert_eq!(served.calls(), ["trace drop 7", "clear All", "clear Sa east", "clear Tunnels vx"]);
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
        client.post("/v1/reload", &ReloadRequest { colour, ..ReloadRequest::default() })
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
        ("GET /v1/show/routes/10.0.0", "", 400, Kind::BadRequest),
        ("GET /v1/show/routes/10.0.0.1?limit=1", "", 400, Kind::BadRequest),
        ("GET /v1/show/routes/10.0.0.1?vrf=red", "", 404, Kind::UnknownVrf),
        ("POST /v1/trace", "", 400, Kind::BadRequest),
        ("POST /v1/trace", "{\"node\":\"drop\"}", 400, Kind::BadRequest),
        ("POST /v1/trace", "{\"node\":\"drop\",\"count\":1,\"more\":1}", 400, Kind::BadRequest),
        ("POST /v1/clear", "{\"what\":\"everything\"}", 400, Kind::BadRequest),
        ("POST /v1/clear", r#"{"what":"acl","filter":"edge-in"}"#, 400, Kind::BadRequest),
        ("GET /v1/show/tunnels/vxlan", "", 404, Kind::NotFound),
        ("GET /v1/show/sa?name=wset", "", 404, Kind::NotFound),
        ("POST /v1/reload", "[]]", 400, Kind::BadRequest),
        ("POST /v1/trace", &long, 413, Kind::TooLarge),
        ("GET /v1/sav/edge/entries", "", 405, Kind::MethodNotAllowed),
        ("GET /v1/sav/edge/stage", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/sav/edge/stage", "", 400, Kind::BadRequest),
        ("POST /v1/sav/edge/stage", r#"{"stage":"off"}"#, 400, Kind::BadRequest),
        ("POST /v1/sav/edge/stage", r#"{"stage":"redirect"}"#, 409, Kind::Conflict),
        ("POST /v1/sav/egde/stage", r#"{"stage":"monitor"}"#, 404, Kind::UnknownPolicy),
        ("DELETE /v1/sav/edge/entries", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/sav/edge/entries", "", 400, Kind::BadRequest),
        ("POST /v1/show/sav/edge", "", 405, Kind::MethodNotAllowed),
        ("GET /v1/show/sav/edge?limt=1", "", 400, Kind::BadRequest),
        ("PUT /v1/sav/edge/entries", "", 415, Kind::UnknownFormat),
        ("GET /v1/nat/edge", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/nat/edge/changes", "", 400, Kind::BadRequest),
        ("POST /v1/nat/edge/changes", r#"{"source":"file","changes":[]}"#, 400, Kind::BadRequest),
        ("GET /v1/binding/hosts", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/binding/hosts/changes", r#"{"source":"file","changes":[]}"#, 400, Kind::BadRequest),
        ("GET /v1/steer/edge", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/steer/edge/changes", r#"{"source":"file","changes":[]}"#, 400, Kind::BadRequest),
        ("DELETE /v1/allow/ours", "", 405, Kind::MethodNotAllowed),
        ("POST /v1/allow/ours/changes", r#"{"inserted":"10.0.0.0/8"}"#, 400, Kind::BadRequest),
        ("POST /v1/allow/ours/changes", r#"{"source":"file"}"#, 400, Kind::BadRequest),
        ("GET /v1/show/nat/users?filter=tcp", "", 400, Kind::BadRequest),
        ("POST /v1/acl/edge-in", "", 405, Kind::MethodNotAllowed),
        ("GET /v1/acl/egde-in", "", 404, Kind::UnknownList),
        ("GET /v1/acl/edge-in?limt=1", "", 400, Kind::BadRequest),
        ("POST /v1/acl/edge-in/changes", "", 400, Kind::BadRequest),
        ("POST /v1/acl/edge-in/changes", r#"{"changes":[{"add":"x"}]}"#, 400, Kind::BadRequest),
        ("POST /v1/acl/edge-in/changes", r#"{"source":"file","changes":[]}"#, 400, Kind::BadRequest),
        ("POST /v1/acl/nothing/changes", r#"{"changes":[]}"#, 404, Kind::UnknownList),
        ("PUT /v1/acl/edge-in?default=drop", "", 400, Kind::BadRequest),
        ("PUT /v1/acl/edge-in?expect=perhaps", "", 400, Kind::BadRequest),
        ("PUT /v1/acl/edge-in?source=file", "", 400, Kind::BadRequest),
        ("DELETE /v1/acl/edge-in", "", 409, Kind::InUse),
        ("DELETE /v1/group/hosts", "", 409, Kind::InUse),
        ("GET /v1/group/web", "", 405, Kind::MethodNotAllowed),
        ("PUT /v1/group/web", r#"{"members":[],"kind":"hosts"}"#, 400, Kind::BadRequest),
    ];
    for (request, body, status, kind) in cases {
        let answer = served.raw(request, body);
        assert_eq!(answer.0, status, "{request}: {}", answer.1);
        let refusal: Refusal =
            render::read(&answer.1).unwrap_or_else(|error| panic!("{request}: {error}: {}", answer.1));
        assert_eq!(refusal.kind, kind, "{request}");
        assert_eq!(refusal.kind.status(), status);
    }
    assert!(served.calls().is_empty());
}

#[test]
fn access_lists_are_changed_put_and_removed() {
    let served = Served::new();
    let client = served.client();
    let change =
        r#"{"source":"noc","changes":[{"insert":{"rules":"deny ip from any to any","before":7}},{"delete":{"at":2}}]}"#;
    let (status, answer) = served.raw("POST /v1/acl/edge-in/changes", change);
    assert_eq!(status, 200, "{answer}");
    let done: acl::changed::Changed = client.read(&answer).unwrap();
    assert_eq!((done.list.as_str(), done.source.as_str(), done.rules), ("edge-in", "noc", 2));
    client.put("/v1/acl/spare?default=reject&expect=new", "text/plain", "deny ip from any to any\n".into()).unwrap();
    assert_eq!(client.delete("/v1/acl/spare").unwrap(), "");
    let group = crate::control::acl::GroupRequest { source: "api".into(), kind: None, members: vec!["80".into()] };
    let answer = client.put_json("/v1/group/web", &group).unwrap();
    assert_eq!(client.read::<acl::changed::Regrouped>(&answer).unwrap().members, 1);
    let answer = client.delete("/v1/group/web").unwrap();
    assert_eq!(client.read::<acl::changed::Regrouped>(&answer).unwrap().text(), "web: removed\n");
    assert_eq!(
        served.calls(),
        [
            r#"change edge-in noc [Insert(Insert { rules: "deny ip from any to any", at: None, before: Some(7), after: None }), Delete(Which { id: None, at: Some(2) })]"#,
            r#"put spare api Some(Action(Reject(Usual))) Some(New) "deny ip from any to any\n""#,
            "remove spare",
            r#"group web GroupRequest { source: "api", kind: None, members: ["80"] }"#,
            "restore group web",
        ]
    );
}

#[test]
fn stages_are_set() {
    let served = Served::new();
    let client = served.client();
    let order = |stage: &str| StageRequest { stage: stage.to_owned() };
    let answer = client.post("/v1/sav/edge/stage", &order("monitor")).unwrap();
    let staged: sav::stage::Staged = client.read(&answer).unwrap();
    assert_eq!(
        (staged.policy.as_str(), staged.before.as_str(), staged.configured.as_str()),
        ("edge", "discard", "discard")
    );
    client.post("/v1/sav/core/stage", &order("configured")).unwrap();
    assert_eq!(served.calls(), ["stage edge Some(Permit)", "stage core None"]);
}

fn changed(served: &Served, answer: &str) -> sav::changed::Changed {
    served.client().read(answer).unwrap()
}

#[test]
fn a_batch_of_entries_is_read_and_carried_out_as_a_whole() {
    let served = Served::new();
    let post = |body: &str| served.raw("POST /v1/sav/edge/entries", body);
    let (status, answer) = post(
        r#"{"changes":[{"add":"permit from 10.0.0.0/8 on wan, lan"},{"replace":"permit from 10.0.0.1/16 on any"}]}"#,
    );
    assert_eq!(status, 200, "{answer}");
    let done = changed(&served, &answer);
    assert_eq!((done.policy.as_str(), done.source.as_str(), done.added, done.entries), ("edge", "api", 2, 2));
    let warning = "change 2, column 13: `10.0.0.1/16` has bits set behind its length; it is taken as 10.0.0.0/16 (write `10.0.0.0/16`)";
    assert_eq!(done.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [warning]);
    assert_eq!(
        served.calls(),
        [
            r#"edit edge api [Add(EntryKey { prefix: 10.0.0.0/8, mode: PrefixAllow }, ["wan", "lan"]), Replace(EntryKey { prefix: 10.0.0.0/16, mode: PrefixAllow }, ["wan", "lan"])]"#
        ]
    );

    let refused = |body: &str, kind: Kind, message: &str| {
        let (status, answer) = post(body);
        let refusal: Refusal = render::read(&answer).unwrap();
        assert_eq!((status, refusal.kind), (kind.status(), kind), "{answer}");
        assert!(refusal.message.contains(message), "{}", refusal.message);
        refusal
    };
    let wrong = r#"{"source":"x","changes":[{"add":"permit from 10.0.0.0/8 on wan"},{"add":"permit from 10.1.0.0/16 on wam"},{"delete":"lan"}]}"#;
    let refusal = refused(wrong, Kind::InvalidEntries, "; 1 more like this; nothing was changed");
    let problems: Vec<String> = refusal.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems[0], "change 2, column 28: there is no interface `wam` (did you mean `wan`?)");
    assert!(problems[1].starts_with("change 3, column 1: `lan` is no prefix"), "{problems:?}");
    // The number of an edit is that of its change: `any` is two of them.
    let absent = r#"{"changes":[{"add":"permit from any on wan"},{"delete":"10.0.0.0/8"}]}"#;
    let refusal = refused(absent, Kind::Conflict, "change 2: 10.0.0.0/8: there is no entry of this source");
    assert_eq!(refusal.problems[0].change, Some(2));
    refused(r#"{"source":"file","changes":[]}"#, Kind::BadRequest, "the configuration's own");
    refused(r#"{"changes":[{"ad":"x"}]}"#, Kind::BadRequest, "unknown variant `ad`");
    refused(r#"{"changes":[],"more":1}"#, Kind::BadRequest, "unknown field `more`");
    assert_eq!(served.calls().len(), 1);
}

#[test]
fn a_text_of_entries_is_read_as_it_says_it_is_written() {
    let served = Served::new();
    let client = served.client();
    let put = |query: &str, content_type, text: &str| {
        client.put(&format!("/v1/sav/edge/entries{query}"), content_type, text.to_owned())
    };
    for (content_type, text) in [
        ("text/plain; charset=utf-8", "permit from 10.0.0.0/8 on lan\n"),
        ("text/csv", "prefix,interfaces\n10.0.0.0/8,lan\n"),
        ("application/json", r#"[{"prefix":"10.0.0.0/8","interfaces":["lan"]}]"#),
    ] {
        let done = changed(&served, &put("?source=a%2Fb", content_type, text).unwrap());
        assert_eq!((done.source.as_str(), done.added), ("a/b", 1));
    }
    // What the query says counts more than the type.
    put("?format=csv&allow-empty=true", "application/x-www-form-urlencoded", "prefix,interfaces\n").unwrap();
    let one = r#"replace edge a/b 1 Some((EntryKey { prefix: 10.0.0.0/8, mode: PrefixAllow }, ["lan"]))"#;
    assert_eq!(served.calls(), [one, one, one, "replace edge api 0 None"]);

    let refused = |query: &str, content_type, text: &str| refusal(put(query, content_type, text).unwrap_err());
    // An empty text deletes nothing unless that is meant.
    for (query, content_type, text) in [
        ("", "text/plain", ""),
        ("?source=bgp", "text/plain", "# nothing\n"),
        ("?allow-empty=false", "text/csv", "prefix,interfaces\n"),
        ("", "application/json", "[]"),
    ] {
        let empty = refused(query, content_type, text);
        assert_eq!(empty.kind, Kind::Conflict);
        assert!(
            empty.message.contains("nothing was changed") && empty.message.contains("--allow-empty"),
            "{}",
            empty.message
        );
    }
    let bad = refused("", "text/csv", "prefix,interfaces\n10.0.0.0/8,lan\n10.1.0.0/16,lan wam\n");
    assert_eq!((bad.kind, bad.problems[0].line, bad.problems[0].column), (Kind::InvalidEntries, Some(3), Some(17)));
    assert!(bad.message.ends_with("(did you mean `wan`?); nothing was changed"), "{}", bad.message);
    assert_eq!(refused("", "image/png", "").kind, Kind::UnknownFormat);
    assert_eq!(refused("?format=xml", "text/csv", "").kind, Kind::UnknownFormat);
    assert_eq!(refused("?source=file", "text/csv", "").kind, Kind::BadRequest);
    assert_eq!(refused("?sauce=api", "text/csv", "").kind, Kind::BadRequest);
    let other = |policy: &str| {
        refusal(client.put(&format!("/v1/sav/{policy}/entries"), "text/plain", String::new()).unwrap_err())
    };
    let unknown = other("egde");
    assert_eq!((unknown.kind, unknown.policies.as_slice()), (Kind::UnknownPolicy, ["edge".to_owned()].as_slice()));
    assert!(unknown.message.ends_with("did you mean `edge`?"), "{}", unknown.message);
    assert_eq!(other("core").kind, Kind::NotATable);
    let of = |policy: &str| refusal(client.show::<sav::entries::Entries>(policy).unwrap_err());
    assert_eq!(of("/v1/show/sav/core").message, "`core` has no entries: its mechanism is `urpf-strict`");
    assert!(of("/v1/show/sav/edg").message.ends_with("did you mean `edge`?"));
    assert_eq!(of("/v1/show/sav/edge?prefix=lan").kind, Kind::BadRequest);
    assert_eq!(served.calls().len(), 4);
}

#[test]
fn a_text_of_another_encoding_is_refused_with_what_to_do() {
    let served = Served::new();
    // UTF-16 without a mark, of which each octet is one of UTF-8, too.
    let wide: String = "permit from 10.0.0.0/8 on lan\n".chars().flat_map(|c| ['\0', c]).collect();
    for target in ["/v1/sav/edge/entries", "/v1/acl/edge-in"] {
        let refused = refusal(served.client().put(target, "text/plain", wide.clone()).unwrap_err());
        assert_eq!(refused.kind, Kind::BadRequest);
        assert!(refused.message.ends_with("(convert it: `iconv -f UTF-16BE -t UTF-8`)"), "{}", refused.message);
    }
    assert!(served.calls().is_empty());
}

#[test]
fn a_million_entries_come_in_one_request_and_hold_nobody_up() {
    // A machine that has much else to do may hold up anybody, but not each time.
    assert!((0..10).any(|_| holds_nobody_up()), "a request waits for a second, each time");
}

fn holds_nobody_up() -> bool {
    const ENTRIES: usize = 1_000_000;
    let served = Served::new();
    let mut text = String::with_capacity(ENTRIES * 40);
    for number in 0..ENTRIES {
        let [_, a, b, c] = (number as u32).to_be_bytes();
        text.push_str(&format!("permit from 10.{a}.{b}.{c}/32 on lan\n"));
    }
    let path = served.path.clone();
    let sender = std::thread::spawn(move || Client::new(&path).put("/v1/sav/edge/entries", "text/plain", text));
    let mut slowest = Duration::ZERO;
    while !sender.is_finished() {
        let start = Instant::now();
        assert!(served.client().show::<version::Version>("/v1/show/version").is_ok());
        slowest = slowest.max(start.elapsed());
    }
    let done = changed(&served, &sender.join().unwrap().unwrap());
    assert_eq!((done.added, served.calls().len()), (ENTRIES, 1));
    // Neither a million lines nor all of their octets are dealt with between two other requests.
    println!("{slowest:?} at most");
    slowest < Duration::from_secs(1)
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
    // Long before the server gives the client up.
    assert!(start.elapsed() < Duration::from_secs(30));
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
