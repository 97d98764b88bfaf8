//! SPDs.

use weir_plane::model::{Origin, SaIndex, Spd, SpdAction, SpdCache, SpdIndex, SpdRule};

use super::Build;

impl Build {
    /// An SPD of interfaces. Rules as words: an action (`protect N` by index of the SA, `bypass`, `discard`), `first` for a
    /// higher priority, and a rule of the kit without its action.
    pub fn spd(mut self, interfaces: &[&str], cache: SpdCache, rules: &[&str]) -> Build {
        let rule = |text: &&str| {
            let (action, rest) = text.split_once(' ').unwrap();
            let (action, rest) = match action {
                "protect" => {
                    let (sa, rest) = rest.split_once(' ').unwrap();
                    (SpdAction::Protect(SaIndex(sa.parse().unwrap())), rest)
                }
                "bypass" => (SpdAction::Bypass, rest),
                _ => (SpdAction::Discard, rest),
            };
            let (shared, rest) = match rest.strip_prefix("shared ") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let (priority, rest) = match rest.strip_prefix("first ") {
                Some(rest) => (1, rest),
                None => (0, rest),
            };
            let matches = self.acl_rule(&format!("permit {rest}"));
            SpdRule { shared, priority, ..SpdRule::new(action, matches) }
        };
        let rules: Vec<SpdRule> = rules.iter().map(rule).collect();
        let index = SpdIndex(self.0.spds.len() as u16);
        let name = format!("spd{}", index.0);
        self.0.spds.push(Spd { name, rules: rules.into(), cache, origin: Origin::default() });
        for interface in interfaces {
            let at = self.interface(interface).0 as usize;
            self.0.interfaces[at].spd = Some(index);
        }
        self
    }
}
