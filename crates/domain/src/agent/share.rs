//! Whether an Agent's share link is valid.

use api::{conditions::reasons, kinds::agent::Share};
use jiff::Timestamp;

/// Path of links on our server, without tokens. The public address of the server is not known here.
pub const PATH: &str = "/s/";

/// The state of a share link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareLink {
    /// There is no link: delete its Secret and the condition ShareReady.
    Off,
    /// The link is valid.
    Active {
        /// When it expires; `None` is never.
        until: Option<Timestamp>,
    },
    Expired,
    /// The link becomes valid when the Agent is ready.
    AgentNotReady {
        /// When it expires; `None` is never.
        until: Option<Timestamp>,
    },
}

impl ShareLink {
    pub fn of(share: Option<&Share>, agent_ready: bool, now: Timestamp) -> Self {
        let Some(share) = share.filter(|share| share.enabled) else { return Self::Off };
        let until = share.expires_at.as_ref().map(|time| time.0);
        match until {
            Some(until) if until <= now => Self::Expired,
            _ if agent_ready => Self::Active { until },
            _ => Self::AgentNotReady { until },
        }
    }

    pub fn is_active(self) -> bool {
        matches!(self, Self::Active { .. })
    }

    /// Reason of the condition ShareReady; `None` without a link.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::Active { .. } => Some(reasons::ACTIVE),
            Self::Expired => Some(reasons::EXPIRED),
            Self::AgentNotReady { .. } => Some(reasons::AGENT_NOT_READY),
        }
    }

    /// When the state changes without an event.
    pub fn next_wake(self) -> Option<Timestamp> {
        match self {
            Self::Active { until } | Self::AgentNotReady { until } => until,
            Self::Off | Self::Expired => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[track_caller]
    fn check(enabled: bool, expires: Option<i64>, ready: bool, now: i64, expected: ShareLink) {
        let time = |second| Timestamp::from_second(second).unwrap();
        let share = Share { enabled, expires_at: expires.map(|second| Time(time(second))), allowed_ips: None };
        assert_eq!(ShareLink::of(Some(&share), ready, time(now)), expected);
    }

    #[test]
    fn a_link_opens_while_it_is_on_the_agent_is_ready_and_its_time_has_not_come() {
        let until = Some(Timestamp::from_second(10).unwrap());
        check(false, None, true, 1, ShareLink::Off);
        check(true, None, true, 1, ShareLink::Active { until: None });
        check(true, Some(10), true, 9, ShareLink::Active { until });
        check(true, Some(10), true, 10, ShareLink::Expired);
        check(true, Some(10), false, 10, ShareLink::Expired);
        check(true, Some(10), false, 9, ShareLink::AgentNotReady { until });
        assert_eq!(ShareLink::of(None, true, Timestamp::UNIX_EPOCH), ShareLink::Off);
    }
}
