//! Lists from memory: filter, sort, page.

use std::{cmp::Ordering, sync::Arc};

use observe::Key;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::IntoParams;

use crate::{
    error::{Answer, ApiError},
    kind::{Served, by_age},
    selector::Selector,
    wire::Pagination,
    world::World,
};

const DEFAULT_LIMIT: usize = 20;
const MOST: usize = 500;

/// What to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Part of the name, in any case.
    pub name: Option<String>,
    /// Phases, separated by commas.
    pub phase: Option<String>,
    /// Labels, as for `kubectl -l`.
    pub label_selector: Option<String>,
    /// Tasks on this Agent.
    pub agent: Option<String>,
    /// Tasks or Agents on this AgentTemplate.
    pub template: Option<String>,
    /// Tasks of this CronTask.
    pub crontask: Option<String>,
    /// Tasks with this reason.
    pub reason: Option<String>,
    /// Tasks that were stopped or not.
    pub stopped: Option<bool>,
    /// Agents that are ready or not.
    pub ready: Option<bool>,
    /// Most objects of the page.
    #[param(minimum = 1, maximum = 500, default = 20)]
    pub limit: Option<usize>,
    /// Objects before the page.
    #[param(minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// createdAt, name, phase or duration.
    #[param(inline)]
    pub sort_by: Option<SortBy>,
    /// asc or desc.
    #[param(inline)]
    pub sort_order: Option<SortOrder>,
}

/// What to sort by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SortBy {
    #[default]
    CreatedAt,
    Name,
    Phase,
    Duration,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortOrder {
    Asc,
    #[default]
    Desc,
}

/// A query that was read.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    name: Option<String>,
    phases: Vec<String>,
    selector: Selector,
    pub agent: Option<String>,
    pub template: Option<String>,
    pub crontask: Option<String>,
    pub reason: Option<String>,
    pub stopped: Option<bool>,
    pub ready: Option<bool>,
    limit: usize,
    offset: usize,
    sort_by: SortBy,
    sort_order: SortOrder,
}

