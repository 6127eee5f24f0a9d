//! A map from path ID to state for the handful of paths a connection has.

use crate::registry::PathId;

/// From here on the four entries that a vector begins with are a waste.
const LARGE_BYTES: usize = 128;

/// A map keyed by [`PathId`], kept sorted in one small vector.
///
/// A connection has rarely more than eight paths, so a linear search over adjacent entries beats a
/// hash, and iteration is in path ID order, which keeps every decision deterministic.
#[derive(Clone, Debug)]
pub struct PathMap<T> {
    entries: Vec<(PathId, T)>,
}

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        PathMap {
            entries: Vec::new(),
        }
    }
}

impl<T> PathMap<T> {
    /// Puts `value` under `id` and returns what was there before.
    pub fn insert(&mut self, id: PathId, value: T) -> Option<T> {
        let at = self.entries.iter().position(|(other, _)| *other >= id);
        let at = at.unwrap_or(self.entries.len());
        match self.entries.get_mut(at) {
            Some((other, known)) if *other == id => Some(std::mem::replace(known, value)),
            _ => {
                // Most connections have one path: no room for large values that never come.
                if size_of::<T>() >= LARGE_BYTES {
                    self.entries.reserve_exact(1);
                }
                self.entries.insert(at, (id, value));
                None
            }
        }
    }

    /// Removes and returns the value under `id`.
    pub fn remove(&mut self, id: PathId) -> Option<T> {
        let at = self.entries.iter().position(|(other, _)| *other == id)?;
        Some(self.entries.remove(at).1)
    }

    /// The value under `id`.
    pub fn get(&self, id: PathId) -> Option<&T> {
        self.entries
            .iter()
            .find(|(other, _)| *other == id)
            .map(|(_, value)| value)
    }

    /// The value under `id`, for writing.
    pub fn get_mut(&mut self, id: PathId) -> Option<&mut T> {
        self.entries
            .iter_mut()
            .find(|(other, _)| *other == id)
            .map(|(_, value)| value)
    }

    /// The value under `id`, for writing, beside the entries before it and after it.
    #[allow(clippy::type_complexity)]
    pub fn split(&mut self, id: PathId) -> Option<(&[(PathId, T)], &mut T, &[(PathId, T)])> {
        let at = self.entries.iter().position(|(other, _)| *other == id)?;
        let (before, from) = self.entries.split_at_mut(at);
        let ((_, value), after) = from.split_first_mut()?;
        Some((before, value, after))
    }

    /// All entries in path ID order.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &T)> + Clone {
        self.entries.iter().map(|(id, value)| (*id, value))
    }

    /// All entries in path ID order, for writing.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PathId, &mut T)> {
        self.entries.iter_mut().map(|(id, value)| (*id, value))
    }

    /// How many paths are in the map.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map holds no path.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_sorted_whatever_the_order_of_insertion() {
        let mut map = PathMap::default();
        for id in [5, 1, 3, 9, 2] {
            assert_eq!(map.insert(PathId(id), id * 10), None);
        }
        assert_eq!(map.insert(PathId(3), 31), Some(30));
        assert_eq!(map.remove(PathId(9)), Some(90));
        assert_eq!(map.remove(PathId(9)), None);

        let seen: Vec<_> = map.iter().map(|(id, value)| (id.0, *value)).collect();
        assert_eq!(seen, [(1, 10), (2, 20), (3, 31), (5, 50)]);
        assert_eq!(map.get(PathId(4)), None);
        assert_eq!((map.len(), map.is_empty()), (4, false));
        assert!(PathMap::<u8>::default().is_empty());

        let (before, value, after) = map.split(PathId(3)).unwrap();
        assert_eq!(before, [(PathId(1), 10), (PathId(2), 20)]);
        assert_eq!((*value, after), (31, &[(PathId(5), 50)][..]));
        assert!(map.split(PathId(4)).is_none());
    }
}
