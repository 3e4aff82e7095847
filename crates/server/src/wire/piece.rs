//! Pieces of our kinds inside bodies: described once, where the kinds are defined.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};
use utoipa::openapi::{
    ObjectBuilder, Ref, RefOr, Schema,
    schema::{ArrayBuilder, SchemaType, Type},
};

/// A piece of a kind.
pub fn piece<T: JsonSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::schema_name()))
}

/// A list of pieces of a kind.
pub fn pieces<T: JsonSchema>() -> RefOr<Schema> {
    ArrayBuilder::new().items(piece::<T>()).into()
}

/// A schema that accepts any JSON.
pub fn anything() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).into()
}

/// A string enum.
pub fn one_of<const N: usize>(values: [&str; N]) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).into()
}

/// The schemas of explanations and of the pieces of statuses that bodies refer to, by name. Pieces of specs are the
/// kinds' own (`openapi/pieces.rs`).
pub fn definitions() -> Map<String, Value> {
    use api::kinds::{agent, registry, task};
    use domain::explain;
    fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
        let schema = generator.subschema_for::<T>();
        // Definitions contain no references, so the types of rules are written out there. Here they have names.
        if T::inline_schema() {
            generator.definitions_mut().insert(T::schema_name().into_owned(), schema.to_value());
        }
    }
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator();
    for add in [
        add::<api::TaskPhase>,
        add::<agent::AgentPhase>,
        add::<agent::GitSyncStatus>,
        add::<agent::ToolStatus>,
        add::<registry::AssetPhase>,
        add::<registry::RegistrySummary>,
        add::<task::CacheStatus>,
        add::<task::PublishedStatus>,
        add::<task::Session>,
        add::<task::TokenUsage>,
        add::<task::Usage>,
        add::<explain::TaskExplanation>,
        add::<explain::AgentExplanation>,
        add::<explain::CronTaskExplanation>,
    ] {
        add(&mut generator);
    }
    generator.take_definitions(true)
}
