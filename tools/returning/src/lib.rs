//! What a server remembers of the paths of clients that come back, so that these begin with more than an initial
//! window (careful resume, RFC 9959).
//!
//! The client keeps it: sealed in a token (NEW_TOKEN, RFC 9000, section 8.1.3) that it cannot read or change, and that
//! says for each path which addresses it had, and what window and RTT the server saw. The next connection begins with
//! that token. A path resumes if it has the addresses of one in the token, whichever path ID it has now; whether its
//! RTT fits is for the congestion controller to find out.
//!
//! The server keeps 8 bytes for each pair of addresses, in a table of fixed size: which token is the newest. Only that
//! one counts, and once, so neither a token that is sent twice nor a collection of old ones makes several connections
//! jump at the same time. The one before it, of the same connection, counts in its place unless it says more: a client
//! that leaves when it has its answer may not get the last one. Two pairs in one place of the table cost the older one
//! its memory. The table begins empty, so nothing is resumed over a restart, and servers that share a key do not take
//! each other's memory.
//!
//! The token also shows that the client was reached at these addresses, for some time: a server that asks for that in
//! Retry packets need not ask. It is valid for each address that the connection had validated (RFC 10069, section 3.1.3).

mod connection;

use std::fmt;
use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use boring::hash::hmac_sha256;
use boring::symm::decrypt_aead;
use boring::symm::encrypt_aead;
use boring::symm::Cipher;

pub use connection::since_epoch;
pub use connection::Returning;

/// Length of every token, in bytes, so that it says nothing of what is in it, and others can be told from it.
pub const TOKEN_BYTES: usize = NONCE_BYTES + PLAIN_BYTES + TAG_BYTES;

/// Paths that a token has room for.
pub const MAX_PATHS: usize = 8;

/// Places of a table that is large enough for the clients of a lifetime; half a megabyte.
pub const SLOTS: usize = 1 << 16;

/// How long a token stands for its client's addresses.
pub const ADDRESS_LIFETIME: Duration = Duration::from_secs(600);

/// A token from this far in the future is one of a clock that was set back.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Version, number of paths, time of issue.
const HEAD_BYTES: usize = 1 + 1 + 8;
/// Client's address, both addresses, window, RTT in microseconds, age in seconds.
const ENTRY_BYTES: usize = 8 + 8 + 4 + 4 + 4;
const PLAIN_BYTES: usize = HEAD_BYTES + MAX_PATHS * ENTRY_BYTES;

/// What was seen of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The window that carried data without being too large, in bytes.
    pub window_bytes: u64,
    /// The least RTT.
    pub rtt: Duration,
    /// How long ago that was.
    pub age: Duration,
}

/// A path whose addresses are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The client's address.
    pub peer: IpAddr,
    /// The server's address.
    pub local: IpAddr,
    /// What was seen of it, if that is worth remembering.
    pub memory: Option<Memory>,
}

/// Why a path does not resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token says nothing of these addresses: the client's network is another one, or too little was seen.
    Unknown,
    /// It is too long ago.
    Expired,
    /// A connection has resumed with it, or more was seen of these addresses since.
    Used,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Refusal::Unknown => "nothing is known of its addresses",
            Refusal::Expired => "what is known of it is too old",
            Refusal::Used => "what is known of it was used, or replaced",
        })
    }
}

/// A token that was sealed here, or by a server with the same key.
#[derive(Clone, Debug)]
pub struct Token {
    id: u32,
    age: Duration,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: u64,
    pair: u64,
    memory: Option<Memory>,
}

/// Makes tokens and takes them back. `S` is the table, its size a power of two: [`table()`], or memory that processes
/// share.
pub struct Keeper<S> {
    seal_key: [u8; 32],
    hash_key: [u8; 32],
    slots: S,
    lifetime: Duration,
}

/// A table for the process.
pub fn table() -> Box<[AtomicU64]> {
    (0..SLOTS).map(|_| AtomicU64::new(0)).collect()
}

