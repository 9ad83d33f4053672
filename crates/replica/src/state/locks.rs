//! Locks with a place in an order, so that no two threads wait for each other.
//!
//! A thread takes a lock only if all locks that it holds have earlier places; the place is part of the lock's type. In builds with debug assertions,
//! as in tests, a thread that takes a lock out of order panics, even if no other thread waits. The store's writer lock comes before all of them, and
//! needs no place: a task waits for it, but no task waits while it holds one of these, because their guards stay in one thread, and the core is lent
//! to closures that cannot wait.
//!
//! What must never enter: what is locked.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while the core is asked.
pub(crate) type BeforeCore<T> = Lock<0, T>;

/// The lock of the core, and of what it protects besides.
pub(crate) type AroundCore<T> = Lock<1, T>;

/// Taken with or without the core, for one read or change. No thread holds two of them.
pub(crate) type Table<T> = Lock<2, T>;

/// A lock inside an entry of a [`Table`]. No thread holds two of them.
pub(crate) type Inner<T> = Lock<3, T>;

pub(crate) type TableGuard<'a, T> = Locked<'a, 2, T>;
pub(crate) type InnerGuard<'a, T> = Locked<'a, 3, T>;

/// A mutual exclusion lock with a place in the order. After a panic the content is what the last complete assignment left; continuing with that is
/// better than refusing all clients for ever.
#[derive(Debug, Default)]
pub(crate) struct Lock<const PLACE: u8, T>(Mutex<T>);

/// The content of a lock, while the lock is held. The lock is released first, and then its place.
pub(crate) struct Locked<'a, const PLACE: u8, T> {
    content: MutexGuard<'a, T>,
    _place: Place<PLACE>,
}

impl<const PLACE: u8, T> Lock<PLACE, T> {
    pub(crate) fn new(content: T) -> Self {
        Self(Mutex::new(content))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// In builds with debug assertions, if the thread holds a lock of this or a later place.
    pub(crate) fn lock(&self) -> Locked<'_, PLACE, T> {
        let place = Place::take();
        Locked {
            content: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            _place: place,
        }
    }
}

impl<const PLACE: u8, T> Deref for Locked<'_, PLACE, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<const PLACE: u8, T> DerefMut for Locked<'_, PLACE, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.content
    }
}

/// The present thread holds a lock of this place. The value cannot be sent to another thread.
struct Place<const PLACE: u8>(PhantomData<*const ()>);

#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    thread_local! {
        /// The places of the locks that the thread holds, a bit for each.
        pub(super) static HELD: Cell<u8> = const { Cell::new(0) };
    }
}

impl<const PLACE: u8> Place<PLACE> {
    fn take() -> Self {
        #[cfg(debug_assertions)]
        held::HELD.with(|held| {
            let places = held.get();
            assert!(
                places >> PLACE == 0,
                "a lock of place {PLACE} is taken while locks of places {places:#06b} are held"
            );
            held.set(places | 1 << PLACE);
        });
        Self(PhantomData)
    }
}

#[cfg(debug_assertions)]
impl<const PLACE: u8> Drop for Place<PLACE> {
    fn drop(&mut self) {
        held::HELD.with(|held| held.set(held.get() & !(1 << PLACE)));
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn is_refused<const PLACE: u8>(lock: &Lock<PLACE, u8>) -> bool {
        catch_unwind(AssertUnwindSafe(|| *lock.lock())).is_err()
    }

    #[test]
    fn locks_are_taken_in_their_order_only() {
        let (before, core) = (BeforeCore::new(1), AroundCore::new(2));
        let (table, other) = (Table::new(3), Table::new(4));
        let held = before.lock();
        assert_eq!(*core.lock() + *held, 3);
        drop(held);
        let held = table.lock();
        assert!(is_refused(&core) && is_refused(&before));
        assert!(
            is_refused(&other),
            "another thread may take the two in the other order"
        );
        assert_eq!(*Inner::new(5).lock() + *held, 8);
        drop(held);
        assert!(!is_refused(&core) && !is_refused(&other));
    }
}
