//! Sets of field paths, the content of `fieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;

/// A set of paths. Owning a field does not imply owning the fields below it, nor the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<Element, Node>);

/// Invariant: a node is owned, or a node below it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    owned: bool,
    below: Fields,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }
}

impl Fields {
    /// The set of these paths of plain fields, such as `["metadata", "name"]`.
    pub fn of<const N: usize>(paths: [&[&str]; N]) -> Self {
        let mut fields = Self::default();
        for path in paths {
            fields.insert(&path.iter().map(|name| Element::field(*name)).collect::<Vec<_>>());
        }
        fields
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path. The empty path is ignored: an object as a whole is not owned.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.0.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.owned = true;
        } else {
            node.below.insert(rest);
        }
    }

    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.0.get(first).is_some_and(|node| if rest.is_empty() { node.owned } else { node.below.contains(rest) })
    }

    /// The subset below one element, without the element itself.
    pub(super) fn below(&self, element: &Element) -> Option<&Self> {
        self.0.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The first elements of all paths, each with whether it is in the set itself, and the subset below it.
    pub(super) fn elements(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.0.iter().map(|(element, node)| (element, node.owned, &node.below))
    }

    /// Adds an element with the subset below it, unless both are empty.
    pub(super) fn put(&mut self, element: Element, owned: bool, below: Self) {
        let node = Node { owned, below };
        if !node.is_empty() {
            self.0.insert(element, node);
        }
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (element, node) in &other.0 {
            let mine = all.0.entry(element.clone()).or_default();
            mine.owned |= node.owned;
            mine.below = mine.below.union(&node.below);
        }
        all
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, node) in &self.0 {
            if let Some(theirs) = other.0.get(element) {
                both.put(element.clone(), node.owned && theirs.owned, node.below.intersection(&theirs.below));
            }
        }
        both
    }

    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (element, node) in &self.0 {
            match other.0.get(element) {
                Some(theirs) => {
                    rest.put(element.clone(), node.owned && !theirs.owned, node.below.difference(&theirs.below));
                }
                None => rest.put(element.clone(), node.owned, node.below.clone()),
            }
        }
        rest
    }

    /// Paths of this set that are neither in the other nor below a path of the other.
    #[must_use]
    pub fn outside(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (element, node) in &self.0 {
            match other.0.get(element) {
                Some(theirs) if theirs.owned => {}
                Some(theirs) => rest.put(element.clone(), node.owned, node.below.outside(&theirs.below)),
                None => rest.put(element.clone(), node.owned, node.below.clone()),
            }
        }
        rest
    }

    /// Paths that are not a prefix of another path of the set.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut leaves = Self::default();
        for (element, node) in &self.0 {
            leaves.put(element.clone(), node.owned && node.below.is_empty(), node.below.leaves());
        }
        leaves
    }

    /// All paths in the order in which conflicts are listed: each level before the levels below it.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for (element, node) in &self.0 {
            if node.owned {
                prefix.push(element.clone());
                paths.push(prefix.clone());
                prefix.pop();
            }
        }
        for (element, node) in &self.0 {
            prefix.push(element.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (element, node) in &self.0 {
            let mut below = node.below.to_json();
            if node.owned
                && !node.below.is_empty()
                && let Value::Object(inside) = &mut below
            {
                inside.shift_insert(0, ".".to_owned(), Value::Object(Map::new()));
            }
            object.insert(element.encoded(), below);
        }
        Value::Object(object)
    }

    /// Parses `fieldsV1`. The error names the invalid key.
    pub fn from_json(json: &Value) -> Result<Self, String> {
        Self::read(json).map(|(fields, _)| fields)
    }

    /// The set, and whether the root itself is in it.
    fn read(json: &Value) -> Result<(Self, bool), String> {
        let Value::Object(object) = json else { return Err(format!("expected an object, found {json}")) };
        let (mut fields, mut itself) = (Self::default(), false);
        for (key, inside) in object {
            if key == "." {
                itself = true;
            } else if let Some(element) = Element::decoded(key)? {
                let (below, owned) = Self::read(inside)?;
                fields.put(element, owned, below);
            }
        }
        itself |= fields.is_empty();
        Ok((fields, itself))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(json: Value) -> Fields {
        Fields::from_json(&json).unwrap()
    }

    #[test]
    fn every_kind_of_element_survives_the_way_to_json_and_back() {
        let original = json!({
            "f:a": {".": {}, "f:b": {}, "k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}},
            "f:set": {"v:\"one\"": {}, "v:2": {}, "v:true": {}},
            "f:list": {"i:0": {}},
        });
        assert_eq!(
            fields(original.clone()).to_json().to_string(),
            json!({
                "f:a": {".": {}, "f:b": {}, "k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}},
                "f:list": {"i:0": {}},
                "f:set": {"v:2": {}, "v:\"one\"": {}, "v:true": {}},
            })
            .to_string()
        );
    }

    #[test]
    fn keys_of_an_item_are_sorted_by_name_and_escaped_like_go_does() {
        let read = fields(json!({"k:{\"protocol\":\"TCP\",\"port\":80}": {}, "v:\"a<b\"": {}}));
        assert_eq!(read.to_json(), json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {}, "v:\"a\\u003cb\"": {}}));
    }

    #[test]
    fn unknown_kinds_of_elements_are_dropped_and_broken_ones_refused() {
        assert!(fields(json!({"x:new": {"f:a": {}}})).is_empty());
        assert!(Fields::from_json(&json!({"k:nonsense": {}})).is_err());
        assert!(Fields::from_json(&json!({"no": {}})).is_err());
    }

    #[test]
    fn set_algebra_distinguishes_a_field_from_those_below_it() {
        let both = fields(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let inner = fields(json!({"f:a": {"f:b": {}}}));
        let outer = fields(json!({"f:a": {}}));
        assert_eq!(both.difference(&inner).to_json(), json!({"f:a": {}, "f:c": {}}));
        assert_eq!(both.difference(&outer).to_json(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert_eq!(both.outside(&outer).to_json(), json!({"f:c": {}}));
        assert_eq!(both.outside(&inner).to_json(), json!({"f:a": {}, "f:c": {}}));
        assert_eq!(both.intersection(&inner), inner);
        assert_eq!(inner.union(&outer).to_json(), json!({"f:a": {".": {}, "f:b": {}}}));
        assert_eq!(both.leaves().to_json(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert!(inner.difference(&both).is_empty());
    }

    #[test]
    fn paths_of_a_level_come_before_those_below_it() {
        let set = fields(json!({"f:a": {"f:z": {}}, "f:b": {}}));
        let printed: Vec<String> = set.paths().iter().map(|path| super::super::element::printed(path)).collect();
        assert_eq!(printed, [".b", ".a.z"]);
    }
}