impl<S: AsRef<[AtomicU64]>> Keeper<S> {
    /// Tokens are sealed with what is derived from `key`, and what is in them is good for `lifetime`: with zero they
    /// stand for addresses only. `None` if the
    /// system has no cryptography, or `slots` no power of two.
    pub fn new(key: &[u8; 32], slots: S, lifetime: Duration) -> Option<Self> {
        let derive = |label: &[u8]| hmac_sha256(key, label).ok();
        slots.as_ref().len().is_power_of_two().then_some(())?;
        Some(Keeper {
            seal_key: derive(b"mpq returning seal")?,
            hash_key: derive(b"mpq returning addresses")?,
            slots,
            lifetime,
        })
    }

    /// A token for the client of a connection with these paths, after the token `before` that it was sent last, if any.
    /// Of more than [`MAX_PATHS`] paths those with the largest windows count. `now` is since the Unix epoch. `None` if
    /// there is no randomness.
    pub fn token(&self, paths: &[Path], before: Option<&[u8]>, now: Duration) -> Option<Vec<u8>> {
        let mut entries = self.entries(paths);
        entries.truncate(MAX_PATHS);

        let mut nonce = [0; NONCE_BYTES];
        boring::rand::rand_bytes(&mut nonce).ok()?;
        let id = id_of(&nonce)?;

        let mut plain = Vec::with_capacity(PLAIN_BYTES);
        plain.extend([VERSION, entries.len() as u8]);
        plain.extend(now.as_secs().to_be_bytes());
        for entry in &entries {
            let memory = entry.memory.unwrap_or(Memory::NONE);
            plain.extend(entry.peer.to_be_bytes());
            plain.extend(entry.pair.to_be_bytes());
            plain.extend(u32_of(memory.window_bytes));
            plain.extend(u32_of(memory.rtt.as_micros()));
            plain.extend(u32_of(memory.age.as_secs()));
        }
        plain.resize(PLAIN_BYTES, 0);

        let mut tag = [0; TAG_BYTES];
        let cipher = Cipher::aes_256_gcm();
        let sealed = encrypt_aead(cipher, &self.seal_key, Some(&nonce), &[], &plain, &mut tag);
        let token = [&nonce[..], &sealed.ok()?, &tag].concat();

        let before = before.and_then(|before| self.open(before, now));
        for entry in entries.iter().filter(|entry| entry.memory.is_some()) {
            let before = before
                .as_ref()
                .filter(|before| before.says_no_more_than(entry));
            let replace = |slot| {
                let kept = before
                    .map(|before| before.id)
                    .filter(|id| *id == newest(slot));
                Some(u64::from(id) << 32 | u64::from(kept.unwrap_or(0)))
            };
            self.slot(entry.pair)
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, replace)
                .ok();
        }
        Some(token)
    }

    /// What is in a token, if it was sealed with this key and not changed.
    pub fn open(&self, token: &[u8], now: Duration) -> Option<Token> {
        if token.len() != TOKEN_BYTES {
            return None;
        }
        let (nonce, rest) = token.split_at(NONCE_BYTES);
        let (sealed, tag) = rest.split_at(PLAIN_BYTES);
        let cipher = Cipher::aes_256_gcm();
        let plain = decrypt_aead(cipher, &self.seal_key, Some(nonce), &[], sealed, tag).ok()?;

        let (head, rest) = plain.split_first_chunk::<HEAD_BYTES>()?;
        let issued = Duration::from_secs(u64_of(&head[2..]));
        if head[0] != VERSION || issued > now + CLOCK_SLACK {
            return None;
        }
        Some(Token {
            id: id_of(nonce)?,
            age: now.saturating_sub(issued),
            entries: rest
                .chunks_exact(ENTRY_BYTES)
                .take(head[1].into())
                .map(Entry::read)
                .collect(),
        })
    }

    /// Whether the token shows that its client was reached at `peer` lately.
    pub fn validates(&self, token: &Token, peer: IpAddr) -> bool {
        let peer = self.hash(&[peer]);
        token.age <= ADDRESS_LIFETIME && token.entries.iter().any(|entry| entry.peer == peer)
    }

    /// What a new path with these addresses is to resume with. Nobody else gets it afterwards.
    pub fn take(&self, token: &Token, peer: IpAddr, local: IpAddr) -> Result<Memory, Refusal> {
        let pair = self.hash(&[peer, local]);
        let mut memory = token
            .entries
            .iter()
            .find(|entry| entry.pair == pair)
            .and_then(|entry| entry.memory)
            .ok_or(Refusal::Unknown)?;
        memory.age += token.age;
        if memory.age > self.lifetime || self.lifetime.is_zero() {
            return Err(Refusal::Expired);
        }
        let counts = |slot| newest(slot) == token.id || slot as u32 == token.id;
        self.slot(pair)
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |slot| {
                counts(slot).then_some(0)
            })
            .map(|_| memory)
            .map_err(|_| Refusal::Used)
    }

    /// What was seen of a path with these addresses has turned out wrong.
    pub fn forget(&self, peer: IpAddr, local: IpAddr) {
        let pair = self.hash(&[peer, local]);
        self.slot(pair).store(0, Ordering::Release);
    }

    /// One for each pair of addresses, the largest windows first. Paths with the same addresses are one to us: the
    /// least of them counts, as each may begin with it.
    fn entries(&self, paths: &[Path]) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(paths.len());
        for path in paths {
            let entry = Entry {
                peer: self.hash(&[path.peer]),
                pair: self.hash(&[path.peer, path.local]),
                memory: path.memory.filter(Memory::is_some),
            };
            match entries.iter_mut().find(|other| other.pair == entry.pair) {
                Some(other) if other.window_bytes() <= entry.window_bytes() => {}
                Some(other) => *other = entry,
                None => entries.push(entry),
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.window_bytes()));
        entries
    }

    fn slot(&self, pair: u64) -> &AtomicU64 {
        let slots = self.slots.as_ref();
        &slots[pair as usize & (slots.len() - 1)]
    }

    fn hash(&self, addresses: &[IpAddr]) -> u64 {
        let mut data = [0; 32];
        for (part, address) in data.chunks_exact_mut(16).zip(addresses) {
            let v6: Ipv6Addr = match address.to_canonical() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            part.copy_from_slice(&v6.octets());
        }
        // With a key of 32 bytes, nothing can go wrong.
        hmac_sha256(&self.hash_key, &data[..16 * addresses.len()])
            .map_or(0, |mac| u64_of(&mac[..8]))
    }
}

