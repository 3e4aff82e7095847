//! Live data: the watch cache, lists from it, the feed of changes, and logs.

pub(crate) mod cache;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod list;
pub(crate) mod logs;
