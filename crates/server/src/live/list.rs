//! Lists from memory: filter, sort, page.

use std::{cmp::Ordering, sync::Arc};

use objects::selector::LabelSelector;
use observe::Key;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};
use utoipa::IntoParams;

use crate::{
    error::{Answer, ApiError},
    live::cache::Caches,
    routes::kind::{Served, by_age},
    wire::Pagination,
};

const DEFAULT_LIMIT: usize = 20;
const MOST: usize = 500;

/// Filters, order and page of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Part of the name, case-insensitive.
    pub name: Option<String>,
    /// Part of the name or, for Tasks, of the title; case-insensitive.
    pub search: Option<String>,
    /// Phases, separated by commas. Tasks that were stopped, by a person or by a timeout, have the phase Stopped here;
    /// Completed are those that succeeded.
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
    /// Only Agents that are ready, or only others.
    pub ready: Option<bool>,
    /// Page size.
    #[param(minimum = 1, maximum = 500, default = 20)]
    pub limit: Option<usize>,
    /// Number of objects to skip.
    #[param(minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// createdAt, name, phase or duration.
    #[param(inline)]
    pub sort_by: Option<SortBy>,
    /// asc or desc.
    #[param(inline)]
    pub sort_order: Option<SortOrder>,
}

/// Sort key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SortBy {
    #[default]
    CreatedAt,
    Name,
    Phase,
    Duration,
}

/// Sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortOrder {
    Asc,
    #[default]
    Desc,
}

/// A validated query.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    name: Option<String>,
    search: Option<String>,
    phases: Vec<String>,
    selector: LabelSelector,
    pub agent: Option<String>,
    pub template: Option<String>,
    pub crontask: Option<String>,
    pub reason: Option<String>,
    pub ready: Option<bool>,
    limit: usize,
    offset: usize,
    sort_by: SortBy,
    sort_order: SortOrder,
}

impl Filter {
    /// Validates a query.
    pub fn read(query: ListQuery) -> Answer<Self> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MOST).contains(&limit) {
            return Err(ApiError::bad_parameter("limit", format!("limit is between 1 and {MOST}")));
        }
        Ok(Self {
            name: query.name.filter(|name| !name.is_empty()).map(|name| name.to_lowercase()),
            search: given(query.search).map(|text| text.to_lowercase()),
            phases: list(query.phase.as_deref()),
            selector: LabelSelector::parse(query.label_selector.as_deref().unwrap_or_default())
                .map_err(|error| ApiError::bad_parameter("labelSelector", error.to_string()))?,
            agent: given(query.agent),
            template: given(query.template),
            crontask: given(query.crontask),
            reason: given(query.reason),
            ready: query.ready,
            limit,
            offset: query.offset.unwrap_or(0),
            sort_by: query.sort_by.unwrap_or_default(),
            sort_order: query.sort_order.unwrap_or_default(),
        })
    }

    /// Whether the filter accepts a phase.
    pub fn phase(&self, phase: &str) -> bool {
        self.phases.is_empty() || self.phases.iter().any(|wanted| wanted.eq_ignore_ascii_case(phase))
    }

    fn wants<K: Served>(&self, object: &K) -> bool {
        let meta = object.meta();
        let named = |wanted: &String| meta.name.as_ref().is_some_and(|name| name.contains(wanted.as_str()));
        let label = |key: &str| meta.labels.as_ref()?.get(key).map(String::as_str);
        let found = |text: &String| is_found(object, text).is_some();
        self.name.as_ref().is_none_or(named)
            && self.search.as_ref().is_none_or(found)
            && self.selector.selects(label)
            && object.wanted(self)
    }

    fn rank<K: Served>(&self, object: &K) -> Rank {
        let meta = object.meta();
        let created = || meta.creation_timestamp.as_ref().map_or(i64::MIN, |time| time.0.as_second());
        let (first, created) = match self.sort_by {
            SortBy::CreatedAt => (First::Same, created()),
            SortBy::Name => (First::Same, 0),
            SortBy::Phase => (First::Phase(object.phase()), created()),
            SortBy::Duration => (First::Took(object.took()), created()),
        };
        Rank { first, created, name: beginning(meta.name.as_deref().unwrap_or_default()) }
    }

    fn order<K: Served>(&self, a: &(Rank, &Arc<K>), b: &(Rank, &Arc<K>)) -> Ordering {
        let (of_a, of_b) = (&**a.1, &**b.1);
        let order = a.0.cmp(&b.0).then_with(|| match self.sort_by {
            SortBy::Name => of_a.meta().name.cmp(&of_b.meta().name).then_with(|| by_age(of_a, of_b)),
            SortBy::CreatedAt | SortBy::Phase | SortBy::Duration => by_age(of_a, of_b),
        });
        match self.sort_order {
            SortOrder::Asc => order,
            SortOrder::Desc => order.reverse(),
        }
    }

    /// The page, and the number of objects in the whole list. `visible` is what the caller may see.
    pub fn page<K: Served>(&self, caches: &Caches, visible: impl Fn(&Key) -> bool) -> (Vec<Arc<K>>, usize) {
        K::cache(caches).scan(|objects| {
            let found = objects.filter(|(key, object)| visible(key) && self.wants(&***object));
            let mut found: Vec<_> = found.map(|(_, object)| (self.rank(&**object), object)).collect();
            let total = found.len();
            let end = self.offset.saturating_add(self.limit);
            // Only the requested page must be sorted.
            if end < total {
                found.select_nth_unstable_by(end, |a, b| self.order(a, b));
                found.truncate(end);
            }
            found.sort_unstable_by(|a, b| self.order(a, b));
            (found.into_iter().skip(self.offset).map(|(_, object)| Arc::clone(object)).collect(), total)
        })
    }

    /// The page as a response.
    pub fn answer<K: Served>(&self, caches: &Caches, visible: impl Fn(&Key) -> bool) -> Page<K> {
        let (objects, total) = self.page::<K>(caches, visible);
        let pagination = Pagination {
            limit: self.limit,
            offset: self.offset,
            total_count: total,
            has_more: self.offset.saturating_add(objects.len()) < total,
        };
        Page { objects: objects.iter().map(|object| object.short(caches)).collect(), pagination }
    }
}

