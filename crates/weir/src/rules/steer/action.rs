//! The actions of a rule.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use weir_plane::model::SteerNode;
use weir_plane::node::Node;

use super::super::acl::parser::{Line, Placed, number};
use super::super::findings::Kind;
use super::super::lexer::{Lexer, What};
use super::super::names::{LONGEST_NAME, is_name};
use super::super::parser::{Failure, word};
use super::super::words::{Problem, shown};

/// The words of actions.
pub(super) const ACTIONS: [&str; 5] = ["count", "mark", "drop", "redirect", "advance"];

/// The targets of a redirection.
const TARGETS: [&str; 4] = ["interface", "next-hop", "queue", "node"];

/// The most octets that a rule advances by.
const MOST_OCTETS: u64 = 256;

/// The most workers that a gateway may have.
const MOST_WORKERS: u64 = 16;

/// The action that says where packets go, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goes {
    Drop,
    To(Option<Arc<str>>, Option<IpAddr>),
    Queue(u16),
    Node(SteerNode),
    Advance(u16),
}

/// The actions of a rule, each with its place.
#[derive(Debug, Default)]
pub(super) struct Actions {
    pub(super) count: Placed<()>,
    pub(super) mark: Placed<u32>,
    pub(super) goes: Placed<Goes>,
    /// Where the address of a next hop stands.
    pub(super) address: Option<Range<usize>>,
}

impl Actions {
    /// Reads an action behind its word.
    pub(super) fn read(&mut self, line: &mut Line<'_, '_, '_>, name: &str, at: Range<usize>) -> Result<(), Failure> {
        let wrong = |message: String| Err((at.clone(), Problem::new(Kind::Rule, message)));
        let is_twice = match name {
            "count" => self.count.is_some(),
            "mark" => self.mark.is_some(),
            _ => false,
        };
        if is_twice {
            return wrong(format!("`{name}` stands here twice"));
        }
        if !["count", "mark"].contains(&name) && self.goes.is_some() {
            return wrong("packets of a rule go one way: `drop`, one `redirect` or `advance`".to_owned());
        }
        match name {
            "count" => self.count = Some(((), at)),
            "mark" => {
                let (text, range) = word(&mut line.lexer, "a mark")?;
                self.mark = Some((number(text, &range, "a mark", u32::MAX.into())? as u32, at));
            }
            "drop" => self.goes = Some((Goes::Drop, at)),
            "advance" => {
                let (text, range) = word(&mut line.lexer, "a number of octets")?;
                let octets = number(text, &range, "a number of octets", MOST_OCTETS)? as u16;
                if octets == 0 {
                    return Err((range, Problem::new(Kind::Rule, "a rule advances by at least one octet")));
                }
                self.goes = Some((Goes::Advance(octets), at));
            }
            _ => {
                let goes = self.redirect(line)?;
                self.goes = Some((goes, at));
            }
        }
        Ok(())
    }

    fn redirect(&mut self, line: &mut Line<'_, '_, '_>) -> Result<Goes, Failure> {
        const WHAT: &str = "`interface`, `next-hop`, `queue` or `node`";
        let (target, place) = word(&mut line.lexer, WHAT)?;
        match target {
            "interface" => {
                let name = interface(line)?;
                let is_next = line.lexer.clone().next()?.what == What::Word("next-hop");
                if is_next {
                    line.lexer.next()?;
                }
                let address = if is_next { Some(self.address(line)?) } else { None };
                Ok(Goes::To(Some(name), address))
            }
            "next-hop" => {
                let address = self.address(line)?;
                let token = line.lexer.clone().next()?;
                if token.what == What::Word("interface") {
                    let problem = Problem::new(Kind::Rule, "`interface` stands behind `next-hop`");
                    return Err((token.range, problem.help("write `redirect interface NAME next-hop ADDRESS`")));
                }
                Ok(Goes::To(None, Some(address)))
            }
            "queue" => {
                let (text, range) = word(&mut line.lexer, "the number of a worker")?;
                let most = MOST_WORKERS - 1;
                let help = |(place, problem): Failure| {
                    (
                        place,
                        problem.help(format!(
                            "workers have the numbers 0 to {most}, as far as `count` of `[workers]` goes"
                        )),
                    )
                };
                Ok(Goes::Queue(number(text, &range, "the number of a worker", most).map_err(help)? as u16))
            }
            "node" => {
                let (text, range) = word(&mut line.lexer, "a node")?;
                let names = SteerNode::ALL.map(SteerNode::name);
                match SteerNode::ALL.into_iter().find(|node| node.name() == text) {
                    Some(node) => Ok(Goes::Node(node)),
                    None => {
                        let message = match Node::named(text) {
                            Some(_) => format!("the node `{text}` does not take packets from steer rules"),
                            None => format!("there is no node `{}`", shown(text)),
                        };
                        let help = format!("these nodes take packets: {}", names.join(", "));
                        Err((range, Problem::new(Kind::Rule, message).help(help)))
                    }
                }
            }
            other => {
                let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(other)));
                Err((place, problem.suggest(other, &TARGETS)))
            }
        }
    }

    fn address(&mut self, line: &mut Line<'_, '_, '_>) -> Result<IpAddr, Failure> {
        let (text, range) = word(&mut line.lexer, "the address of a next hop")?;
        match text.parse() {
            Ok(address) => {
                self.address = Some(range);
                Ok(address)
            }
            Err(_) => {
                let problem = Problem::new(Kind::Rule, format!("`{}` is not an address", shown(text)));
                Err((range, problem.help("write one such as `192.0.2.1` or `2001:db8::1`")))
            }
        }
    }
}

fn interface(line: &mut Line<'_, '_, '_>) -> Result<Arc<str>, Failure> {
    let (name, place) = word(&mut line.lexer, "an interface's name")?;
    if !is_name(name) {
        let problem = Problem::new(Kind::Rule, format!("`{}` is no interface's name", shown(name)));
        let help = format!("a name has 1 to {LONGEST_NAME} of the characters a-z, 0-9, `.`, `_` and `-`");
        return Err((place, problem.help(help)));
    }
    Ok(line.shared(name))
}

/// Where a rule names something behind a word of its actions.
pub(super) fn place_behind(rule: &str, word: &str) -> Option<Range<usize>> {
    let mut lexer = Lexer::new(rule);
    let mut is_next = false;
    loop {
        let token = lexer.next().ok()?;
        match token.what {
            What::Word(_) if is_next => return Some(token.range),
            What::Word("from") | What::End => return None,
            What::Word(own) => is_next = own == word,
            _ => {}
        }
    }
}
