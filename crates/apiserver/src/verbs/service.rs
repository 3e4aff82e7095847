//! Allocates addresses of Services in a loopback network.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Api;
use crate::status_error::{Cause, StatusError};

/// Length of the prefix of the Service network.
const PREFIX: u32 = 20;

/// Allocates the address of a Service, unless it has one, is headless, or has type ExternalName.
pub(super) fn allocate(api: &Api, service: &mut Value, old: Option<&Value>) -> Result<(), StatusError> {
    if !service["spec"].is_object() {
        return Ok(());
    }
    if service["status"].is_null() {
        service["status"] = json!({"loadBalancer": {}});
    }
    let text = |service: &Value, field: &str| service["spec"][field].as_str().unwrap_or_default().to_owned();
    let given = text(service, "clusterIP");
    // A Service of type ExternalName has no address, whatever an older version of this server stored.
    let old = old.filter(|old| old["spec"]["type"] != "ExternalName");
    let kept = old.map(|old| text(old, "clusterIP")).unwrap_or_default();
    if service["spec"]["type"] == "ExternalName" {
        return without_address(service, &given, &kept);
    }
    let address = match (given.as_str(), kept.as_str()) {
        ("None", _) => "None".to_owned(),
        ("", "") => next_free(api)?.to_string(),
        ("", kept) => kept.to_owned(),
        (given, kept) if given == kept => given.to_owned(),
        (given, "") => {
            let Ok(address) = given.parse::<Ipv4Addr>() else {
                return Err(refused(service, given, "must be a valid IP address"));
            };
            let network = Network::of(api);
            if !network.contains(address) {
                let range = format!("provided IP is not in the valid range. The range of valid IPs is {network}");
                return Err(not_allocated(service, given, &range));
            }
            if taken(api).contains(given) {
                return Err(not_allocated(service, given, "provided IP is already allocated"));
            }
            given.to_owned()
        }
        (given, _) => return Err(refused(service, given, "field is immutable")),
    };
    let spec = &mut service["spec"];
    spec["clusterIPs"] = json!([address]);
    spec["clusterIP"] = json!(address);
    // A headless Service without a selector accepts all address families.
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let open = address == "None" && !selects;
    if spec["ipFamilies"].is_null() {
        spec["ipFamilies"] = if open { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
    }
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = json!(if open { "RequireDualStack" } else { "SingleStack" });
    }
    Ok(())
}

/// A Service that becomes one of type ExternalName gives its address back. No address can be set on one.
fn without_address(service: &mut Value, given: &str, kept: &str) -> Result<(), StatusError> {
    let given = if given.is_empty() { service["spec"]["clusterIPs"][0].as_str().unwrap_or_default() } else { given };
    if !given.is_empty() && given != kept {
        let message = "Forbidden: may not be set for ExternalName services".to_owned();
        return Err(invalid(service, "FieldValueForbidden", message, "spec.clusterIPs"));
    }
    if let Some(spec) = service["spec"].as_object_mut() {
        spec.shift_remove("clusterIP");
        spec.shift_remove("clusterIPs");
    }
    Ok(())
}

fn refused(service: &Value, address: &str, detail: &str) -> StatusError {
    let message = format!("Invalid value: {address:?}: {detail}");
    invalid(service, "FieldValueInvalid", message, "spec.clusterIPs[0]")
}

fn not_allocated(service: &Value, address: &str, detail: &str) -> StatusError {
    let message = format!("Invalid value: [{address:?}]: failed to allocate IP {address}: {detail}");
    invalid(service, "FieldValueInvalid", message, "spec.clusterIPs")
}

fn invalid(service: &Value, reason: &str, message: String, field: &str) -> StatusError {
    let cause = Cause { reason: reason.to_owned(), message, field: field.to_owned() };
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    StatusError::invalid("Service", "", name, &[cause])
}

/// The network of all Service addresses.
struct Network {
    /// Its first address, which no Service gets.
    base: u32,
}

impl Network {
    fn of(api: &Api) -> Self {
        Self { base: u32::from(api.options.service_addresses) & (u32::MAX << (u32::BITS - PREFIX)) }
    }

    /// The number of addresses without the first and the last.
    const SIZE: u32 = (1 << (u32::BITS - PREFIX)) - 2;

    fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address).checked_sub(self.base).is_some_and(|place| (1..=Self::SIZE).contains(&place))
    }

    /// The address at an index below [`Self::SIZE`].
    fn address(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1 + index)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{PREFIX}", Ipv4Addr::from(self.base))
    }
}

fn taken(api: &Api) -> HashSet<String> {
    #[derive(Deserialize)]
    struct Service {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(rename = "clusterIP")]
        address: String,
    }
    let services = api.store.list("services", "").items;
    // A headless Service has no address.
    let address = |bytes: &[u8]| Some(serde_json::from_slice::<Service>(bytes).ok()?.spec.address);
    services.iter().filter_map(|(_, entry)| address(&entry.bytes)).collect()
}

fn next_free(api: &Api) -> Result<Ipv4Addr, StatusError> {
    let taken = taken(api);
    let network = Network::of(api);
    api.allocate_service_address(Network::SIZE, |index| !taken.contains(&network.address(index).to_string()))
        .map(|index| network.address(index))
        .ok_or_else(|| StatusError::internal("failed to allocate a serviceIP: range is full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_has_its_addresses_except_the_first_and_the_last() {
        let network = Network { base: u32::from(Ipv4Addr::new(127, 96, 16, 0)) };
        assert_eq!(network.to_string(), "127.96.16.0/20");
        let check = |address: [u8; 4], expected: bool| {
            assert_eq!(network.contains(address.into()), expected, "{address:?}");
        };
        check([127, 96, 16, 0], false);
        check([127, 96, 16, 1], true);
        check([127, 96, 31, 254], true);
        check([127, 96, 31, 255], false);
        check([127, 96, 32, 1], false);
        check([127, 96, 15, 255], false);
        check([127, 0, 0, 1], false);
        check([10, 0, 0, 1], false);
        check([255, 255, 255, 255], false);
        assert_eq!(network.address(0), Ipv4Addr::new(127, 96, 16, 1));
        assert_eq!(network.address(Network::SIZE - 1), Ipv4Addr::new(127, 96, 31, 254));
    }
}
