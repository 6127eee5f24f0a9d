"""Finds what cargo has built, and marks the tests that need it, or a network of their own."""

import os
from pathlib import Path

import pytest


def find(program):
    """The file of `program`: the one that its environment variable names, MPQ_WIRE for mpq-wire, or the newest
    that cargo has built. None if there is none."""
    if named := os.environ.get(program.upper().replace("-", "_")):
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[2] / "target")
    built = [file for profile in ("release", "debug") if (file := target / profile / program).is_file()]
    return max(built, key=lambda file: file.stat().st_mtime, default=None)


needs_mpq = pytest.mark.skipif(not find("mpq"), reason="no mpq: cargo build -p mpq")

# For a file: pytestmark = in_namespaces.
in_namespaces = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]
