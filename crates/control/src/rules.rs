//! Rules of the protocol that a test may switch off, to show which failure each of them prevents.
//!
//! Without the feature `rule-switches` every rule is a constant and no switch exists.

/// Defines `Rules` with named rules, for this crate and for other cores.
#[doc(hidden)]
#[macro_export]
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident),* $(,)?) => {
        /// The rules in force. All of them, unless a test switches some off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Rules {
            $($(#[$doc])* #[cfg(feature = "rule-switches")] pub $rule: bool,)*
        }

        impl Rules {
            /// All rules in force.
            pub const ALL: Rules = Rules {
                $(#[cfg(feature = "rule-switches")] $rule: true,)*
            };

            $(
                #[cfg(feature = "rule-switches")]
                pub(crate) fn $rule(self) -> bool {
                    self.$rule
                }

                #[cfg(not(feature = "rule-switches"))]
                pub(crate) fn $rule(self) -> bool {
                    true
                }
            )*
        }
    };
}

rules! {
    /// An acceptor keeps a refused proposal and grants it later; refused proposers do not ask again.
    acceptor_queue,
    /// An acceptor reports at once when it does not grant, and the obstacles.
    refusals_are_sent,
    /// An acceptor counts the ancestors that a proposer announces, because its own copy may be older.
    announced_ancestors,
    /// Answers count only for the proposal whose name they carry.
    answers_by_name,
    /// The end of a control goes to every replica that it was proposed to, not only to those that acknowledged.
    end_to_all,
    /// An acceptor remembers ended controls and ignores late copies of their proposals.
    ended_remembered,
    /// A directory that changes its parent needs deep control of its own.
    moved_directory_explicit,
    /// Removing an object needs control of the object and not only of its directory.
    removal_controls_object,
    /// An update is applied only after granting the controls it was made under.
    grant_before_apply,
    /// Deep control does not cover a file with several links.
    linked_file_own_control,
    /// A file that leaves or enters deep control by a rename needs control of its own.
    crossing_file_own_control,
    /// A new object under shallow control is controlled by its creator from the start.
    inheritance,
    /// A control ends only when no operation is running under it any more.
    release_when_let_go,
    /// A control ends only when every active replica has applied what was done under it.
    release_when_applied,
    /// A control ends only when every active replica has acknowledged the narrower ones that remain.
    release_when_narrower_known,
    /// The deadline that a revoke sets is not moved by later updates.
    revoke_deadline_fixed,
    /// Acceptors first grant the waiter that the release of the previous control names.
    release_names_waiter,
    /// Closing a file waits until every active replica knows of the file's control.
    close_waits_for_file,
    /// Closing a file waits until every active replica knows of its directory's control or its entry.
    close_waits_for_entry,
    /// Controls that a replica outside the view may hold block all other proposals.
    lost_controls_freeze,
    /// Nothing is acknowledged in a new view before every member has reported.
    reports_before_acknowledging,
    /// Members of a new view learn from each report what its sender holds.
    reports_tell_held,
    /// The frozen controls are judged so that the result also holds for a configuration with one member more or less.
    freezes_across_configurations,
    /// A replica answers clients only while a majority has granted it a lease: to join no view without it.
    lease_needed,
    /// A replica that has granted a lease acts in no view without the holder before the grant has expired.
    grants_bind,
    /// A grant counts only if the incarnation that gets it has asked for it.
    grants_answer_requests,
    /// When the time of day jumps relative to the clock of leases, all earlier grants are invalid.
    jumps_end_leases,
    /// Deep control counts for a close only at replicas that know that the file is below it.
    close_waits_for_moves,
    /// An undecided proposal, which may be withdrawn, does not allow a close to be answered.
    close_waits_for_decision,
    /// The end of a control is valid in every view later than the one in which it was sent.
    ends_outlive_views,
    /// Replicas that know the ends of a lost replica's controls tell them to the others.
    ends_told_for_the_lost,
    /// What a replica had acknowledged before it left counts when it comes back to members that have not exchanged all
    /// reports.
    set_aside_counts,
    /// Messages that arrived in another view are sent again when both replicas are in the same view.
    said_again_in_new_view,
}
