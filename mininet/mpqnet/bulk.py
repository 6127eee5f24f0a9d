"""Files to download, and their digests."""

import hashlib
import random


PIECE_BYTES = 16 << 20


def make_bulk(file, size, seed):
    """Writes the file to download: `size` bytes that no compression shortens, the same for each seed."""
    source = random.Random(seed)
    with open(file, "wb") as stream:
        # All of it at once would be held in memory, several times.
        for start in range(0, size, PIECE_BYTES):
            stream.write(source.randbytes(min(PIECE_BYTES, size - start)))


def sha256_of(file):
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
