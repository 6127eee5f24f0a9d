"""Finds what cargo has built."""

import os
from pathlib import Path


def find(program):
    """The file of `program`: the one that its environment variable names, MPQ_WIRE for mpq-wire, or the newest
    that cargo has built. None if there is none."""
    if named := os.environ.get(program.upper().replace("-", "_")):
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[2] / "target")
    built = [file for profile in ("release", "debug") if (file := target / profile / program).is_file()]
    return max(built, key=lambda file: file.stat().st_mtime, default=None)