impl Token {
    /// Whether what it says of the path of an entry is something, and no more than that entry.
    fn says_no_more_than(&self, entry: &Entry) -> bool {
        let other = self.entries.iter().find(|other| other.pair == entry.pair);
        other.is_some_and(|other| {
            other.memory.is_some() && other.window_bytes() <= entry.window_bytes()
        })
    }
}

impl Memory {
    const NONE: Memory = Memory {
        window_bytes: 0,
        rtt: Duration::ZERO,
        age: Duration::ZERO,
    };

    fn is_some(&self) -> bool {
        self.window_bytes > 0 && self.rtt.as_micros() > 0
    }
}

impl Entry {
    fn read(bytes: &[u8]) -> Entry {
        let memory = Memory {
            window_bytes: u64_of(&bytes[16..20]),
            rtt: Duration::from_micros(u64_of(&bytes[20..24])),
            age: Duration::from_secs(u64_of(&bytes[24..28])),
        };
        Entry {
            peer: u64_of(&bytes[..8]),
            pair: u64_of(&bytes[8..16]),
            memory: Some(memory).filter(Memory::is_some),
        }
    }

    fn window_bytes(&self) -> u64 {
        self.memory.map_or(0, |memory| memory.window_bytes)
    }
}

/// The nonce says which token it is; 0 is none.
fn id_of(nonce: &[u8]) -> Option<u32> {
    Some(u64_of(&nonce[..4]) as u32).filter(|id| *id != 0)
}

