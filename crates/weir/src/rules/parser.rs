//! One line into a rule.

use std::borrow::Cow;
use std::ops::Range;

use super::findings::{Kind, Sink};
use super::lexer::{Lexer, Token, What};
use super::names::Names;
use super::words::{self, Problem};
use super::{Action, EntryName, INTERFACE, Rule, Scope};

/// Reads a line that stands at octet `base` of the sink's text. `None`: it is no rule, and the sink knows why.
pub(super) fn parse(line: &str, base: usize, names: &mut Names, sink: &mut Sink<'_>) -> Option<Rule> {
    match rule(line, base, names, sink) {
        Ok(rule) => Some(rule),
        Err((range, problem)) => {
            sink.error(range.start + base..range.end + base, problem);
            None
        }
    }
}

/// The error that ends the reading of a line, with its place.
pub(super) type Failure = (Range<usize>, Problem);

fn rule(line: &str, base: usize, names: &mut Names, sink: &mut Sink<'_>) -> Result<Rule, Failure> {
    let mut lexer = Lexer::new(line);
    let (mut word, mut range) = self::word(&mut lexer, "`permit` or `deny`")?;
    let scope = if word == INTERFACE { Scope::Interface } else { Scope::Prefix };
    if scope == Scope::Interface {
        (word, range) = self::word(&mut lexer, "`permit` or `deny`")?;
    }
    let action = words::action(word).map_err(|problem| match scope {
        Scope::Prefix => (range, problem.suggest(word, &["permit", "deny", INTERFACE])),
        Scope::Interface => (range, problem),
    })?;
    keyword(&mut lexer, "from")?;
    let token = lexer.next()?;
    let word = match token.what {
        What::Word(word) if word != "on" => word,
        _ => return Err(expected("a prefix or `any`", &token)),
    };
    let range = token.range;
    let (from, odd) = words::source(word).map_err(|problem| (range.clone(), problem))?;
    if let Some(odd) = odd {
        sink.warning(range.start + base..range.end + base, odd);
    }
    keyword(&mut lexer, "on")?;
    let mut list: Vec<&str> = Vec::new();
    let mut places: Vec<Range<usize>> = Vec::new();
    let behind = loop {
        let (name, range) = self::word(&mut lexer, "an interface's name or `any`")?;
        list.push(name);
        places.push(range);
        let token = lexer.next()?;
        if token.what != What::Comma {
            break token;
        }
    };
    let shared = names.list(&list).map_err(|(at, problem)| (places[at].clone(), problem))?;
    if let Some(at) = shared.repeated {
        sink.warning(places[at].start + base..places[at].end + base, words::repeated(list[at]));
    }
    let comment = match behind.what {
        What::End => None,
        What::Word("comment") => Some(comment(&mut lexer)?),
        other => {
            let (range, problem) = expected("`,`, `comment` or the end of the rule", &behind);
            return Err(match other {
                What::Word(word) => (range, problem.suggest(word, &["comment"])),
                _ => (range, problem),
            });
        }
    };
    Ok(Rule { scope, action, from, on: shared.on, comment })
}

/// Reads the name of a prefix's rules.
pub(super) fn entry(line: &str, sink: &mut Sink<'_>) -> Result<EntryName, Failure> {
    let mut lexer = Lexer::new(line);
    let (mut word, mut range) = self::word(&mut lexer, "a prefix or `any`")?;
    let scope = if word == INTERFACE { Scope::Interface } else { Scope::Prefix };
    if scope == Scope::Interface {
        (word, range) = self::word(&mut lexer, "`permit` or `deny`")?;
    }
    let mut action = Action::Permit;
    if scope == Scope::Interface || ["permit", "deny"].contains(&word) {
        action = words::action(word).map_err(|problem| (range, problem))?;
        (word, range) = self::word(&mut lexer, "a prefix or `any`")?;
    }
    let (from, odd) = words::source(word).map_err(|problem| (range.clone(), problem))?;
    if let Some(odd) = odd {
        sink.warning(range, odd);
    }
    let token = lexer.next()?;
    if token.what == What::End { Ok(EntryName { scope, action, from }) } else { Err(expected("the end", &token)) }
}

/// Reads the text behind the word `comment`, and the end.
pub(super) fn comment(lexer: &mut Lexer<'_>) -> Result<Box<str>, Failure> {
    let token = lexer.next()?;
    let What::Text(raw) = token.what else { return Err(expected("a comment in double quotes", &token)) };
    let comment = words::comment(&unescape(raw, token.range.start + 1)?).map_err(|problem| (token.range, problem))?;
    let token = lexer.next()?;
    if token.what == What::End { Ok(comment) } else { Err(expected("the end of the rule", &token)) }
}

/// A text without its backslashes. It begins at octet `start` of the line.
fn unescape(raw: &str, start: usize) -> Result<Cow<'_, str>, Failure> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut text = String::with_capacity(raw.len());
    let mut characters = raw.char_indices();
    while let Some((at, c)) = characters.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match characters.next() {
            Some((_, c @ ('"' | '\\'))) => text.push(c),
            Some((_, c)) => {
                let message = format!("`\\{}` means nothing in a comment", c.escape_debug());
                let problem = Problem::new(Kind::Rule, message).help("only `\\\"` and `\\\\` do");
                return Err((start + at..start + at + 1 + c.len_utf8(), problem));
            }
            // The quote that closes the text is none behind a backslash.
            None => text.push('\\'),
        }
    }
    Ok(Cow::Owned(text))
}

/// The next word, whatever it is.
pub(super) fn word<'t>(lexer: &mut Lexer<'t>, what: &str) -> Result<(&'t str, Range<usize>), Failure> {
    let token = lexer.next()?;
    match token.what {
        What::Word(word) => Ok((word, token.range)),
        _ => Err(expected(what, &token)),
    }
}

/// The next word, which has to be this one.
pub(super) fn keyword(lexer: &mut Lexer<'_>, keyword: &str) -> Result<(), Failure> {
    let token = lexer.next()?;
    match token.what {
        What::Word(word) if word == keyword => Ok(()),
        What::Word(word) => {
            let (range, problem) = expected(&format!("`{keyword}`"), &token);
            Err((range, problem.suggest(word, &[keyword])))
        }
        _ => Err(expected(&format!("`{keyword}`"), &token)),
    }
}

pub(super) fn expected(what: &str, token: &Token<'_>) -> Failure {
    (token.range.clone(), Problem::new(Kind::Rule, format!("expected {what}, found {}", token.what.found())))
}

/// Where a rule names an interface, in octets of its text.
pub(super) fn place_of(rule: &str, interface: &str) -> Option<Range<usize>> {
    let mut lexer = Lexer::new(rule);
    let mut listed = false;
    loop {
        let token = lexer.next().ok()?;
        match token.what {
            What::Word(word) if listed && word == interface => return Some(token.range),
            What::Word("on") => listed = true,
            What::End => return None,
            _ => {}
        }
    }
}
