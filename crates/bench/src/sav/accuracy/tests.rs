//! Expected results in each topology, with reasons that do not depend on the code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::case::{AS1, AS2, AS3, AS5, DUT};
use super::world::{Announce, Tie, World};
use super::*;
use crate::report::Report as _;

const SIZE: u16 = 4;
const PACKETS: usize = 100;
const EFFORT: Effort = Effort { prefixes: SIZE, packets: PACKETS, moving: 10, turns: 1 };

/// A case that runs once.
type Run = Arc<OnceLock<Arc<Vec<CaseRow>>>>;

/// The rows of a case, which is run once for all tests.
fn rows(name: &str) -> Arc<Vec<CaseRow>> {
    static RUNS: Mutex<BTreeMap<String, Run>> = Mutex::new(BTreeMap::new());
    let run = Arc::clone(RUNS.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default());
    Arc::clone(run.get_or_init(|| Arc::new(run_rows(name))))
}

/// The prefixes that move, which is measured once for all tests.
fn withdrawals() -> &'static [Withdrawal] {
    static RUN: OnceLock<Vec<Withdrawal>> = OnceLock::new();
    RUN.get_or_init(|| withdrawal::measure(&EFFORT).unwrap())
}

fn run_rows(name: &str) -> Vec<CaseRow> {
    let cases = case::all(SIZE);
    let (number, case) = (0..).zip(&cases).find(|(_, case)| case.name == name).unwrap_or_else(|| panic!("no {name}"));
    let rows = run(case, number, PACKETS).unwrap();
    for row in &rows {
        for cell in &row.cells {
            add_up(cell);
        }
    }
    rows
}

/// Every packet that was sent came to one end, and to one that says something.
fn add_up(cell: &Cell) {
    for mix in &cell.mixes {
        let Tally { legitimate, spoofed } = mix.tally;
        assert_eq!(spoofed.sent, PACKETS as u64 * u64::from(mix.spoofed_in_ten) / 10);
        assert_eq!(legitimate.sent + spoofed.sent, PACKETS as u64);
        for count in [legitimate, spoofed] {
            assert_eq!(count.sent, count.passed + count.refused + count.lost);
            assert_eq!(count.lost, 0, "{:?}", cell.mechanism);
        }
    }
    let of_flows = traffic::tally(&cell.flows);
    assert_eq!(of_flows, cell.tally(), "packets by kind and by ratio are the same packets");
    assert!(cell.flows.iter().all(|flow| flow.count.sent > 0 && !flow.entered.is_empty()), "{cell:?}");
}

/// Rates of a mechanism: false positives and false negatives.
fn rates(row: &CaseRow, way: Way) -> (f64, f64) {
    let tally = row.tally(way).unwrap_or_else(|| panic!("{way:?} in {}", row.case));
    (tally.false_positives().unwrap(), tally.false_negatives().unwrap())
}

/// Returns the share of a flow's packets that passed.
fn passed(row: &CaseRow, way: Way, flow: &str) -> f64 {
    let cell = row.cells.iter().find(|cell| cell.mechanism == way).unwrap();
    let count = cell.flows.iter().find(|found| found.flow == flow).unwrap_or_else(|| panic!("{flow}: {cell:?}")).count;
    count.passed as f64 / count.sent as f64
}

const URPF_BY_WAY: [Way; 2] = [Way::UrpfStrict, Way::UrpfFeasible];

#[test]
fn every_case_without_validation_passes_everything() {
    for case in case::all(SIZE) {
        for row in rows(case.name).iter() {
            assert_eq!(rates(row, Way::None), (0.0, 100.0), "{}", row.title());
        }
    }
}

#[test]
fn packets_enter_where_the_case_says() {
    for (name, interfaces) in [
        ("intra symmetric", &["net1"][..]),
        ("intra asymmetric", &["net1"]),
        ("intra hidden prefix", &["net1"]),
        ("customer symmetric", &["as2"]),
        ("customer NO_EXPORT", &["as2"]),
        ("customer NO_EXPORT of all", &["as2"]),
        ("direct server return", &["as1"]),
        ("customer reflection", &["as2"]),
        ("customer direct attack", &["as2"]),
        ("peer reflection", &["as3"]),
        ("peer direct attack", &["as3"]),
        ("provider reflection", &["as3"]),
        ("provider direct attack", &["as3"]),
    ] {
        for flow in rows(name).iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.flows) {
            assert_eq!(flow.entered, interfaces, "{name}: {}", flow.flow);
        }
    }
}

#[test]
fn symmetric_routing_suits_every_mechanism_that_asks_for_the_way() {
    for name in ["intra symmetric", "customer symmetric"] {
        let row = &rows(name)[0];
        for way in [Way::Acl, Way::UrpfStrict, Way::UrpfFeasible, Way::TableSavnet] {
            assert_eq!(rates(row, way), (0.0, 0.0), "{name}: {way:?}");
        }
    }
}