/// The newest token of a place of the table, whose other half is the one before it if that counts, too.
fn newest(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn u32_of(value: impl TryInto<u32>) -> [u8; 4] {
    value.try_into().unwrap_or(u32::MAX).to_be_bytes()
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn keeper(key: u8) -> Keeper<Box<[AtomicU64]>> {
        Keeper::new(&[key; 32], table(), HOUR).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn path(peer: &str, window_bytes: u64) -> Path {
        let rtt = Duration::from_millis(50);
        Path {
            peer: ip(peer),
            local: ip("192.0.2.1"),
            memory: (window_bytes > 0).then_some(Memory {
                window_bytes,
                rtt,
                age: Duration::ZERO,
            }),
        }
    }

    fn issue<S: AsRef<[AtomicU64]>>(keeper: &Keeper<S>, peer: &str, window_bytes: u64) -> Vec<u8> {
        keeper
            .token(&[path(peer, window_bytes)], None, NOW)
            .unwrap()
    }

    fn take<S: AsRef<[AtomicU64]>>(
        keeper: &Keeper<S>,
        token: &[u8],
        peer: &str,
        after: Duration,
    ) -> Result<u64, Refusal> {
        let token = keeper.open(token, NOW + after).unwrap();
        let taken = keeper.take(&token, ip(peer), ip("192.0.2.1"));
        taken.map(|memory| memory.window_bytes)
    }

    #[test]
    fn each_path_is_known_by_its_addresses_once() {
        let keeper = keeper(1);
        let paths = [path("198.51.100.1", 400_000), path("2001:db8::1", 90_000)];
        let token = keeper.token(&paths, None, NOW).unwrap();
        assert_eq!(token.len(), TOKEN_BYTES);

        let opened = keeper.open(&token, NOW).unwrap();
        let local = ip("192.0.2.1");
        let second = keeper.take(&opened, ip("2001:db8::1"), local).unwrap();
        assert_eq!(Some(second), paths[1].memory);
        let again = keeper.take(&opened, ip("2001:db8::1"), local);
        assert_eq!(again, Err(Refusal::Used));
        // An address may come in either form.
        let mapped = ip("::ffff:198.51.100.1");
        assert_eq!(
            keeper.take(&opened, mapped, local),
            Ok(paths[0].memory.unwrap())
        );
        // A token that comes again has nothing left.
        assert_eq!(
            take(&keeper, &token, "198.51.100.1", HOUR / 2),
            Err(Refusal::Used)
        );
    }

    #[test]
    fn another_network_is_not_known() {
        let keeper = keeper(1);
        let token = issue(&keeper, "198.51.100.1", 400_000);
        let opened = keeper.open(&token, NOW).unwrap();
        for (peer, local) in [
            ("198.51.100.2", "192.0.2.1"),
            ("198.51.100.1", "192.0.2.2"),
            // Nor are the two the same the other way round.
            ("192.0.2.1", "198.51.100.1"),
        ] {
            let taken = keeper.take(&opened, ip(peer), ip(local));
            assert_eq!(taken, Err(Refusal::Unknown), "{peer} {local}");
        }
        assert!(take(&keeper, &token, "198.51.100.1", HOUR).is_ok());
    }

    #[test]
    fn memory_is_for_a_lifetime_and_addresses_for_theirs() {
        let keeper = keeper(1);
        let paths = [path("198.51.100.1", 400_000), path("198.51.100.2", 0)];
        let token = keeper.token(&paths, None, NOW).unwrap();
        let late = HOUR + Duration::from_secs(1);
        assert_eq!(
            take(&keeper, &token, "198.51.100.1", late),
            Err(Refusal::Expired)
        );
        let validates = |peer, after| {
            let opened = keeper.open(&token, NOW + after).unwrap();
            keeper.validates(&opened, ip(peer))
        };
        // All addresses of the connection, whatever was seen there.
        assert!(validates("198.51.100.1", ADDRESS_LIFETIME));
        assert!(validates("198.51.100.2", ADDRESS_LIFETIME));
        assert!(!validates("198.51.100.3", Duration::ZERO));
        assert!(!validates("198.51.100.1", ADDRESS_LIFETIME + CLOCK_SLACK));
        // From the future.
        let early = NOW - CLOCK_SLACK - Duration::from_secs(1);
        assert!(keeper.open(&token, early).is_none());
        assert!(take(&keeper, &token, "198.51.100.1", HOUR).is_ok());
    }

    #[test]
    fn what_is_passed_on_does_not_become_younger() {
        let keeper = keeper(1);
        let first = issue(&keeper, "198.51.100.1", 400_000);
        let (later, local) = (NOW + HOUR / 2, ip("192.0.2.1"));
        let opened = keeper.open(&first, later).unwrap();
        let memory = keeper.take(&opened, ip("198.51.100.1"), local).unwrap();
        assert_eq!(memory.age, HOUR / 2);

        let mut passed_on = path("198.51.100.1", 0);
        passed_on.memory = Some(memory);
        let second = keeper.token(&[passed_on], None, later).unwrap();
        let late = HOUR + Duration::from_secs(1);
        assert_eq!(
            take(&keeper, &second, "198.51.100.1", late),
            Err(Refusal::Expired)
        );
        assert!(take(&keeper, &second, "198.51.100.1", HOUR).is_ok());
    }

    #[test]
    fn what_turned_out_wrong_is_forgotten() {
        let keeper = keeper(1);
        let paths = [path("198.51.100.1", 400_000), path("198.51.100.2", 300_000)];
        let token = keeper.token(&paths, None, NOW).unwrap();
        keeper.forget(ip("198.51.100.1"), ip("192.0.2.1"));
        assert_eq!(
            take(&keeper, &token, "198.51.100.1", HOUR),
            Err(Refusal::Used)
        );
        assert_eq!(take(&keeper, &token, "198.51.100.2", HOUR), Ok(300_000));
    }

    #[test]
    fn only_the_newest_of_the_same_addresses_counts() {
        let keeper = keeper(1);
        let first = issue(&keeper, "198.51.100.1", 400_000);
        let other = issue(&keeper, "198.51.100.2", 300_000);
        let second = issue(&keeper, "198.51.100.1", 200_000);
        let unseen = issue(&keeper, "198.51.100.1", 0);
        let late = HOUR / 2;
        assert_eq!(
            take(&keeper, &first, "198.51.100.1", late),
            Err(Refusal::Used)
        );
        assert_eq!(
            take(&keeper, &unseen, "198.51.100.1", late),
            Err(Refusal::Unknown)
        );
        assert_eq!(take(&keeper, &second, "198.51.100.1", late), Ok(200_000));
        assert_eq!(take(&keeper, &other, "198.51.100.2", late), Ok(300_000));
    }

    /// The last token of a connection may not arrive.
    #[test]
    fn the_one_before_counts_in_place_of_the_newest() {
        let keeper = keeper(1);
        let peer = "198.51.100.1";
        let issue = |window, before: Option<&Vec<u8>>| {
            let before = before.map(|token| &token[..]);
            keeper.token(&[path(peer, window)], before, NOW).unwrap()
        };

        // Either of the two, and then neither.
        let first = issue(200_000, None);
        let second = issue(300_000, Some(&first));
        assert_eq!(take(&keeper, &first, peer, HOUR), Ok(200_000));
        assert_eq!(take(&keeper, &second, peer, HOUR), Err(Refusal::Used));
        let first = issue(200_000, None);
        let second = issue(200_000, Some(&first));
        assert_eq!(take(&keeper, &second, peer, HOUR), Ok(200_000));
        assert_eq!(take(&keeper, &first, peer, HOUR), Err(Refusal::Used));

        // None but the last two.
        let first = issue(200_000, None);
        let second = issue(300_000, Some(&first));
        let third = issue(400_000, Some(&second));
        assert_eq!(take(&keeper, &first, peer, HOUR), Err(Refusal::Used));
        assert_eq!(take(&keeper, &second, peer, HOUR), Ok(300_000));
        assert_eq!(take(&keeper, &third, peer, HOUR), Err(Refusal::Used));

        // Not what says more than is known since,
        let first = issue(200_000, None);
        let second = issue(100_000, Some(&first));
        assert_eq!(take(&keeper, &first, peer, HOUR), Err(Refusal::Used));
        assert_eq!(take(&keeper, &second, peer, HOUR), Ok(100_000));

        // nor what was used, or another connection replaced.
        let first = issue(200_000, None);
        assert!(take(&keeper, &first, peer, HOUR).is_ok());
        issue(300_000, Some(&first));
        assert_eq!(take(&keeper, &first, peer, HOUR), Err(Refusal::Used));
        let first = issue(200_000, None);
        issue(200_000, None);
        let second = issue(300_000, Some(&first));
        assert_eq!(take(&keeper, &first, peer, HOUR), Err(Refusal::Used));
        assert_eq!(take(&keeper, &second, peer, HOUR), Ok(300_000));
    }

    #[test]
    fn paths_with_the_same_addresses_are_one_and_the_least() {
        let keeper = keeper(1);
        for windows in [[300_000, 100_000], [100_000, 300_000]] {
            let paths = windows.map(|bytes| path("198.51.100.1", bytes));
            let token = keeper.token(&paths, None, NOW).unwrap();
            assert_eq!(take(&keeper, &token, "198.51.100.1", HOUR), Ok(100_000));
            assert_eq!(
                take(&keeper, &token, "198.51.100.1", HOUR),
                Err(Refusal::Used)
            );
        }
    }

    #[test]
    fn of_many_paths_the_largest_are_kept() {
        let keeper = keeper(1);
        let paths: Vec<Path> = (1..=10)
            .map(|i| path(&format!("198.51.100.{i}"), i * 100_000))
            .collect();
        let token = keeper.token(&paths, None, NOW).unwrap();
        for i in 1..=10 {
            let peer = format!("198.51.100.{i}");
            let taken = take(&keeper, &token, &peer, HOUR);
            assert_eq!(taken.is_ok(), i > 2, "{i}: {taken:?}");
        }
        let huge = issue(&keeper, "198.51.100.1", u64::MAX);
        let most = u64::from(u32::MAX);
        assert_eq!(take(&keeper, &huge, "198.51.100.1", HOUR), Ok(most));
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        let keeper = keeper(1);
        let token = issue(&keeper, "198.51.100.1", 400_000);
        for i in 0..token.len() {
            let mut forged = token.clone();
            forged[i] ^= 1;
            assert!(keeper.open(&forged, NOW).is_none(), "byte {i}");
            assert!(keeper.open(&token[..i], NOW).is_none(), "{i} bytes");
        }
        assert!(keeper.open(&[&token[..], &[0]].concat(), NOW).is_none());
        assert!(self::keeper(2).open(&token, NOW).is_none());

        // After a restart with the same key, or at another server that has it: the address is valid, no more.
        let restarted = self::keeper(1);
        let opened = restarted.open(&token, NOW).unwrap();
        assert!(restarted.validates(&opened, ip("198.51.100.1")));
        assert_eq!(
            take(&restarted, &token, "198.51.100.1", HOUR),
            Err(Refusal::Used)
        );
    }

    #[test]
    fn a_table_has_a_size_that_is_a_power_of_two() {
        let table = |n: usize| -> Vec<AtomicU64> { (0..n).map(|_| AtomicU64::new(0)).collect() };
        assert!(Keeper::new(&[1; 32], table(3), HOUR).is_none());
        // In a table of one place each client takes it from the one before.
        let keeper = Keeper::new(&[1; 32], table(1), HOUR).unwrap();
        let first = issue(&keeper, "198.51.100.1", 400_000);
        let second = issue(&keeper, "198.51.100.2", 400_000);
        assert_eq!(
            take(&keeper, &first, "198.51.100.1", HOUR),
            Err(Refusal::Used)
        );
        assert!(take(&keeper, &second, "198.51.100.2", HOUR).is_ok());
    }
}
