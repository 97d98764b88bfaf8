//! Memory regions made ready ahead. To allocate a huge page takes the kernel a tenth of a millisecond, as it clears the page,
//! and some milliseconds where it has to move others out of the way: too long for a thread that forwards packets. Such a
//! thread orders its next region while it fills the one before. If it fills regions faster than they are made, it takes
//! address space, whose memory it allocates in parts.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::affinity;
use crate::region::Region;

/// Octets of address space that an owner reserves at a time.
const SPACE: usize = 128 << 20;

/// A region to be made.
struct Order {
    len: usize,
    reply: SyncSender<io::Result<Region>>,
}

/// The regions of one owner: one at a time may be on order.
#[derive(Debug, Default)]
pub struct Supply {
    ordered: Option<(usize, Receiver<io::Result<Region>>)>,
    /// Address space for regions that are not ready.
    space: Option<Region>,
}

impl Supply {
    /// Creates a supply with nothing on order.
    pub fn new() -> Supply {
        Supply::default()
    }

    /// Orders a region of `len` octets. Does nothing if a region is on order already.
    pub fn order(&mut self, len: usize) {
        if self.ordered.is_some() {
            return;
        }
        let (reply, ordered) = sync_channel(1);
        if maker().is_some_and(|maker| maker.send(Order { len, reply }).is_ok()) {
            self.ordered = Some((len, ordered));
        }
    }

    /// Takes a region of at least `len` octets: the ordered one if it is ready and long enough. Else one whose memory is to be
    /// allocated by [`Region::allocate`], part by part.
    ///
    /// # Errors
    /// If the system lacks memory.
    pub fn take(&mut self, len: usize) -> io::Result<Region> {
        let ready =
            self.ordered.as_ref().filter(|(own, _)| *own >= len).and_then(|(_, ordered)| ordered.try_recv().ok());
        if let Some(region) = ready {
            self.ordered = None;
            return region;
        }
        if self.space.as_ref().is_none_or(|space| space.len() < len) {
            self.space = Some(Region::space(len.max(SPACE))?);
        }
        Region::split(&mut self.space, len)
    }
}

/// The thread that makes regions for all owners. It starts with the first order; `None` if it could not.
fn maker() -> Option<&'static Sender<Order>> {
    static MAKER: OnceLock<Option<Sender<Order>>> = OnceLock::new();
    let start = || {
        let (sender, orders) = channel::<Order>();
        let make = move || {
            // The thread that ordered first may be pinned to a CPU, and would wait for this one.
            let _ = affinity::unpin();
            for Order { len, reply } in orders {
                // An owner that is gone needs no region.
                let _ = reply.send(Region::new(len));
            }
        };
        let thread = std::thread::Builder::new().name("weir-memory".to_owned()).spawn(make);
        thread.is_ok().then_some(sender)
    };
    MAKER.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn an_ordered_region_is_given_once_it_is_ready() {
        let mut supply = Supply::new();
        supply.order(3 << 20);
        supply.order(1 << 40);
        let (_, ordered) = supply.ordered.take().unwrap();
        let region = ordered.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(region.len(), 4 << 20);
        let base = region.base();
        let (reply, ordered) = sync_channel(1);
        reply.send(Ok(region)).unwrap();
        supply.ordered = Some((3 << 20, ordered));
        assert_eq!(supply.take(3 << 20).unwrap().base(), base);
        assert!(supply.ordered.is_none());
    }

    #[test]
    fn whatever_is_on_order_a_region_is_as_long_as_wanted() {
        let mut supply = Supply::new();
        assert!(cfg!(miri) || !supply.take(1).unwrap().is_whole(), "nothing was ordered");
        supply.order(1);
        let start = Instant::now();
        assert_eq!(supply.take(3 << 20).unwrap().len(), 4 << 20);
        while supply.ordered.is_some() && start.elapsed() < Duration::from_secs(60) {
            assert_eq!(supply.take(1).unwrap().len(), 2 << 20);
        }
        assert!(supply.ordered.is_none());
    }
}
