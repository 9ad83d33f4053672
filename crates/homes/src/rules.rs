//! Rules that a test may switch off, to show which failure each of them prevents.
//!
//! Without the feature `rule-switches` every rule is a constant and no switch exists.

control::rules! {
    /// What a home has prepared survives its restart (rule 15).
    prepared_is_stable,
    /// The decider's batch names the homes that still have to carry the operation out (rule 15).
    outcome_is_stable,
    /// The decider's batch has the origin and the answer, with which a repeat is answered (rule 15).
    requests_recorded,
    /// Messages of and to a run that has ended do not count (rule 15).
    sessions_checked,
    /// A copy of an old message does not prepare again what was carried out (rule 15).
    finished_remembered,
    /// A call that needs something prepared waits for the outcome (rule 15).
    prepared_hides,
    /// Nothing is made in a directory that is about to be removed (rule 15).
    directories_sealed,
    /// Operations that count names of the same file up and down exclude each other (rule 15).
    rows_locked,
    /// One directory changes its parent at a time (rule 15).
    moves_locked,
    /// The ancestors of the target are asked before a directory is moved (rule 15).
    ancestors_asked,
    /// Parts are prepared in ascending order (rule 15).
    ascending_order,
    /// A copy counts only under a lease (rule 13).
    lease_checked,
    /// A server gets a lease only when it has acknowledged all invalidations (rule 13).
    told_before_lease,
    /// A change that removes something or takes rights away waits until all holders of copies were told (rule 14).
    told_before_commit,
    /// An answer that is older than an invalidation that has arrived is not kept (rule 13).
    crossed_not_kept,
    /// A restarted home waits for copies that it does not remember (rule 14).
    forgotten_copies_waited_for,
    /// A copy never answers that a name is missing (rule 13).
    missing_asked,
    /// An open asks the home (rule 13).
    acquire_asks,
}
