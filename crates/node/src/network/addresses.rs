//! Allocates a loopback address for each Pod.

use std::{
    collections::{HashMap, HashSet},
    net::Ipv4Addr,
};

/// A range of loopback addresses and its allocations.
#[derive(Debug)]
pub(crate) struct Addresses {
    first: u32,
    count: u32,
    next: u32,
    by_uid: HashMap<String, Ipv4Addr>,
    taken: HashSet<Ipv4Addr>,
}

impl Addresses {
    /// The addresses of `network`/`prefix`, without the first (the network) and the last.
    pub(crate) fn new(network: Ipv4Addr, prefix: u8) -> Self {
        let bits = 32 - u32::from(prefix.clamp(8, 30));
        let size = 1_u32 << bits;
        let first = (network.to_bits() & !(size - 1)) + 1;
        Self { first, count: size - 2, next: 0, by_uid: HashMap::new(), taken: HashSet::new() }
    }

    /// The address of a Pod, stable until it is released. `None` if the range is exhausted.
    ///
    /// A released address is reused as late as possible: clients may still connect to it.
    pub(crate) fn allocate(&mut self, uid: &str) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_uid.get(uid) {
            return Some(*address);
        }
        for _ in 0..self.count {
            let address = Ipv4Addr::from_bits(self.first + self.next);
            self.next = (self.next + 1) % self.count;
            if self.taken.insert(address) {
                self.by_uid.insert(uid.to_owned(), address);
                return Some(address);
            }
        }
        None
    }

    /// Reserves an address that was allocated before a restart.
    pub(crate) fn reserve(&mut self, uid: &str, address: Ipv4Addr) {
        if self.taken.insert(address) {
            self.by_uid.insert(uid.to_owned(), address);
            let after = address.to_bits().wrapping_sub(self.first).wrapping_add(1);
            self.next = self.next.max(after % self.count);
        }
    }

    pub(crate) fn release(&mut self, uid: &str) {
        if let Some(address) = self.by_uid.remove(uid) {
            self.taken.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Addresses {
        Addresses::new(Ipv4Addr::new(127, 9, 9, 4), 30)
    }

    #[test]
    fn a_pod_keeps_its_address_and_two_never_share_one() {
        let mut addresses = small();
        let first = addresses.allocate("a").unwrap();
        assert_eq!(first, Ipv4Addr::new(127, 9, 9, 5));
        assert_eq!(addresses.allocate("a"), Some(first));
        assert_eq!(addresses.allocate("b"), Some(Ipv4Addr::new(127, 9, 9, 6)));
        assert_eq!(addresses.allocate("c"), None);
        addresses.release("a");
        assert_eq!(addresses.allocate("c"), Some(first));
    }

    #[test]
    fn an_address_from_before_a_restart_is_not_given_away() {
        let mut addresses = small();
        addresses.reserve("old", Ipv4Addr::new(127, 9, 9, 5));
        assert_eq!(addresses.allocate("new"), Some(Ipv4Addr::new(127, 9, 9, 6)));
        assert_eq!(addresses.allocate("old"), Some(Ipv4Addr::new(127, 9, 9, 5)));
    }
}
