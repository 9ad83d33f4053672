//! The exports with their paths and access rules, and the directories of the pseudo file system that lead to them (RFC
//! 8881, section 7.3).

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use nfs4::NfsStat4;
use vfs::{Credentials, FileSystem, FsId, Name};

use crate::address_range::AddressRange;
use crate::handle::{FileHandle, Handle, ObjectHandle};
use crate::layouts::Layouts;

/// The default user and group id of squashed callers, `nobody` on most systems.
pub const NOBODY_ID: u32 = 65534;

/// What clients may do with an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Only read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// Which identities the anonymous one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// None.
    None,
    /// The superuser.
    Root,
    /// All.
    All,
}

/// The access of the clients in an address range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The clients of the rule.
    pub clients: AddressRange,
    /// Their access.
    pub mode: AccessMode,
    /// Which identities are replaced.
    pub squash: Squash,
    /// The user id of the anonymous identity.
    pub anonymous_user: u32,
    /// The group id of the anonymous identity.
    pub anonymous_group: u32,
    /// Whether callers must use a privileged port, which only the superuser of their machine can use.
    pub secure: bool,
}

/// Smaller ports are privileged.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

impl AccessRule {
    /// Whether the rule accepts the caller's identity from this port.
    fn believes(&self, port: u16) -> bool {
        !self.secure || port < FIRST_UNPRIVILEGED_PORT
    }

    /// The caller's identity under this rule.
    fn identity(&self, caller: &oncrpc::AuthSys) -> Credentials {
        let anonymous = Credentials {
            user: self.anonymous_user,
            group: self.anonymous_group,
            groups: Arc::from([]),
            request: None,
        };
        match self.squash {
            Squash::All => anonymous,
            Squash::Root if caller.uid == 0 => anonymous,
            Squash::Root => Credentials {
                user: caller.uid,
                group: if caller.gid == 0 {
                    self.anonymous_group
                } else {
                    caller.gid
                },
                groups: caller
                    .gids
                    .iter()
                    .copied()
                    .filter(|group| *group != 0)
                    .collect(),
                request: None,
            },
            Squash::None => Credentials {
                user: caller.uid,
                group: caller.gid,
                groups: Arc::from(&caller.gids[..]),
                request: None,
            },
        }
    }
}

/// One exported tree.
pub struct Export {
    /// Its path for clients.
    pub path: PseudoPath,
    /// Its content.
    pub file_system: Arc<dyn FileSystem>,
    rules: RwLock<Arc<[AccessRule]>>,
    /// The source of layouts of its files, if they are striped over data servers.
    pub(crate) layouts: Option<Arc<dyn Layouts>>,
    /// The index of the export in its [`Namespace`], which sets it.
    pub(crate) index: usize,
    /// The pseudo directory that the export covers.
    pub(crate) node: usize,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("path", &self.path)
            .field("rules", &self.rules())
            .finish()
    }
}

impl Export {
    /// An export that is not part of a namespace yet.
    #[must_use]
    pub fn new(
        path: PseudoPath,
        file_system: Arc<dyn FileSystem>,
        rules: Vec<AccessRule>,
    ) -> Export {
        Export {
            path,
            file_system,
            rules: RwLock::new(rules.into()),
            layouts: None,
            index: 0,
            node: 0,
        }
    }

    /// The same with files that are striped over data servers: clients get layouts of them from here.
    #[must_use]
    pub fn with_layouts(mut self, layouts: Arc<dyn Layouts>) -> Export {
        self.layouts = Some(layouts);
        self
    }

