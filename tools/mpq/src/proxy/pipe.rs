//! Bytes between a task of the HTTP side and the thread of the QUIC side, one way, and only so many at a time.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::task::Poll;
use std::task::Waker;

use bytes::Buf;
use bytes::Bytes;
use hyper::HeaderMap;

/// What a pipe holds at most before its writer has to wait, in bytes.
pub const CAPACITY_BYTES: usize = 256 << 10;

/// How the writer ended: with trailers perhaps, or with an error.
pub type End<E> = Result<Option<HeaderMap>, E>;

/// One writer, one reader. Each is woken when what it waited for has come.
#[derive(Debug)]
pub struct Pipe<E>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    end: Option<End<E>>,
    /// The reader wants no more.
    is_abandoned: bool,
    /// The reader has asked once: nothing is taken from a writer for nobody.
    is_wanted: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The next of a pipe.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<E> {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// No further ones.
    End(End<E>),
}

impl<E> Pipe<E> {
    /// An empty one.
    pub fn new() -> Pipe<E> {
        Pipe(Mutex::new(State {
            chunks: VecDeque::new(),
            bytes: 0,
            end: None,
            is_abandoned: false,
            is_wanted: false,
            reader: None,
            writer: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        // Nothing in here panics.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many bytes the writer may push now. With 0, `waker` is woken when there is room for half of the capacity.
    pub fn room(&self, waker: &Waker) -> usize {
        let mut state = self.lock();
        let room = CAPACITY_BYTES.saturating_sub(state.bytes);
        if room == 0 && !state.is_abandoned {
            state.writer = Some(waker.clone());
            return 0;
        }
        // What nobody reads is thrown away.
        room.max(1)
    }

    /// Whether the reader has asked for something, and there is room for it; `waker` is woken when it is so.
    pub fn poll_wanted(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.lock();
        if state.is_abandoned || state.is_wanted && state.bytes < CAPACITY_BYTES {
            return Poll::Ready(());
        }
        state.writer = Some(waker.clone());
        Poll::Pending
    }

    /// Appends bytes. False: the reader wants no more, ever.
    pub fn push(&self, bytes: Bytes) -> bool {
        let mut state = self.lock();
        if state.is_abandoned {
            return false;
        }
        if !bytes.is_empty() {
            state.bytes += bytes.len();
            state.chunks.push_back(bytes);
            wake(state.reader.take());
        }
        true
    }

    /// Nothing more will be pushed. The first end counts.
    pub fn end(&self, end: End<E>) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        wake(state.reader.take());
    }

    /// Whether somebody still reads it.
    pub fn is_open(&self) -> bool {
        !self.lock().is_abandoned
    }

    /// Nothing more will be read.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        state.chunks.clear();
        state.bytes = 0;
        wake(state.writer.take());
    }

    /// The next item, at most `max` bytes of it. After an end there is nothing.
    pub fn poll_next(&self, waker: &Waker, max: usize) -> Poll<Item<E>> {
        let mut state = self.lock();
        let was_wanted = std::mem::replace(&mut state.is_wanted, true);
        if let Some(mut chunk) = state.chunks.pop_front() {
            let taken = chunk.split_to(max.min(chunk.len()));
            if chunk.has_remaining() {
                state.chunks.push_front(chunk);
            }
            state.bytes -= taken.len();
            // Not for every packet.
            if state.bytes <= CAPACITY_BYTES / 2 {
                wake(state.writer.take());
            }
            return Poll::Ready(Item::Bytes(taken));
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(Item::End(end));
        }
        if !was_wanted {
            wake(state.writer.take());
        }
        state.reader = Some(waker.clone());
        Poll::Pending
    }

    /// The same for a reader that fills buffers and knows no end but that of the bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is nothing yet, and what the writer ended with.
    pub fn read(&self, waker: &Waker, buf: &mut [u8]) -> io::Result<usize>
    where
        E: ToString,
    {
        match self.poll_next(waker, buf.len()) {
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            Poll::Ready(Item::Bytes(bytes)) => {
                buf[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Poll::Ready(Item::End(Ok(_))) => Ok(0),
            Poll::Ready(Item::End(Err(e))) => Err(io::Error::other(e.to_string())),
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), count.into())
    }

    #[test]
    fn a_full_pipe_holds_its_writer_until_half_of_it_is_read() {
        let pipe = Pipe::<String>::new();
        let (woken, writer) = waker();
        let (_, reader) = waker();
        for _ in 0..4 {
            assert!(pipe.room(&writer) >= CAPACITY_BYTES / 4);
            assert!(pipe.push(vec![7; CAPACITY_BYTES / 4].into()));
        }
        assert_eq!(pipe.room(&writer), 0);
        for left in [3, 2] {
            assert_eq!(woken.0.load(SeqCst), 0, "{left}");
            let Poll::Ready(Item::Bytes(bytes)) = pipe.poll_next(&reader, usize::MAX) else {
                panic!("nothing there");
            };
            assert_eq!(bytes.len(), CAPACITY_BYTES / 4);
        }
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(pipe.room(&writer), CAPACITY_BYTES / 2);
    }

    #[test]
    fn a_reader_is_woken_and_gets_parts() {
        let pipe = Pipe::<String>::new();
        let (woken, reader) = waker();
        let (_, writer) = waker();
        assert!(pipe.poll_wanted(&writer).is_pending(), "nobody asked yet");
        let mut buf = [0; 3];
        let e = pipe.read(&reader, &mut buf).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
        assert!(pipe.poll_wanted(&writer).is_ready());
        pipe.push("abcd".into());
        pipe.end(Ok(None));
        pipe.end(Err("too late".into()));
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(pipe.read(&reader, &mut buf).unwrap(), 3);
        assert_eq!(pipe.read(&reader, &mut buf).unwrap(), 1);
        assert_eq!(buf[0], b'd');
        assert_eq!(pipe.read(&reader, &mut buf).unwrap(), 0);
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it() {
        let pipe = Pipe::new();
        let (_, reader) = waker();
        pipe.push("a".into());
        pipe.end(Err("broken"));
        assert_eq!(
            pipe.poll_next(&reader, 9),
            Poll::Ready(Item::Bytes("a".into()))
        );
        assert_eq!(
            pipe.poll_next(&reader, 9),
            Poll::Ready(Item::End(Err("broken")))
        );
    }

    #[test]
    fn what_is_abandoned_wakes_its_writer_and_takes_nothing() {
        let pipe = Pipe::<String>::new();
        let (woken, writer) = waker();
        pipe.push(vec![7; CAPACITY_BYTES].into());
        assert_eq!(pipe.room(&writer), 0);
        pipe.abandon();
        assert_eq!(woken.0.load(SeqCst), 1);
        assert!(pipe.room(&writer) > 0);
        assert!(!pipe.push("a".into()));
    }
}
