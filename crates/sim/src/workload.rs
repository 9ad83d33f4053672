//! The work of a run's clients: a tree at the beginning, and operations on it at random sites.
//!
//! Clients use objects of the first tree and only a few names, so that they conflict often.

use crate::plan::Plan;
use crate::random::Random;
use crate::replica::Replica;
use crate::tree::{Edit, Intent};
use crate::world::World;
use control::{ReplicaSlot, Subject, Tree, ancestors};
use std::time::Duration;
use vfs::ObjectId;

/// Objects of the first tree belong to no replica of the set.
const PLANTER: ReplicaSlot = ReplicaSlot(u16::MAX);

/// The number of different names.
const NAMES: u64 = 6;

/// Plants a tree and draws operations and lost connections.
pub(crate) fn prepare(world: &mut World, plan: &Plan) {
    if plan.operations == 0 {
        return;
    }
    let edits = first_tree(world.random());
    world.plant(&edits);
    let span = u64::try_from(plan.span.as_micros()).unwrap_or(u64::MAX);
    for event in 0..plan.operations {
        let after = Duration::from_micros(world.random().below(span));
        let home = replica_of(world.random(), plan.replicas);
        let copy = world.replica(ReplicaSlot(1)).clone();
        let intent = draw(world.random(), &copy).filter(|_| plan.includes(event));
        if let Some(intent) = intent.filter(|_| home.0 <= plan.present) {
            world.submit(after, home, intent);
        }
    }
    for event in plan.operations..plan.operations + plan.reconnects {
        let after = Duration::from_micros(world.random().below(2 * span));
        let one = replica_of(world.random(), plan.replicas);
        let other = replica_of(world.random(), plan.replicas);
        let present = one.0.max(other.0) <= plan.present;
        if one != other && present && plan.includes(event) {
            world.reconnect(after, one, other);
        }
    }
}

fn replica_of(random: &mut Random, replicas: u16) -> ReplicaSlot {
    let drawn = random.below(u64::from(replicas));
    ReplicaSlot(1 + u16::try_from(drawn).unwrap_or(0))
}

/// Six directories and six files, nested at random.
fn first_tree(random: &mut Random) -> Vec<Edit> {
    let mut directories = vec![ObjectId::ROOT];
    let mut edits = Vec::new();
    for number in 1..=12 {
        let object = ObjectId::new(PLANTER, number).expect("twelve objects fit");
        let parent = *random.pick(&directories).unwrap_or(&ObjectId::ROOT);
        let directory = number <= 6;
        edits.push(Edit::Enter {
            parent,
            name: 100 + number,
            object,
            birth: Some(directory),
        });
        if directory {
            directories.push(object);
        }
    }
    edits
}

fn draw(random: &mut Random, replica: &Replica) -> Option<Intent> {
    let tree = &replica.tree;
    let objects: Vec<ObjectId> = tree.objects().collect();
    let is_directory =
        |object: &ObjectId| matches!(tree.subject(*object), Some(Subject::Directory(_)));
    let (directories, files): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_directory);
    let directory = *random.pick(&directories)?;
    let other = *random.pick(&directories)?;
    let file = *random.pick(&files)?;
    let new = random.below(NAMES);
    Some(match random.below(10) {
        0..=2 => Intent::Write(file),
        3 | 4 => Intent::Create {
            parent: directory,
            name: new,
            directory: random.chance(2),
        },
        5 => Intent::Link {
            file,
            parent: directory,
            name: new,
        },
        6 => {
            let (parent, name) = named(random, replica, file)?;
            Intent::Remove { parent, name }
        }
        7 => {
            let (from, name) = named(random, replica, file)?;
            let to = directory;
            Intent::Rename {
                from,
                name,
                to,
                new,
            }
        }
        _ => {
            let (from, name) = named(random, replica, directory)?;
            let inside = ancestors(tree, other).contains(&directory) || other == directory;
            let to = if inside { ObjectId::ROOT } else { other };
            Intent::Rename {
                from,
                name,
                to,
                new,
            }
        }
    })
}

/// A directory and name of an object.
fn named(random: &mut Random, replica: &Replica, object: ObjectId) -> Option<(ObjectId, u64)> {
    let parents = replica.tree.parents(object);
    let parent = *random.pick(&parents)?;
    let mut entries = replica.tree.entries(parent)?.iter();
    let name = entries.find(|(_, entry)| **entry == object)?.0;
    Some((parent, *name))
}
