//! Parts of specs that are described once, under the names of their types, and referenced wherever a definition repeats
//! them.

use api::{context, kinds, refs, run, tools, workload};
use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1 as meta};
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::{
    bodies::{plain, reference},
    tidy::without_null,
};

/// Schemas and their names.
pub struct Pieces(Vec<(String, Value)>);

fn piece<T: JsonSchema>() -> (String, Value) {
    let mut schema = api::piece::<T>();
    plain(&mut schema);
    without_null(&mut schema);
    let name = T::schema_name();
    // Kubernetes' own have long names, such as io.k8s.api.core.v1.EnvVar.
    let name = name.rsplit('.').next().unwrap_or_default();
    (name.to_owned(), schema)
}

impl Pieces {
    /// The parts of our kinds' specs that get a name.
    pub fn of_specs() -> Self {
        Self(vec![
            piece::<api::TaskSpec>(),
            piece::<context::ConfigMapContext>(),
            piece::<context::ContextItem>(),
            piece::<context::ContextType>(),
            piece::<context::GitContext>(),
            piece::<context::GitSkillSource>(),
            piece::<context::GitSync>(),
            piece::<context::PluginSpec>(),
            piece::<context::SkillSource>(),
            piece::<context::UrlContext>(),
            piece::<core::EnvVar>(),
            piece::<core::Probe>(),
            piece::<core::ResourceRequirements>(),
            piece::<kinds::agent_workflow::Step>(),
            piece::<kinds::agent_workflow::ContainerStep>(),
            piece::<kinds::config::Cleanup>(),
            piece::<kinds::config::Defaults>(),
            piece::<kinds::config::ImageBuilding>(),
            piece::<kinds::config::Observability>(),
            piece::<kinds::config::SystemImage>(),
            piece::<kinds::cron_task::ConcurrencyPolicy>(),
            piece::<kinds::cron_task::TaskTemplate>(),
            piece::<kinds::registry::ImageMetadata>(),
            piece::<kinds::registry::RequiredCredential>(),
            piece::<kinds::registry::SkillMetadata>(),
            piece::<meta::LabelSelector>(),
            piece::<refs::AllowedNamespaces>(),
            piece::<refs::ConfigMapKeyRef>(),
            piece::<refs::HeaderFromSecret>(),
            piece::<refs::LocalRef>(),
            piece::<refs::ObjectRef>(),
            piece::<refs::SecretKeyRef>(),
            piece::<refs::ServiceRef>(),
            piece::<refs::Tls>(),
            piece::<run::Approval>(),
            piece::<run::Artifact>(),
            piece::<run::Budget>(),
            piece::<run::RunBudget>(),
            piece::<run::Cache>(),
            piece::<run::Dependency>(),
            piece::<run::DependencyCondition>(),
            piece::<run::Input>(),
            piece::<run::Retry>(),
            piece::<run::SideService>(),
            piece::<run::Workspace>(),
            piece::<tools::ToolBinding>(),
            piece::<tools::ToolKind>(),
            piece::<tools::ToolRef>(),
            piece::<workload::CaBundle>(),
            piece::<workload::CredentialSecretRef>(),
            piece::<workload::ExtraPort>(),
            piece::<workload::ImageBuild>(),
            piece::<workload::NetworkPolicy>(),
            piece::<workload::Persistence>(),
            piece::<workload::Proxy>(),
            piece::<workload::Quota>(),
            piece::<workload::Standby>(),
        ])
    }

    /// Replaces the parts inside `schema`, but not `schema` itself, by references.
    pub fn name_within(&self, schema: &mut Value) {
        let Value::Object(schema) = schema else { return };
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for property in properties.values_mut() {
                self.name(property);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get_mut(key) {
                self.name(inner);
            }
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = schema.get_mut(key) {
                for choice in choices {
                    self.name(choice);
                }
            }
        }
    }

    /// The schemas, by name.
    pub fn into_schemas(self) -> Map<String, Value> {
        let named = |(name, schema): &(String, Value)| {
            let mut schema = schema.clone();
            self.name_within(&mut schema);
            (name.clone(), schema)
        };
        self.0.iter().map(named).collect()
    }

    fn name(&self, schema: &mut Value) {
        match self.0.iter().find(|(_, piece)| is_same(piece, schema)) {
            Some((name, _)) => {
                let mut named = reference(name);
                if let Some(description) = schema.get("description") {
                    named["description"] = description.clone();
                }
                *schema = named;
            }
            None => self.name_within(schema),
        }
    }
}

/// Whether two schemas accept the same values. Descriptions are ignored: they differ wherever a part is used.
fn is_same(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return false };
    let described = |schema: &Map<String, Value>| usize::from(schema.contains_key("description"));
    one.len() - described(one) == other.len() - described(other)
        && one.iter().all(|(key, value)| key == "description" || other.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_piece_gets_its_name_wherever_it_stands_and_keeps_what_it_is_for() {
        let pieces = Pieces(vec![
            ("Outer".to_owned(), json!({"type": "object", "properties": {"inner": {"type": "boolean"}}})),
            ("Inner".to_owned(), json!({"type": "boolean", "description": "any"})),
        ]);
        let mut schema = json!({"type": "object", "properties": {
            "one": {"type": "object", "properties": {"inner": {"type": "boolean"}}, "description": "the one"},
            "many": {"type": "array", "items": {"type": "boolean"}},
            "other": {"type": "string"},
        }});
        pieces.name_within(&mut schema);
        assert_eq!(
            schema["properties"],
            json!({
                "one": {"$ref": "#/components/schemas/Outer", "description": "the one"},
                "many": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
                "other": {"type": "string"},
            })
        );
        assert_eq!(
            pieces.into_schemas()["Outer"]["properties"]["inner"],
            json!({"$ref": "#/components/schemas/Inner"})
        );
    }
}