#[test]
fn loose_urpf_passes_what_is_routed_and_nothing_else() {
    let row = &rows("customer symmetric")[0];
    for source in ["P3", "P4", "P5"] {
        assert_eq!(passed(row, Way::UrpfLoose, &format!("as1: {source} to P4")), 1.0);
    }
    for source in ["unrouted", "private"] {
        assert_eq!(passed(row, Way::UrpfLoose, &format!("as1: {source} to P4")), 0.0);
    }
    // An unannounced prefix has no route, even if its user is legitimate.
    assert_eq!(rates(&rows("intra hidden prefix")[0], Way::UrpfLoose).0, 100.0);
    // It has a route, wherever that leads.
    assert_eq!(rates(&rows("direct server return")[0], Way::UrpfLoose).0, 0.0);
}

#[test]
fn asymmetric_routing_has_urpf_refuse_what_is_right() {
    for name in ["intra asymmetric", "customer NO_EXPORT", "customer NO_EXPORT of all", "direct server return"] {
        let row = &rows(name)[0];
        for way in URPF_BY_WAY {
            assert_eq!(rates(row, way), (100.0, 0.0), "{name}: {way:?}");
        }
        assert_eq!(rates(row, Way::TableSavnet), (0.0, 0.0), "{name}");
    }
}

#[test]
fn algorithm_a_needs_one_prefix_of_an_origin_and_algorithm_b_none() {
    let (some, none) = (&rows("customer NO_EXPORT")[0], &rows("customer NO_EXPORT of all")[0]);
    assert_eq!((rates(some, Way::TableEfpA), rates(none, Way::TableEfpA)), ((0.0, 0.0), (100.0, 0.0)));
    for row in [some, none] {
        // P5 is another customer's: with algorithm B customers may use each other's sources.
        assert_eq!(rates(row, Way::TableEfpB).0, 0.0);
        assert_eq!(passed(row, Way::TableEfpB, "as1: P5 to P4"), 1.0);
        assert_eq!(passed(row, Way::TableEfpB, "as1: P3 to P4"), 0.0);
    }
}

#[test]
fn what_nobody_announces_is_known_to_whoever_is_told() {
    for name in ["intra hidden prefix", "direct server return"] {
        let row = &rows(name)[0];
        for cell in row.cells.iter().filter(|cell| !matches!(cell.mechanism, Way::None | Way::UrpfLoose)) {
            let told = matches!(cell.mechanism, Way::TableSavnet | Way::TableSavnetPart);
            let false_positives = cell.tally().false_positives();
            assert_eq!(false_positives, Some(if told { 0.0 } else { 100.0 }), "{name}: {:?}", cell.mechanism);
        }
    }
}

#[test]
fn attacks_with_a_customers_source_from_another_customer() {
    let row = &rows("customer reflection")[0];
    // The victim is a customer of the attacker's network, so the list permits it; algorithms A and B know P6 by both ways.
    for way in [Way::Acl, Way::UrpfLoose, Way::TableEfpA, Way::TableEfpB] {
        assert_eq!(rates(row, way), (0.0, 100.0), "{way:?}");
    }
    for way in [Way::UrpfStrict, Way::UrpfFeasible, Way::TableSavnet, Way::TableSavnetPart] {
        assert_eq!(rates(row, way), (0.0, 0.0), "{way:?}");
    }
    let row = &rows("customer direct attack")[0];
    for way in [Way::Acl, Way::UrpfStrict, Way::UrpfFeasible, Way::TableEfpA, Way::TableSavnet] {
        assert_eq!(rates(row, way), (0.0, 0.0), "{way:?}");
    }
    // AS 5 does not participate, so no mechanism knows the owner of P5.
    for way in [Way::UrpfLoose, Way::TableEfpB, Way::TableSavnetPart] {
        assert_eq!(rates(row, way), (0.0, 100.0), "{way:?}");
    }
}

