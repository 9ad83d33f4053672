//! Rules that a test may switch off, to show which failure each of them prevents.
//!
//! Without the feature `rule-switches` every rule is a constant and no switch exists.

control::rules! {
    /// A data server serves nothing of a home without a lease of that home (rule 4).
    lease_checked,
    /// A data server looks at the lease once more before it answers (rule 4).
    lease_checked_before_reply,
    /// A data server drops requests that it received before a gap between two leases (rule 4).
    gap_drops_requests,
    /// After a gap between two leases, a data server serves only when earlier reads and writes have ended (rule 4).
    gap_waits,
    /// A home waits until the lease of a data server that does not answer has run out (rule 4).
    lease_waited_for,
    /// A restarted home waits for leases that it does not remember (rule 4).
    forgotten_leases_waited_for,
    /// A data server gets a lease only when it has carried out the intents of the home, except young ones, whose operations wait (rule 4).
    intents_before_lease,
    /// A handle of another generation is not valid (rule 3).
    generation_checked,
    /// A handle of another issue number is not valid (rules 3 and 4).
    issue_checked,
    /// Raising a generation waits for reads and writes that have begun (rule 3).
    raise_waits,
    /// A repeated intent is not carried out again (rule 8).
    intents_once,
    /// Removed contents leave a tombstone, which keeps their generation (rule 3).
    tombstones,
    /// A tombstone stays as long as a key counts that may have sealed a handle of the removed contents (rule 3).
    tombstones_outlive_keys,
    /// A data server that comes with another identity or a smaller counter gets no lease (rule 5).
    identity_checked,
    /// A file is marked unsettled, stably, before a handle for writing leaves (rule 7).
    unsettled_first,
    /// The home asks the data servers for the size; what clients say of it does not count (rule 7).
    size_asked,
    /// Settled contents are stable at the data servers (rules 7 and 9).
    settled_is_stable,
    /// A data server's restart counts as a write to unsettled contents (rule 9).
    restart_counts_as_write,
    /// A holder that loses what it held is fenced before another holder gets it (rule 8).
    losers_fenced,
    /// The holders of layouts are fenced when contents are cut (rule 8).
    cut_fences,
    /// A file counts as used directly by clients until every fence that has begun or waits is done (rule 11).
    fences_under_way_count,
    /// While a file is moved, no client gets a layout for writing, and holders of such a layout are fenced (rule 2).
    moves_end_writing,
    /// New contents of a file that is moved are recorded, stably, before their first byte is written (rule 2).
    moves_noted_first,
    /// Clients that may read the old contents of a file are fenced before its row names the new ones
    /// (rule 2).
    old_contents_fenced,
    /// New contents are cut to the size of the file before its row names them (rules 2 and 7).
    new_contents_cut,
}
