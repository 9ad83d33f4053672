//! `[names]`: the domain whose root this server exports.
//!
//! What must never enter: whether DNS lists this server for the domain.

use names::Domain;

use super::Configuration;
use super::section::Section;

pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    all.domain =
        section.parsed::<Domain>("domain", "the name of a domain, such as \"example.org\"");
    let hidden = all.exports.iter().find(|export| {
        let first = export.path.components().first();
        first.is_none_or(|name| name.as_bytes() == b".domainroot")
    });
    if let (Some(_), Some(export)) = (&all.domain, hidden) {
        section.complain(
            section.place_of("domain"),
            format!(
                "the export {} lies where the domain is shown",
                export.path
            ),
            "give it a path of its own, such as \"/export\": clients find it as `export` in the root of the domain too",
        );
    }
}
