//! Rules of the protocol that a test may switch off, to show which failure each of them prevents.
//!
//! Without the feature `rule-switches` every rule is a constant and no switch exists.

/// Makes a `Rules` of named rules, for this crate and for other cores.
#[doc(hidden)]
#[macro_export]
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident),* $(,)?) => {
        /// Which rules are in force. All, unless a test says otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Rules {
            $($(#[$doc])* #[cfg(feature = "rule-switches")] pub $rule: bool,)*
        }

        impl Rules {
            /// Every rule in force.
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
    /// An acceptor keeps what it refuses and grants it later; refused proposers do not ask again.
    acceptor_queue,
    /// An acceptor says at once when it does not grant, and what stands in the way.
    refusals_are_sent,
    /// An acceptor counts the ancestors that a proposer announces, since its own copy may lag behind.
    announced_ancestors,
    /// Answers count only for the proposal whose name they carry.
    answers_by_name,
    /// The end of a control goes to everyone it was proposed to, not only to those who acknowledged.
    end_to_all,
    /// An acceptor remembers what has ended and ignores late copies of its proposal.
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
    /// A control ends only when no operation is being carried out under it any more.
    release_when_let_go,
    /// A control ends only when every active replica has applied what was done under it.
    release_when_applied,
    /// A control ends only when every active replica has acknowledged the narrower ones that remain.
    release_when_narrower_known,
    /// The deadline that a revoke sets is not moved by later updates.
    revoke_deadline_fixed,
    /// Acceptors grant first what the release of the previous control names.
    release_names_waiter,
    /// Closing a file waits until every active replica knows of the file's control.
    close_waits_for_file,
    /// Closing a file waits until every active replica knows of its directory's control or its entry.
    close_waits_for_entry,
    /// What a replica outside the view may hold stands in everybody's way.
    lost_controls_freeze,
    /// Nothing is acknowledged in a new view before every member has reported.
    reports_before_acknowledging,
    /// Members of a new view learn from each report what its sender holds.
    reports_tell_held,
    /// What freezes is judged so that it also holds for a configuration with one member more or less.
    freezes_across_configurations,
    /// A replica answers clients only while a majority has promised to join no view without it.
    lease_needed,
    /// Who has granted acts in no view without the holder before the grant has run out.
    grants_bind,
    /// A grant counts only if the incarnation that gets it has asked for it.
    grants_answer_requests,
    /// When the time of day jumps against the clock of leases, nothing counts that was granted before.
    jumps_end_leases,
    /// Deep control counts for a close only at replicas that know the file to be below it.
    close_waits_for_moves,
    /// A proposal that is not decided yet, and may be withdrawn, does not let a close be answered.
    close_waits_for_decision,
    /// The end of a control counts in every later view than the one it was told in.
    ends_outlive_views,
    /// What a lost replica had ended is told to those who have not heard of it, by those who have.
    ends_told_for_the_lost,
    /// What a replica had acknowledged before it left counts when it comes back to members who have not told each other
    /// everything.
    set_aside_counts,
    /// What was said in another view than its hearer's is said again when both are in the same one.
    said_again_in_new_view,
}