/// A sort key, computed once for each object, that decides most comparisons: comparing whole objects each time would
/// cost more than the rest of a list. Objects of equal rank are compared whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    first: First,
    /// In seconds.
    created: i64,
    /// The beginning of the name.
    name: u128,
}

/// The sort key besides age and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum First {
    Same,
    Phase(&'static str),
    Took(Option<i64>),
}

/// The first bytes of a name as a number with the same order.
fn beginning(name: &str) -> u128 {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u128::from_be_bytes(bytes)
}

/// A page of a list.
pub struct Page<K: Served> {
    objects: Vec<K::Response>,
    pagination: Pagination,
}

impl<K: Served> Serialize for Page<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut page = serializer.serialize_map(Some(3))?;
        page.serialize_entry(K::LIST, &self.objects)?;
        page.serialize_entry("total", &self.pagination.total_count)?;
        page.serialize_entry("pagination", &self.pagination)?;
        page.end()
    }
}

/// How well an object matches a lowercase search text, the best match first; `None` if neither its name nor its title
/// contains the text.
pub fn is_found<K: Served>(object: &K, text: &str) -> Option<Match> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    if name == text {
        return Some(Match::Name);
    }
    if name.starts_with(text) {
        return Some(Match::BeginningOfName);
    }
    if name.contains(text) {
        return Some(Match::PartOfName);
    }
    object.title().filter(|title| title.to_lowercase().contains(text)).map(|_| Match::Title)
}

