//! Allocates addresses of Services in a loopback network.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Api;
use crate::status_error::{Cause, StatusError};

/// Size of the Service network.
const ADDRESSES: u32 = 65_000;

/// Allocates the address of a Service, unless it has one, is headless, or has type ExternalName.
pub(super) fn allocate(api: &Api, service: &mut Value, old: Option<&Value>) -> Result<(), StatusError> {
    if !service["spec"].is_object() {
        return Ok(());
    }
    if service["status"].is_null() {
        service["status"] = json!({"loadBalancer": {}});
    }
    if service["spec"]["type"] == "ExternalName" {
        return Ok(());
    }
    let given = service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    let kept = old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or_default().to_owned();
    let address = match (given.as_str(), kept.as_str()) {
        ("None", _) => "None".to_owned(),
        ("", "") => next_free(api)?.to_string(),
        ("", kept) => kept.to_owned(),
        (given, kept) if given == kept => given.to_owned(),
        (given, "") => {
            if taken(api).contains(given) {
                return Err(refused(service, given, "provided IP is already allocated"));
            }
            if given.parse::<Ipv4Addr>().is_err() {
                return Err(refused(service, given, "must be a valid IP address"));
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

fn refused(service: &Value, address: &str, detail: &str) -> StatusError {
    let cause = Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: {address:?}: {detail}"),
        field: "spec.clusterIPs[0]".to_owned(),
    };
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    StatusError::invalid("Service", "", name, &[cause])
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
    let first = u32::from(api.options.service_addresses);
    let address = |place: u32| Ipv4Addr::from(first + place);
    api.allocate_service_address(ADDRESSES, |place| !taken.contains(&address(place).to_string()))
        .map(address)
        .ok_or_else(|| StatusError::internal("no free Service address"))
}
