//! The text about the tree that all replicas get when they join: its identity, as lines.
//!
//! What must never enter: how it is sent, and where it is stored.

use store::TreeIdentity;
use vfs::FsId;

/// The first line: the kind of text and its format.
const HEADING: &str = "meridian tree 1";

/// The identity of a new tree.
pub(super) fn random() -> Result<TreeIdentity, getrandom::Error> {
    let mut name_key = [0; 16];
    getrandom::fill(&mut name_key)?;
    Ok(TreeIdentity {
        fs_id: FsId {
            major: getrandom::u64()?,
            minor: getrandom::u64()?,
        },
        name_key,
    })
}

pub(super) fn encode(tree: &TreeIdentity) -> Vec<u8> {
    let FsId { major, minor } = tree.fs_id;
    let key = u128::from_be_bytes(tree.name_key);
    format!("{HEADING}\nfs_id {major:016x}:{minor:016x}\nname_key {key:032x}\n").into_bytes()
}

/// `None` for anything that [`encode`] does not write.
pub(super) fn decode(words: &[u8]) -> Option<TreeIdentity> {
    let text = std::str::from_utf8(words).ok()?;
    let mut lines = text.lines().skip_while(|line| *line != HEADING).skip(1);
    let (major, minor) = lines.next()?.strip_prefix("fs_id ")?.split_once(':')?;
    let key = lines.next()?.strip_prefix("name_key ")?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let tree = TreeIdentity {
        fs_id: FsId {
            major: number(major)?,
            minor: number(minor)?,
        },
        name_key: u128::from_str_radix(key, 16).ok()?.to_be_bytes(),
    };
    (encode(&tree) == words).then_some(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_described_and_understood() {
        let tree = random().unwrap();
        assert_eq!(decode(&encode(&tree)), Some(tree));
        assert_ne!(random().unwrap(), tree);
    }

    #[test]
    fn anything_else_is_not_understood() {
        let words = encode(&random().unwrap());
        for end in 0..words.len() {
            assert_eq!(decode(&words[..end]), None);
        }
        let newer = String::from_utf8(words)
            .unwrap()
            .replace("tree 1", "tree 2");
        assert_eq!(decode(newer.as_bytes()), None);
        assert_eq!(decode(&[0xff; 40]), None);
    }
}