    /// The access rules. The first rule that matches a client decides; without one it is refused.
    #[must_use]
    pub fn rules(&self) -> Arc<[AccessRule]> {
        // Writers replace all rules at once.
        let rules = self.rules.read();
        rules.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the rules for all later operations.
    pub(crate) fn set_rules(&self, rules: &[AccessRule]) {
        let own = self.rules.write();
        *own.unwrap_or_else(PoisonError::into_inner) = rules.into();
    }

    /// The rule for a caller, if there is one.
    fn rule_for(&self, peer: SocketAddr) -> Option<AccessRule> {
        self.rule_for_address(peer.ip())
            .filter(|rule| rule.believes(peer.port()))
    }

    fn rule_for_address(&self, address: IpAddr) -> Option<AccessRule> {
        let rules = self.rules();
        let mut rules = rules.iter();
        rules.find(|rule| rule.clients.contains(address)).cloned()
    }

    /// Whether a rule admits a client at this address and port.
    pub(crate) fn is_open_to(&self, peer: SocketAddr) -> bool {
        self.rule_for(peer).is_some()
    }

    /// Admits a caller to an object of the export.
    ///
    /// # Errors
    /// `ACCESS` for an address and port that no rule admits, `WRONGSEC` for a flavor other than AUTH_SYS.
    pub(crate) fn admit(
        self: &Arc<Export>,
        id: vfs::ObjectId,
        caller: &Caller,
    ) -> Result<ObjectHandle, NfsStat4> {
        let rule = self.rule_for(caller.peer).ok_or(NfsStat4::Access)?;
        let oncrpc::Credentials::Sys(credentials) = &caller.credentials else {
            return Err(NfsStat4::WrongSec);
        };
        Ok(ObjectHandle {
            export: self.clone(),
            id,
            who: rule.identity(credentials),
            read_only: rule.mode == AccessMode::ReadOnly,
        })
    }
}

/// The sender of a request: address, port and unverified credentials.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The client's address, canonical, and the port there.
    pub(crate) peer: SocketAddr,
    /// The credentials in the RPC header.
    pub(crate) credentials: oncrpc::Credentials,
}

/// Whether a client may use this server at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Some export admits it.
    Admitted,
    /// Its address is admitted, but not from an unprivileged port.
    UnprivilegedPort,
    /// No rule matches its address.
    UnknownAddress,
}

/// An absolute path in the pseudo file system, such as `/export`; `/` has no components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PseudoPath(Vec<Name>);

impl PseudoPath {
    /// The components from the root.
    #[must_use]
    pub fn components(&self) -> &[Name] {
        &self.0
    }
}

impl FromStr for PseudoPath {
    type Err = NamespaceError;

    fn from_str(text: &str) -> Result<PseudoPath, NamespaceError> {
        let wrong = |why: &str| NamespaceError::Path(text.to_owned(), why.to_owned());
        let rest = text
            .strip_prefix('/')
            .ok_or_else(|| wrong("it must start with a slash"))?;
        let parts = rest.split('/').filter(|part| !part.is_empty());
        let names = parts.map(|part| Name::new(part.as_bytes().to_vec()));
        Ok(PseudoPath(
            names
                .collect::<Result<_, _>>()
                .map_err(|error| wrong(&error.to_string()))?,
        ))
    }
}

impl fmt::Display for PseudoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

/// Why exports do not form a name space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// Not a path.
    #[error("`{0}` cannot be an export path: {1}")]
    Path(String, String),
    /// Two exports at the same path, or one inside another.
    #[error(
        "the exports `{0}` and `{1}` overlap; give each a path of its own that is not inside the other"
    )]
    Overlap(String, String),
    /// The path belongs to the domain.
    #[error(
        "the export `{0}` lies where the domain is shown; choose another path, and it is seen below the domain too"
    )]
    InDomain(String),
    /// This is not a valid domain.
    #[error("`{0}` cannot be a domain: {1}")]
    Domain(String, String),
    /// The same tree twice.
    #[error("the exports `{0}` and `{1}` show the same tree; export it once")]
    SameTree(String, String),
}

/// A directory of the pseudo file system.
#[derive(Debug)]
pub(crate) struct PseudoNode {
    /// Hash of the path: the fileid, and the number in the filehandle.
    pub(crate) id: u64,
    /// The parent directory; for the root its own index.
    pub(crate) parent: usize,
    /// Its entries.
    pub(crate) children: BTreeMap<Name, usize>,
    /// The export that covers it.
    pub(crate) export: Option<usize>,
}

/// All exports and the directories that lead to them.
#[derive(Debug)]
pub struct Namespace {
    nodes: Vec<PseudoNode>,
    exports: Vec<Arc<Export>>,
    domain: Option<Domain>,
}

/// The second place of the exports, under a name that is the same at all servers of a domain.
#[derive(Debug)]
struct Domain {
    node: usize,
    path: Vec<Name>,
    /// The path of each export in the domain, by its index.
    exports: Vec<Vec<Name>>,
}

/// The directory in the root that contains domains (RFC 6641, section 5).
const DOMAIN_ROOT: &str = ".domainroot";

/// The index of the root among the nodes.
pub(crate) const ROOT_NODE: usize = 0;

