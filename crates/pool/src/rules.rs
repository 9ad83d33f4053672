//! Rules that a test may switch off, to show which failure each of them prevents.
//!
//! Without the feature `rule-switches` every rule is a constant and no switch exists.

control::rules! {
    /// A data server serves nothing of a home without a lease of that home (rule 4).
    lease_checked,
    /// A data server looks at the lease once more before it answers (rule 4).
    lease_checked_before_reply,
    /// Requests that a data server received before a gap between two leases are dropped (rule 4).
    gap_drops_requests,
    /// After a gap between two leases, a data server serves only when what had begun before has ended (rule 4).
    gap_waits,
    /// A home waits until the lease of a data server that does not answer has run out (rule 4).
    lease_waited_for,
    /// A home that was started anew waits for leases that it does not remember (rule 4).
    forgotten_leases_waited_for,
    /// A data server gets a lease only when it has taken every intent of the home (rule 4).
    intents_before_lease,
    /// A handle of another generation is worth nothing (rule 3).
    generation_checked,
    /// A handle of another issue number is worth nothing (rules 3 and 4).
    issue_checked,
    /// Raising a generation waits for reads and writes that have begun (rule 3).
    raise_waits,
    /// An intent that comes once more is not carried out once more (rule 8).
    intents_once,
    /// What was removed leaves a tombstone, which keeps its generation (rule 3).
    tombstones,
    /// A tombstone stays until every key is gone that may have sealed a handle of what was removed (rule 3).
    tombstones_outlive_keys,
    /// A data server that comes with another identity or a smaller counter gets no lease (rule 5).
    identity_checked,
    /// A file is marked unsettled, stably, before a handle for writing leaves (rule 7).
    unsettled_first,
    /// The data servers are asked for the size; what clients say of it does not count (rule 7).
    size_asked,
    /// What is settled is stable at the data servers (rules 7 and 9).
    settled_is_stable,
    /// A data server's restart counts as a write to what was unsettled (rule 9).
    restart_counts_as_write,
    /// A holder that loses what it held is fenced before any other is given it (rule 8).
    losers_fenced,
    /// The holders of layouts are fenced when contents are cut (rule 8).
    cut_fences,
    /// Somebody may use a file past the home until a fence that was begun, or waits for its turn, is done (rule 11).
    fences_under_way_count,
    /// While a file is moved nobody is given a layout for writing, and holders of one are fenced (rule 2).
    moves_end_writing,
    /// New contents of a file that is moved are noted, stably, before their first byte is written (rule 2).
    moves_noted_first,
    /// Clients that may read the old contents of a file are fenced before its row names the new
    /// ones (rule 2).
    old_contents_fenced,
    /// New contents end where the file does before its row names them (rules 2 and 7).
    new_contents_cut,
}