#[test]
fn attacks_from_outside_and_a_customer_who_comes_that_way() {
    for side in ["peer", "provider"] {
        for attack in ["reflection", "direct attack"] {
            let row = &rows(&format!("{side} {attack}"))[0];
            // AS 5 sends by AS 3: one half of what is legitimate.
            for way in [Way::Acl, Way::UrpfStrict] {
                assert_eq!(rates(row, way).1, 0.0, "{way:?}");
                let cell = row.cells.iter().find(|cell| cell.mechanism == way).unwrap();
                for flow in cell.flows.iter().filter(|flow| flow.legitimate) {
                    let expected = if flow.flow.starts_with("as5") { flow.count.sent } else { 0 };
                    assert_eq!(flow.count.refused, expected, "{way:?}: {}", flow.flow);
                }
            }
            for way in [Way::UrpfFeasible, Way::TableSavnet] {
                assert_eq!(rates(row, way), (0.0, 0.0), "{way:?}");
            }
            for way in [Way::UrpfLoose, Way::TableEfpA, Way::TableEfpB] {
                assert_eq!(rates(row, way), (0.0, 100.0), "{way:?}");
            }
        }
    }
    // The victim takes part, its provider does not.
    assert_eq!(rates(&rows("provider reflection")[0], Way::TableSavnetPart), (0.0, 0.0));
    assert_eq!(rates(&rows("provider direct attack")[0], Way::TableSavnetPart), (0.0, 100.0));
}

#[test]
fn a_link_fails_before_the_controller_hears_of_it() {
    let rows = rows("fast reroute");
    assert_eq!(
        rows.iter().map(|row| row.stage.as_str()).collect::<Vec<_>>(),
        ["before", "rerouted", "converged", "restored"]
    );
    for way in URPF_BY_WAY {
        assert!(rows.iter().all(|row| rates(row, way) == (0.0, 0.0)), "it follows the routes: {way:?}");
    }
    let savnet: Vec<_> = rows.iter().map(|row| rates(row, Way::TableSavnet)).collect();
    assert_eq!(savnet, [(0.0, 0.0), (50.0, 0.0), (0.0, 0.0), (0.0, 0.0)]);
    assert_eq!(passed(&rows[1], Way::TableSavnet, "as3: P3 to P1"), 0.0, "it enters by as2, which no report names");
    // It came by another way than before.
    let cell = rows[1].cells.iter().find(|cell| cell.mechanism == Way::None).unwrap();
    let flow = cell.flows.iter().find(|flow| flow.flow == "as3: P3 to P1").unwrap();
    assert_eq!(flow.entered, ["as2"]);
    let flow = rows[0].cells[0].flows.iter().find(|flow| flow.flow == "as3: P3 to P1").unwrap();
    assert_eq!(flow.entered, ["as3"]);
}

#[test]
fn a_policy_makes_routing_symmetric_for_the_half_that_it_is_for() {
    let rows = rows("policy-based routing");
    let strict: Vec<f64> = rows.iter().map(|row| passed(row, Way::UrpfStrict, "as3: P3 to P1")).collect();
    assert_eq!(strict[0], 0.0);
    assert!((0.35..0.65).contains(&strict[1]) && strict[1] == strict[2], "{strict:?}");
    for way in [Way::Acl, Way::UrpfFeasible, Way::TableSavnet] {
        assert!(rows.iter().all(|row| rates(row, way) == (0.0, 0.0)), "{way:?}");
    }
}

/// Counts come of what gateways do, and that comes of routing: the same hosts send the same packets, over other routes.
#[test]
fn figures_depend_on_routing() {
    let symmetric = case::all(SIZE).swap_remove(3);
    assert_eq!(symmetric.name, "customer symmetric");
    let of = |world: World| {
        let mut case = Case { stages: Vec::new(), world: world.clone(), ..symmetric_case() };
        case.stages.push(Stage { name: "", down: Vec::new(), world, routes: true, tables: true });
        let rows = run(&case, 0, PACKETS).unwrap();
        rates(&rows[0], Way::UrpfStrict).0
    };
    let mut world = symmetric.world.clone();
    assert_eq!(of(world.clone()), 0.0);
    // AS 1 announces P1 to the gateway under test as short as it is: answers would come by the direct link.
    for origin in world.origins.iter_mut().filter(|origin| origin.node == AS1).take(1) {
        origin.announce.clear();
    }
    assert_eq!(of(world.clone()), 50.0);
    // P6, too.
    for origin in world.origins.iter_mut().filter(|origin| origin.node == AS1) {
        origin.announce.clear();
    }
    assert_eq!(of(world.clone()), 100.0);
    // And AS 1 sends by the direct link, too.
    world.links[0].preference = [None; 2];
    assert_eq!(of(world), 0.0);
}

fn symmetric_case() -> Case {
    case::all(SIZE).swap_remove(3)
}

/// The gateway under test counts what the bench counts.
#[test]
fn the_gateways_own_counters_agree() {
    for way in Way::ALL {
        let case = symmetric_case();
        let mut network = Network::new(case.world.clone(), way, SEED).unwrap();
        let cell = cell(&mut network, &case, way, 0, PACKETS).unwrap();
        let Tally { legitimate, spoofed } = cell.tally();
        assert_eq!(network.invalid(), legitimate.refused + spoofed.refused, "{way:?}");
        assert_eq!(legitimate.refused + spoofed.refused > 0, way != Way::None);
    }
}

