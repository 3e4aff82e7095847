//! How a volume claim of an Agent changes with `persistence`. It holds data, so it is never replaced.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use units::Quantity;

/// What to do with an existing claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// The claim is as wanted.
    Nothing,
    /// Request this size.
    Grow(String),
    /// The claim cannot be changed; a sentence with the reason.
    Impossible(String),
}

/// Compares the claim `live` with `wanted`. Fields that `wanted` does not set stay as they are.
pub fn claim_change(live: &PersistentVolumeClaim, wanted: &PersistentVolumeClaim) -> ClaimChange {
    let name = live.metadata.name.as_deref().unwrap_or_default();
    let keeps = format!("claim '{name}' holds data, so it stays as it is");
    if let (Some(has), Some(class)) = (class(live), class(wanted))
        && has != class
    {
        let what = format!("it has storage class '{has}' and cannot change to '{class}'");
        return ClaimChange::Impossible(format!("{keeps}: {what}; take the change back, or delete the claim"));
    }
    let (Some(has), Some(size)) = (size(live), size(wanted)) else { return ClaimChange::Nothing };
    match (has.parse::<Quantity>(), size.parse::<Quantity>()) {
        (Ok(now), Ok(then)) if then > now => ClaimChange::Grow(size.to_owned()),
        (Ok(now), Ok(then)) if then < now => {
            let what = format!("it has {has} and cannot shrink to {size}");
            ClaimChange::Impossible(format!("{keeps}: {what}; take the change back, or delete the claim"))
        }
        _ => ClaimChange::Nothing,
    }
}

fn class(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref()
}

/// Requested size.
fn size(claim: &PersistentVolumeClaim) -> Option<&str> {
    Some(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")?.0.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(size: &str, class: Option<&str>) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a-server-sessions"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(live: (&str, Option<&str>), wanted: (&str, Option<&str>), expected: &ClaimChange) {
        assert_eq!(claim_change(&claim(live.0, live.1), &claim(wanted.0, wanted.1)), *expected);
    }

    #[test]
    fn a_claim_grows_and_does_nothing_else() {
        use ClaimChange::{Grow, Impossible, Nothing};
        check(("1Gi", None), ("1024Mi", None), &Nothing);
        check(("1Gi", None), ("2Gi", None), &Grow("2Gi".to_owned()));
        let refused = |what: &str| {
            Impossible(format!(
                "claim 'a-server-sessions' holds data, so it stays as it is: {what}; take the change back, or delete the claim"
            ))
        };
        check(("2Gi", None), ("1Gi", None), &refused("it has 2Gi and cannot shrink to 1Gi"));
        // The cluster's default was used; the user set none.
        check(("1Gi", Some("standard")), ("1Gi", None), &Nothing);
        let other = refused("it has storage class 'standard' and cannot change to 'ssd'");
        check(("1Gi", Some("standard")), ("2Gi", Some("ssd")), &other);
    }
}
