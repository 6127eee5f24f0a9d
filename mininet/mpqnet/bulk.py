"""Files to download, and their digests."""

import hashlib
import random


def make_bulk(file, size, seed):
    """Writes the file to download: `size` bytes that no compression shortens, the same for each seed."""
    file.write_bytes(random.Random(seed).randbytes(size))


def sha256_of(file):
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