impl Filter {
    /// Reads a query.
    pub fn read(query: ListQuery) -> Answer<Self> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MOST).contains(&limit) {
            return Err(ApiError::bad_parameter("limit", format!("limit is between 1 and {MOST}")));
        }
        Ok(Self {
            name: query.name.filter(|name| !name.is_empty()).map(|name| name.to_lowercase()),
            phases: list(query.phase.as_deref()),
            selector: Selector::parse(query.label_selector.as_deref().unwrap_or_default())?,
            agent: given(query.agent),
            template: given(query.template),
            crontask: given(query.crontask),
            reason: given(query.reason),
            stopped: query.stopped,
            ready: query.ready,
            limit,
            offset: query.offset.unwrap_or(0),
            sort_by: query.sort_by.unwrap_or_default(),
            sort_order: query.sort_order.unwrap_or_default(),
        })
    }

    /// Whether a phase is wanted.
    pub fn phase(&self, phase: impl Fn() -> String) -> bool {
        if self.phases.is_empty() {
            return true;
        }
        let phase = phase();
        self.phases.iter().any(|wanted| wanted.eq_ignore_ascii_case(&phase))
    }

    fn wants<K: Served>(&self, object: &K) -> bool {
        let meta = object.meta();
        let named = |wanted: &String| meta.name.as_ref().is_some_and(|name| name.contains(wanted.as_str()));
        self.name.as_ref().is_none_or(named) && self.selector.matches(meta.labels.as_ref()) && object.wanted(self)
    }

    fn order<K: Served>(&self, a: &K, b: &K) -> Ordering {
        let order = match self.sort_by {
            SortBy::CreatedAt => by_age(a, b),
            SortBy::Name => a.meta().name.cmp(&b.meta().name).then_with(|| by_age(a, b)),
            SortBy::Phase => a.phase().cmp(&b.phase()).then_with(|| by_age(a, b)),
            SortBy::Duration => a.took().cmp(&b.took()).then_with(|| by_age(a, b)),
        };
        match self.sort_order {
            SortOrder::Asc => order,
            SortOrder::Desc => order.reverse(),
        }
    }

    /// What decides most comparisons in this order. It is looked up once for each object: to look into two objects for each
    /// comparison would cost more than all the rest of a list.
    fn rank<K: Served>(&self, object: &K) -> i64 {
        let rank = match self.sort_by {
            SortBy::CreatedAt => object.meta().creation_timestamp.as_ref().map_or(i64::MIN, |time| time.0.as_second()),
            SortBy::Name | SortBy::Phase | SortBy::Duration => 0,
        };
        match self.sort_order {
            SortOrder::Asc => rank,
            SortOrder::Desc => rank.saturating_neg(),
        }
    }

    /// The page, and how many objects there are in all. `visible` tells what the caller may see.
    pub fn page<K: Served>(&self, world: &World, visible: impl Fn(&Key) -> bool) -> (Vec<Arc<K>>, usize) {
        let found = K::kept(world).filter(|key, object| visible(key) && self.wants(object));
        let mut found: Vec<(i64, Arc<K>)> = found.into_iter().map(|object| (self.rank(&*object), object)).collect();
        let order = |a: &(i64, Arc<K>), b: &(i64, Arc<K>)| a.0.cmp(&b.0).then_with(|| self.order::<K>(&a.1, &b.1));
        let total = found.len();
        let end = self.offset.saturating_add(self.limit);
        // Only what is shown has to be in order.
        if end < total {
            found.select_nth_unstable_by(end, order);
            found.truncate(end);
        }
        found.sort_unstable_by(order);
        (found.into_iter().skip(self.offset).map(|(_, object)| object).collect(), total)
    }

    /// The page as the wire has it.
    pub fn answer<K: Served>(&self, world: &World, visible: impl Fn(&Key) -> bool) -> Answer<Value> {
        let (page, total) = self.page::<K>(world, visible);
        let objects =
            page.iter().map(|object| serde_json::to_value(object.short(world))).collect::<Result<Vec<_>, _>>();
        let objects = objects.map_err(|error| ApiError::internal("a list cannot be written", &error))?;
        let pagination = Pagination {
            limit: self.limit,
            offset: self.offset,
            total_count: total,
            has_more: self.offset.saturating_add(objects.len()) < total,
        };
        let pagination =
            serde_json::to_value(pagination).map_err(|error| ApiError::internal("a list cannot be written", &error))?;
        let mut body = Map::new();
        body.insert(K::LIST.to_owned(), objects.into());
        body.insert("total".to_owned(), total.into());
        body.insert("pagination".to_owned(), pagination);
        Ok(body.into())
    }
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The parts of a text between commas.
pub fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use api::Task;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_out_of_range_is_refused_not_bent() {
        for limit in [0, MOST + 1] {
            let query = ListQuery { limit: Some(limit), ..ListQuery::default() };
            assert_eq!(Filter::read(query).unwrap_err().fields[0].field, "limit");
        }
    }

    /// Ten thousand Tasks, a second apart.
    fn many() -> World {
        let world = World::new("x", |_| None);
        for index in 0..10_000_i64 {
            let created = jiff::Timestamp::from_second(1_700_000_000 + (index * 7919) % 10_000).unwrap();
            let task = json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
                "metadata": {"name": format!("task-{index}"), "namespace": format!("team-{}", index % 10),
                    "creationTimestamp": created.to_string(), "labels": {"team": "a"}},
                "spec": {"description": "do it", "agentRef": {"name": "dev"}},
                "status": {"phase": if index % 2 == 0 { "Completed" } else { "Running" }, "startTime": created.to_string()},
            });
            world.tasks.learn(serde_json::from_value::<Task>(task).unwrap());
        }
        world
    }

    #[test]
    fn pages_of_a_long_list_make_the_whole_list_in_order() {
        let world = many();
        let mut seen = Vec::new();
        for offset in (0..10_000).step_by(500) {
            let query = ListQuery { limit: Some(500), offset: Some(offset), ..ListQuery::default() };
            let (page, total) = Filter::read(query).unwrap().page::<Task>(&world, |_| true);
            assert_eq!(total, 10_000);
            seen.extend(page);
        }
        assert_eq!(seen.len(), 10_000);
        assert!(seen.windows(2).all(|pair| by_age(&*pair[0], &*pair[1]) == Ordering::Greater));
        let query = ListQuery { phase: Some("Running".to_owned()), ..ListQuery::default() };
        let (page, total) = Filter::read(query).unwrap().page::<Task>(&world, |key| key.namespace == "team-3");
        assert_eq!((page.len(), total), (20, 1000));
    }

    #[test]
    fn phases_are_a_list() {
        let query = ListQuery { phase: Some("Running, failed".to_owned()), ..ListQuery::default() };
        let filter = Filter::read(query).unwrap();
        let wants = |phase: &str| filter.phase(|| phase.to_owned());
        assert!(wants("Running") && wants("Failed") && !wants("Queued"));
    }
}
