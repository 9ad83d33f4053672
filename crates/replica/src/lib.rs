//! One replica of a tree: a local copy, kept equal to the others.
//!
//! [`Replica`] is a [`vfs::FileSystem`] around a [`store::Store`]. Every change is admitted by replication
//! control first; what another replica controls is forwarded there; what was changed here is distributed to
//! the others.
//!
//! What must never enter: NFS, how connections work, how rows are stored, and the rules of replication
//! control themselves.