/// Where a search text was found; the best match is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    Name,
    BeginningOfName,
    PartOfName,
    Title,
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Splits a text at commas.
pub fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use api::Task;
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_out_of_range_is_refused_not_bent() {
        for limit in [0, MOST + 1] {
            let query = ListQuery { limit: Some(limit), ..ListQuery::default() };
            assert_eq!(Filter::read(query).unwrap_err().fields[0].field, "limit");
        }
    }

    /// Ten thousand Tasks, ten in each second.
    fn many() -> Caches {
        let caches = Caches::new("x", |_| None);
        for index in 0..10_000_i64 {
            let created = jiff::Timestamp::from_second(1_700_000_000 + (index * 7919) % 1_000).unwrap();
            let task = json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
                "metadata": {"name": format!("task-{index}"), "namespace": format!("team-{}", index % 10),
                    "creationTimestamp": created.to_string(), "labels": {"team": "a"}},
                "spec": {"description": "do it", "agentRef": {"name": "dev"}},
                "status": {"phase": if index % 2 == 0 { "Completed" } else { "Running" }, "startTime": created.to_string()},
            });
            caches.tasks.insert_written(serde_json::from_value::<Task>(task).unwrap());
        }
        caches
    }

    #[test]
    fn pages_of_a_long_list_make_the_whole_list_in_order() {
        let caches = many();
        let mut seen = Vec::new();
        for offset in (0..10_000).step_by(500) {
            let query = ListQuery { limit: Some(500), offset: Some(offset), ..ListQuery::default() };
            let (page, total) = Filter::read(query).unwrap().page::<Task>(&caches, |_| true);
            assert_eq!(total, 10_000);
            seen.extend(page);
        }
        assert_eq!(seen.len(), 10_000);
        assert!(seen.windows(2).all(|pair| by_age(&*pair[0], &*pair[1]) == Ordering::Greater));
        let query = ListQuery { phase: Some("Running".to_owned()), ..ListQuery::default() };
        let (page, total) = Filter::read(query).unwrap().page::<Task>(&caches, |key| key.namespace == "team-3");
        assert_eq!((page.len(), total), (20, 1000));
    }

    #[test]
    fn a_list_can_be_in_the_order_of_names_phases_and_durations() {
        let caches = many();
        let first = |sort_by, sort_order| {
            let query = ListQuery { sort_by: Some(sort_by), sort_order: Some(sort_order), ..ListQuery::default() };
            let (page, _) = Filter::read(query).unwrap().page::<Task>(&caches, |_| true);
            page.iter().map(|task| (task.name_any(), task.phase())).collect::<Vec<_>>()
        };
        let names: Vec<_> = first(SortBy::Name, SortOrder::Asc).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..4], ["task-0", "task-1", "task-10", "task-100"]);
        assert_eq!(first(SortBy::Name, SortOrder::Desc)[0].0, "task-9999");
        assert!(first(SortBy::Phase, SortOrder::Asc).iter().all(|(_, phase)| *phase == "Completed"));
        assert!(first(SortBy::Phase, SortOrder::Desc).iter().all(|(_, phase)| *phase == "Running"));
        // All still count from their start, so the oldest take longest; and those of one second take the same.
        let at = |name: &str| name.trim_start_matches("task-").parse::<i64>().unwrap() * 7919 % 1_000;
        assert!(first(SortBy::Duration, SortOrder::Desc).iter().all(|(name, _)| at(name) <= 1));
    }

    #[test]
    fn names_that_begin_alike_are_ordered_to_their_end() {
        let caches = Caches::new("x", |_| None);
        for name in ["a-name-of-many-letters-b", "a-name-of-many-letters-a", "a-name-of-many-letters-c"] {
            let mut task = Task::new(name, api::TaskSpec::default());
            task.metadata.namespace = Some("n".to_owned());
            caches.tasks.insert_written(task);
        }
        let query = ListQuery { sort_by: Some(SortBy::Name), limit: Some(2), ..ListQuery::default() };
        let (page, _) = Filter::read(query).unwrap().page::<Task>(&caches, |_| true);
        let names: Vec<_> = page.iter().map(|task| task.name_any()).collect();
        assert_eq!(names, ["a-name-of-many-letters-c", "a-name-of-many-letters-b"]);
    }

    #[test]
    fn phases_are_a_list() {
        let query = ListQuery { phase: Some("Running, failed".to_owned()), ..ListQuery::default() };
        let filter = Filter::read(query).unwrap();
        assert!(filter.phase("Running") && filter.phase("Failed") && !filter.phase("Queued"));
    }
}