impl Namespace {
    /// Builds the directories that lead to the exports.
    ///
    /// # Errors
    /// [`NamespaceError`] when exports overlap.
    pub fn new(exports: Vec<Export>) -> Result<Namespace, NamespaceError> {
        let mut namespace = Namespace::empty();
        for export in exports {
            namespace.add(export)?;
        }
        Ok(namespace)
    }

    /// An empty name space.
    pub(crate) fn empty() -> Namespace {
        let root = PseudoNode {
            id: path_hash(&[]),
            parent: ROOT_NODE,
            children: BTreeMap::new(),
            export: None,
        };
        Namespace {
            nodes: vec![root],
            exports: Vec::new(),
            domain: None,
        }
    }

    /// The same, with the exports also below `/.domainroot` and the name of a domain, which also contains junctions.
    /// The caller knows whether that is a DNS name.
    ///
    /// # Errors
    /// [`NamespaceError`] when exports overlap with each other or with the domain.
    pub fn in_domain(exports: Vec<Export>, domain: &str) -> Result<Namespace, NamespaceError> {
        let path: PseudoPath = format!("/{DOMAIN_ROOT}/{domain}").parse()?;
        let PseudoPath(path) = path;
        if path.len() != 2 {
            let why = "write a name of DNS, such as example.org".to_owned();
            return Err(NamespaceError::Domain(domain.to_owned(), why));
        }
        let mut namespace = Namespace::new(exports)?;
        let exports = namespace.exports.clone();
        for export in &exports {
            let own = export.path.components();
            if own.is_empty() || own.first() == path.first() {
                return Err(NamespaceError::InDomain(export.path.to_string()));
            }
        }
        let node = namespace.lead_to(&path);
        let mut shown = Vec::new();
        for export in &exports {
            let path = [&path[..], export.path.components()].concat();
            let node = namespace.lead_to(&path);
            namespace.nodes[node].export = Some(export.index);
            shown.push(path);
        }
        namespace.domain = Some(Domain {
            node,
            path,
            exports: shown,
        });
        Ok(namespace)
    }

    /// The path of the domain's root, if there is one.
    #[must_use]
    pub fn domain(&self) -> Option<&[Name]> {
        Some(&self.domain.as_ref()?.path)
    }

    /// Whether a directory of the pseudo file system is the domain's root.
    pub(crate) fn is_domain(&self, node: usize) -> bool {
        (self.domain.as_ref()).is_some_and(|domain| domain.node == node)
    }

    /// The path of an export that means the same at other servers: the one in the domain, if there is one.
    pub(crate) fn shown_path<'a>(&'a self, export: &'a Export) -> &'a [Name] {
        let shown = self.domain.as_ref();
        let shown = shown.and_then(|domain| domain.exports.get(export.index));
        shown.map_or(export.path.components(), Vec::as_slice)
    }

    fn add(&mut self, mut export: Export) -> Result<(), NamespaceError> {
        let overlap = |other: &Export, own: &Export| {
            NamespaceError::Overlap(other.path.to_string(), own.path.to_string())
        };
        for other in &self.exports {
            let (short, long) = (other.path.components(), export.path.components());
            if long.starts_with(short) || short.starts_with(long) {
                return Err(overlap(other, &export));
            }
            if other.file_system.properties().fs_id == export.file_system.properties().fs_id {
                let (first, second) = (other.path.to_string(), export.path.to_string());
                return Err(NamespaceError::SameTree(first, second));
            }
        }
        let node = self.lead_to(export.path.components());
        export.index = self.exports.len();
        export.node = node;
        self.nodes[node].export = Some(export.index);
        self.exports.push(Arc::new(export));
        Ok(())
    }

    /// The directory at a path; missing directories on the path are created.
    fn lead_to(&mut self, path: &[Name]) -> usize {
        let mut node = ROOT_NODE;
        for (depth, name) in path.iter().enumerate() {
            let id = path_hash(&path[..=depth]);
            let next = self.nodes.len();
            let child = *self.nodes[node]
                .children
                .entry(name.clone())
                .or_insert(next);
            if child == next {
                let children = BTreeMap::new();
                self.nodes.push(PseudoNode {
                    id,
                    parent: node,
                    children,
                    export: None,
                });
            }
            node = child;
        }
        node
    }

