//! Names of domains, as people type them and as an attacker may.
//!
//! What must never enter: whether the domain exists.

use std::fmt;
use std::str::FromStr;

/// Bytes of a name of DNS as text, without the dot at its end (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Bytes of one label (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// The number of characters shown of a text that is not a name.
const SHOWN_CHARACTERS: usize = 80;

/// The name of a domain in DNS, in lower case and without the dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(String);

/// Why a text is not such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{shown}\" is no name of a domain: {why}; write one such as example.org")]
pub struct DomainError {
    shown: String,
    why: &'static str,
}

impl Domain {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the records of its servers in DNS (RFC 6641, section 3), complete, so that no search domain is tried.
    #[must_use]
    pub fn service_name(&self) -> String {
        format!("_nfs-domainroot._tcp.{}.", self.0)
    }

    /// The path of the root at each of its servers (RFC 6641, section 5).
    #[must_use]
    pub fn root_path(&self) -> String {
        format!("/.domainroot/{}", self.0)
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    /// Accepts the name of a host in DNS (RFC 1123, section 2.1): two or more labels of letters, digits and hyphens.
    /// Names in other scripts need their DNS form, `xn--…` (RFC 5891). An address is not accepted.
    fn from_str(text: &str) -> Result<Domain, DomainError> {
        let wrong = |why| DomainError {
            shown: text
                .chars()
                .take(SHOWN_CHARACTERS)
                .flat_map(char::escape_default)
                .collect(),
            why,
        };
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(wrong("it is empty"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(wrong("it has more than 253 characters"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        if !name.bytes().all(fits) {
            return Err(wrong(
                "only letters of ASCII, digits, hyphens and dots can stand in it",
            ));
        }
        let labels: Vec<&str> = name.split('.').collect();
        if labels.iter().any(|label| label.is_empty()) {
            return Err(wrong("nothing stands before, between or behind its dots"));
        }
        if labels.iter().any(|label| label.len() > LABEL_BYTES_MAX) {
            return Err(wrong("a part of it has more than 63 characters"));
        }
        if (labels.iter()).any(|label| label.starts_with('-') || label.ends_with('-')) {
            return Err(wrong("a part of it begins or ends with a hyphen"));
        }
        let [.., _, last] = &labels[..] else {
            return Err(wrong("it has one part only"));
        };
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("its last part is a number, as in an address"));
        }
        Ok(Domain(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_domains_are_known_in_any_case() {
        for (text, name) in [
            ("example.org", "example.org"),
            ("Example.ORG.", "example.org"),
            ("3com.example", "3com.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(text.parse::<Domain>().unwrap().as_str(), name);
        }
        let domain: Domain = "example.org".parse().unwrap();
        assert_eq!(domain.service_name(), "_nfs-domainroot._tcp.example.org.");
        assert_eq!(domain.root_path(), "/.domainroot/example.org");
    }

    #[test]
    fn what_others_type_is_none_and_is_shown_harmless() {
        let long_label = format!("{}.org", "a".repeat(64));
        let long = format!("{}org", "abcdefgh.".repeat(32));
        for text in [
            "",
            ".",
            "..",
            ".git",
            ".Trash",
            ".Trash-1000",
            "autorun",
            "a..b",
            "-a.org",
            "a-.org",
            "a_b.org",
            "192.0.2.1",
            "[2001:db8::1]",
            "a.org/../../etc",
            "a.org:/etc",
            "a.org evil",
            "a.org\n-fstype=nfs4 evil:/",
            "$(reboot).org",
            "`reboot`.org",
            "\"a.org\"",
            "a.org&",
            "b\u{fc}cher.example",
            "\0.org",
            &long_label,
            &long,
        ] {
            let error = text.parse::<Domain>().unwrap_err().to_string();
            assert!(
                error.contains("no name of a domain") && error.contains("example.org"),
                "{error}"
            );
            assert!(!error.contains(['\n', '\0']) && error.is_ascii());
            assert!(error.len() < 400, "{error}");
        }
    }
}