#[test]
fn routes_between_domains_follow_who_pays_whom() {
    use super::routing::{By, routes};
    let world = World::new(&["as1", "as2", "as3", "dut", "as5"], DUT, 1)
        .link(AS1, Tie::Transit, AS2)
        .link(AS1, Tie::Transit, DUT)
        .link(AS2, Tie::Peer, DUT)
        .link(DUT, Tie::Peer, AS3)
        .link(AS5, Tie::Transit, AS3)
        .origin(AS2, 2)
        .announcing(AS1, 1, &[(DUT, Announce::NoExport)]);
    let ribs = routes(&world).unwrap();
    let by = |node: usize, group| -> Vec<By> {
        let found = ribs[node].get(&address::prefix(group, 0));
        found.map_or(Vec::new(), |routes| routes.iter().map(|route| route.by).collect())
    };
    // From the customer first, though both are known.
    assert_eq!(by(DUT, 1), [By::Link(1), By::Link(2)]);
    // NO_EXPORT ends there; and routes from a peer are not announced to other peers.
    assert_eq!((by(AS3, 1), by(AS3, 2), by(AS5, 2)), (vec![], vec![], vec![]));
    // To a customer it is.
    assert_eq!(by(AS1, 2), [By::Link(0), By::Link(1)]);
}

#[test]
fn prefixes_that_move_are_wrong_until_the_news_is_everywhere() {
    let all = withdrawals();
    assert_eq!(all.len(), 10 * (Way::ALL.len() + 6));
    for found in all {
        let share = f64::from(found.percent);
        for tally in [found.before, found.during, found.after] {
            for count in [tally.legitimate, tally.spoofed] {
                assert_eq!(count.sent, count.passed + count.refused + count.lost, "{found:?}");
                assert_eq!(count.lost, 0, "{found:?}");
            }
        }
        assert_eq!((found.before.legitimate.sent, found.after.spoofed.sent), (10, 10));
        let of = |tally: &Tally| (tally.false_positives().unwrap(), tally.false_negatives().unwrap());
        let (before, during, after) = (of(&found.before), of(&found.during), of(&found.after));
        assert!(found.updates >= u64::from(found.percent) / 10 * 2 && found.rate.median > 0.0, "{found:?}");
        match found.mechanism {
            Way::None | Way::UrpfLoose | Way::TableEfpB => {
                assert_eq!((before, during, after), ((0.0, 100.0), (0.0, 100.0), (0.0, 100.0)), "{found:?}");
            }
            // The list does not follow the move.
            Way::Acl => assert_eq!((before, during, after), ((0.0, 0.0), (share, share), (share, share))),
            Way::TableSavnetPart => {
                // Of sources of others than AS 1 it knows nothing.
                assert_eq!((before.0, after.0), (0.0, 0.0), "{found:?}");
                assert!(after.1 >= before.1);
            }
            Way::UrpfStrict | Way::UrpfFeasible | Way::TableEfpA | Way::TableSavnet => {
                assert_eq!((before, after), ((0.0, 0.0), (0.0, 0.0)), "{found:?}");
                assert!(during.0 > 0.0 && during.0 <= share && during.1 > 0.0 && during.1 <= share, "{found:?}");
            }
        }
        let becomes_right = after == (0.0, 0.0);
        assert_eq!(found.convergence.is_some(), becomes_right, "{found:?}");
        assert!(found.convergence.is_none_or(|time| time.seconds.median > 0.0));
    }
}

#[test]
fn the_report_reads_back_and_is_drawn() {
    let report = Accuracy {
        cpu: machine::cpu_name(),
        seed: SEED,
        prefixes: EFFORT.prefixes,
        packets: EFFORT.packets,
        cases: case::all(SIZE).iter().flat_map(|case| rows(case.name).to_vec()).collect(),
        moving: EFFORT.moving,
        turns: EFFORT.turns,
        withdrawals: withdrawals().to_vec(),
    };
    let again: Accuracy = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(again, report);
    let text = report.text();
    let line = text.lines().find(|line| line.starts_with("intra asymmetric")).unwrap();
    let cells: Vec<&str> = line["intra asymmetric".len()..].split_whitespace().collect();
    assert_eq!(cells[..4], ["0/100", "0/0", "100/0", "100/0"]);
    assert_eq!((cells[5], cells[7]), ("-", "0/0"));
    let directory = tempfile::tempdir().unwrap();
    let plots = report.plot(directory.path()).unwrap();
    assert_eq!(plots.len(), 2);
    for plot in plots {
        let svg = std::fs::read_to_string(plot).unwrap();
        assert!(svg.contains("</svg>") && svg.contains("table-savnet") && svg.contains("100"), "{svg}");
    }
}