    /// The exports, by index.
    #[must_use]
    pub fn exports(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// Whether any export admits a client at this address and port.
    pub(crate) fn admission_of(&self, peer: SocketAddr) -> Admission {
        let mut known = false;
        for export in &self.exports {
            if export.is_open_to(peer) {
                return Admission::Admitted;
            }
            known |= export.rule_for_address(peer.ip()).is_some();
        }
        match known {
            true => Admission::UnprivilegedPort,
            false => Admission::UnknownAddress,
        }
    }

    /// A directory of the pseudo file system.
    pub(crate) fn node(&self, index: usize) -> &PseudoNode {
        &self.nodes[index]
    }

    /// The pseudo file system's identity.
    pub(crate) fn pseudo_fs_id(&self) -> FsId {
        FsId { major: 0, minor: 0 }
    }

    /// The version of every pseudo directory: it changes when the exports do.
    pub(crate) fn pseudo_change(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        let exports = self.exports.iter();
        let paths = exports.map(|export| export.path.components());
        for name in paths.chain(self.domain()).flatten() {
            name.as_bytes().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The object at a node for a caller: the directory itself, or the root of the export that covers it.
    pub(crate) fn enter(&self, node: usize, caller: &Caller) -> Result<Handle, NfsStat4> {
        match self.nodes[node].export {
            None => Ok(Handle::Pseudo(node)),
            Some(export) => {
                let root = vfs::ObjectId::ROOT;
                self.exports[export].admit(root, caller).map(Handle::Object)
            }
        }
    }

    /// The object of a filehandle from a client.
    ///
    /// # Errors
    /// `BADHANDLE` for bytes that this server did not issue, `STALE` for a tree or directory that is not exported (any
    /// more), and those of [`Export::admit`].
    pub(crate) fn resolve(
        &self,
        handle: &nfs4::NfsFh4,
        caller: &Caller,
    ) -> Result<Handle, NfsStat4> {
        match FileHandle::decode(handle).ok_or(NfsStat4::BadHandle)? {
            FileHandle::Pseudo(id) => {
                let found = self.nodes.iter().position(|node| node.id == id);
                found.map(Handle::Pseudo).ok_or(NfsStat4::Stale)
            }
            FileHandle::Object(fs_id, id) => {
                let is_meant =
                    |export: &&Arc<Export>| export.file_system.properties().fs_id == fs_id;
                let export = self.exports.iter().find(is_meant).ok_or(NfsStat4::Stale)?;
                export.admit(id, caller).map(Handle::Object)
            }
        }
    }
}

/// A number for a pseudo directory that depends only on its path, so that it is the same after a restart and at every
/// replica (FNV-1a, 64 bits, with a slash before each name).
pub(crate) fn path_hash(path: &[Name]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = path
        .iter()
        .flat_map(|name| std::iter::once(&b'/').chain(name.as_bytes()));
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_privileged_ports_are_believed_unless_the_rule_says_otherwise() {
        let rule = |clients: &str, secure| AccessRule {
            clients: clients.parse().unwrap(),
            mode: AccessMode::ReadWrite,
            squash: Squash::Root,
            anonymous_user: NOBODY_ID,
            anonymous_group: NOBODY_ID,
            secure,
        };
        let strict = rule("192.0.2.1", true);
        let lenient = rule("192.0.2.2", false);
        assert!(strict.believes(1023) && !strict.believes(1024));
        assert!(lenient.believes(1023) && lenient.believes(40_000));
    }

    #[test]
    fn squashing_takes_root_its_groups_too() {
        let rule = AccessRule {
            clients: AddressRange::ANY,
            mode: AccessMode::ReadWrite,
            squash: Squash::Root,
            anonymous_user: NOBODY_ID,
            anonymous_group: NOBODY_ID,
            secure: true,
        };
        let caller = |uid, gid, gids: &[u32]| oncrpc::AuthSys {
            stamp: 0,
            machinename: bytes::Bytes::new(),
            uid,
            gid,
            gids: oncrpc::Groups::first_of(gids),
        };
        let root = rule.identity(&caller(0, 0, &[0, 1]));
        assert_eq!(
            (root.user, root.group, root.groups.len()),
            (NOBODY_ID, NOBODY_ID, 0)
        );
        let user = rule.identity(&caller(1000, 0, &[0, 27]));
        assert_eq!(
            (user.user, user.group, &user.groups[..]),
            (1000, NOBODY_ID, &[27][..])
        );
    }
}
