//! Equal copies: when everything is quiet, every server shows the same tree.
//!
//! What must never enter: which of two different copies is right.

use super::violation::Violation;
use crate::survey::Survey;

const PROMISE: &str = "equal copies";

/// The maximum number of differences that are listed; more are only counted.
const NAMED_MAX: usize = 12;

pub(super) fn check(surveys: &[Survey]) -> Vec<Violation> {
    let Some((first, others)) = surveys.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .flat_map(|other| differences(first, other))
        .collect()
}

fn differences(first: &Survey, other: &Survey) -> Vec<Violation> {
    let sites = format!("sites {} and {}", first.site, other.site);
    let mut found = Vec::new();
    for (path, here) in &first.objects {
        match other.objects.get(path) {
            None => found.push(format!("/{path} is only at site {}", first.site)),
            Some(there) if here.attributes != there.attributes => found.push(format!(
                "/{path} differs between {sites} in attributes: {} and {}",
                here.attributes, there.attributes
            )),
            Some(there) if here.digest != there.digest => {
                found.push(format!("/{path} differs between {sites} in content"));
            }
            Some(_) => {}
        }
    }
    let only_there = other
        .objects
        .keys()
        .filter(|path| !first.objects.contains_key(*path));
    found.extend(only_there.map(|path| format!("/{path} is only at site {}", other.site)));
    if found.len() > NAMED_MAX {
        let more = found.len() - NAMED_MAX;
        found.truncate(NAMED_MAX);
        found.push(format!("{more} more differences between {sites}"));
    }
    let broken = found.into_iter();
    broken
        .map(|what| Violation::in_the_end(PROMISE, what))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Object;

    fn with(objects: &[(&str, &str, &str)]) -> Survey {
        let object = |&(path, attributes, digest): &(&str, &str, &str)| {
            let object = Object {
                attributes: attributes.to_owned(),
                digest: Some(digest.to_owned()),
            };
            (path.to_owned(), object)
        };
        Survey {
            objects: objects.iter().map(object).collect(),
            ..Survey::default()
        }
    }

    #[test]
    fn equal_copies_are_in_order() {
        let one = with(&[("a", "mode 1", "x"), ("b", "mode 1", "y")]);
        assert_eq!(check(&[one.clone(), one.clone(), one]), []);
        assert_eq!(check(&[]), []);
    }

    #[test]
    fn names_attributes_and_contents_that_differ_are_found() {
        let one = with(&[("a", "mode 1", "x")]);
        for other in [
            with(&[]),
            with(&[("a", "mode 2", "x")]),
            with(&[("a", "mode 1", "z")]),
            with(&[("a", "mode 1", "x"), ("b", "mode 1", "y")]),
        ] {
            assert_eq!(check(&[one.clone(), one.clone(), other]).len(), 1);
        }
    }
}
