//! The condition on octets of a packet: a value under a mask, at a place from a header on.

use std::fmt;

use weir_plane::model::{ClassifyStart, SteerOctets};

use super::super::acl::parser::{Line, number};
use super::super::classify::{hex, write_hex};
use super::super::findings::Kind;
use super::super::lexer::What;
use super::super::parser::{Failure, word};
use super::super::words::{Problem, shown};

/// The octets from a header on that rules may compare.
const MOST: usize = 128;

/// The headers.
const STARTS: [(&str, ClassifyStart); 3] =
    [("l2", ClassifyStart::Link), ("l3", ClassifyStart::Network), ("l4", ClassifyStart::Transport)];

/// Reads the condition behind its word.
pub(super) fn read(line: &mut Line<'_, '_, '_>) -> Result<SteerOctets, Failure> {
    const WHAT: &str = "`l2`, `l3` or `l4`";
    let (name, place) = word(&mut line.lexer, WHAT)?;
    let Some((_, start)) = STARTS.into_iter().find(|(own, _)| *own == name) else {
        let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(name)));
        return Err((place, problem.suggest(name, &STARTS.map(|(own, _)| own))));
    };
    let (text, place) = word(&mut line.lexer, "the first octet that is compared")?;
    let at = number(text, &place, "the first octet that is compared", MOST as u64 - 1)? as u8;
    let (digits, place) = word(&mut line.lexer, "hexadecimal digits")?;
    let value = hex(digits, place.clone())?;
    let wrong = |place, message: String| Err((place, Problem::new(Kind::Rule, message)));
    if usize::from(at) + value.len() > MOST {
        return wrong(place, format!("octets end within the first {MOST} from the header on"));
    }
    if line.lexer.clone().next()?.what != What::Word("mask") {
        let mask = vec![0xff; value.len()].into();
        return Ok(SteerOctets { start, at, value: value.into(), mask });
    }
    line.lexer.next()?;
    let (digits, behind) = word(&mut line.lexer, "hexadecimal digits")?;
    let mask = hex(digits, behind.clone())?;
    if mask.len() != value.len() {
        let s = if mask.len() == 1 { "" } else { "s" };
        return wrong(behind, format!("the mask has {} octet{s}, and the value has {}", mask.len(), value.len()));
    }
    if mask.iter().all(|&octet| octet == 0) {
        return wrong(behind, "a mask of zero matches all packets".to_owned());
    }
    if value.iter().zip(&mask).any(|(value, mask)| value & !mask != 0) {
        return wrong(place, "the value has bits that the mask does not cover".to_owned());
    }
    Ok(SteerOctets { start, at, value: value.into(), mask: mask.into() })
}

/// Writes the condition, with a blank in front.
pub(super) fn write(f: &mut fmt::Formatter<'_>, octets: &SteerOctets) -> fmt::Result {
    let start = STARTS.iter().find(|(_, own)| *own == octets.start).map_or("l2", |(name, _)| name);
    write!(f, " octets {start} {} ", octets.at)?;
    write_hex(f, &octets.value)?;
    if octets.mask.iter().any(|&octet| octet != 0xff) {
        f.write_str(" mask ")?;
        write_hex(f, &octets.mask)?;
    }
    Ok(())
}
