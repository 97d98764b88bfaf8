//! Classifier tables, in a line or two.

use weir_plane::model::{
    ClassifyAction, ClassifyIndex, ClassifySession, ClassifyStart, ClassifyTable, IpFamily, NextHop, Origin, Place,
};

use super::{Build, ip};

/// Octets of hexadecimal digits; blanks do not count.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// An action that permits.
pub fn permit() -> ClassifyAction {
    ClassifyAction::of(true)
}

/// An action that denies.
pub fn deny() -> ClassifyAction {
    ClassifyAction::of(false)
}

impl Build {
    /// A table with a mask of hexadecimal digits from a header on, and values with their actions. The last octet of the mask
    /// is not zero.
    pub fn classify(
        mut self,
        name: &str,
        (start, family): (ClassifyStart, Option<IpFamily>),
        mask: &str,
        sessions: &[(&str, ClassifyAction)],
    ) -> Build {
        let mut actions: Vec<ClassifyAction> = Vec::new();
        let mut session = |(at, (value, action)): (usize, &(&str, ClassifyAction))| {
            // A limit is each session's own.
            let known = actions.iter().position(|own| own == action && action.limit.is_none());
            let action = known.unwrap_or_else(|| {
                actions.push(action.clone());
                actions.len() - 1
            }) as u32;
            let origin = self.0.origins.add(Place { file: "kit".into(), line: 1 + at as u32, text: (*value).into() });
            ClassifySession { value: hex(value).into(), action, opaque: at as u32, origin }
        };
        let sessions: Vec<ClassifySession> = sessions.iter().enumerate().map(&mut session).collect();
        self.0.classify.push(ClassifyTable {
            name: name.into(),
            start,
            family,
            mask: hex(mask).into(),
            text: mask.into(),
            size: sessions.len().max(16) as u32,
            next: None,
            permits_misses: true,
            sessions: sessions.into(),
            actions: actions.into(),
            origin: Origin::default(),
        });
        self
    }

    /// Changes the table that was added last.
    pub fn table_with(mut self, change: impl FnOnce(&mut ClassifyTable)) -> Build {
        change(self.0.classify.last_mut().expect("a table"));
        self
    }

    fn table_index(&self, name: &str) -> ClassifyIndex {
        let at = self.0.classify.iter().position(|table| table.name == name);
        ClassifyIndex(at.unwrap_or_else(|| panic!("no table {name}")) as u16)
    }

    /// The table that packets without a session in the last one go to.
    pub fn then(self, next: &str) -> Build {
        let next = self.table_index(next);
        self.table_with(|table| table.next = Some(next))
    }

    /// Packets without a session are dropped.
    pub fn or_deny(self) -> Build {
        self.table_with(|table| table.permits_misses = false)
    }

    /// Packets that come in by an interface are matched.
    pub fn classify_in(mut self, interface: &str, table: &str) -> Build {
        let (at, table) = (self.interface(interface).0 as usize, self.table_index(table));
        self.0.interfaces[at].access.classify_in = Some(table);
        self
    }

    /// Packets that leave by an interface are matched.
    pub fn classify_out(mut self, interface: &str, table: &str) -> Build {
        let (at, table) = (self.interface(interface).0 as usize, self.table_index(table));
        self.0.interfaces[at].access.classify_out = Some(table);
        self
    }

    /// An action that sends packets over these paths: `wan 192.0.2.2`.
    pub fn over(&self, paths: &[&str]) -> ClassifyAction {
        let path = |path: &&str| {
            let mut words = path.split(' ');
            let interface = self.interface(words.next().unwrap());
            NextHop { interface, address: words.next().map(ip), weight: 1 }
        };
        ClassifyAction { via: paths.iter().map(path).collect(), ..permit() }
    }
}
