//! A killed process leaves nothing behind.
#![allow(clippy::unwrap_used)]

mod up;

use std::time::Duration;

use up::Up;

#[test]
fn sigkill_ends_every_process_and_removes_the_directory() {
    let mut up = Up::start(&[]);
    assert_eq!(up.processes().len(), 4, "etcd, API server, controller manager, scheduler");
    up.kill();
    up.is_gone_within(Duration::from_secs(15));
}
