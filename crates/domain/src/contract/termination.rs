//! How much of a termination message a node keeps.

/// Bytes of the message of one container.
pub const MOST_BYTES: usize = 4096;
/// Bytes of the messages of all containers of a Pod, which share them equally.
const OF_ALL: usize = 12 << 10;
/// Containers that others add to a Pod while it is created, such as those of a service mesh.
const OF_OTHERS: usize = 2;

/// Bytes that a node keeps of the message of each of so many containers, init containers included. It cuts the rest off.
pub fn kept(containers: usize) -> usize {
    (OF_ALL / containers.max(1)).min(MOST_BYTES)
}

/// Bytes of a report in a Pod for which we make so many containers: it is worthless if it is cut.
pub fn report_bytes(containers: usize) -> usize {
    kept(containers + OF_OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fits_beside_the_containers_of_others() {
        assert_eq!([1, 3, 4, 6].map(kept), [4096, 4096, 3072, 2048]);
        assert_eq!([0, 1, 2, 6].map(report_bytes), [4096, 4096, 3072, 1536]);
    }
}
