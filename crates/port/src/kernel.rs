//! The version of the running kernel, for features that no system call announces.

/// Returns whether the kernel segments UDP super-packets that carry a `virtio_net_hdr`: from Linux 6.2.
pub fn segments_udp() -> bool {
    version(&rustix::system::uname().release().to_string_lossy()) >= (6, 2)
}

/// Returns the first two numbers of a release such as `6.18.4-generic`; 0 for a missing one.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number() {
        assert_eq!(version("6.18.44-fc-v669"), (6, 18));
        assert_eq!(version("6.2"), (6, 2));
        assert_eq!(version("5.14.0-570.el9.x86_64"), (5, 14));
        assert_eq!(version("7-rc1"), (7, 0));
        assert_eq!(version(""), (0, 0));
        assert!(version("6.10.1") > version("6.2.0"));
    }
}
