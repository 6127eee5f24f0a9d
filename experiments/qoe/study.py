"""What is compared: `study.toml`, as it is for a reduced or a full run."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).resolve().parent / "study.toml"


@dataclass(frozen=True)
class Viewer:
    """Who watches what, as keys of a flow's table `dash`."""
    name: str
    label: str
    dash: dict
    full: bool = False
    arms: tuple = ()  # the only ones over which it is played; () for no such limit

    @property
    def is_live(self):
        return self.dash.get("live", False)

    @property
    def hours(self):
        """Length of what is watched."""
        return float(self.dash["length"].split()[0]) / 3600


@dataclass(frozen=True)
class Arm:
    """A way to use the two paths."""
    name: str
    label: str = ""
    paths: str = "both"
    set: dict = field(default_factory=dict)
    full: bool = False
    emulated: bool = False

    @property
    def words(self):
        return self.label or f"both, {self.name}"


@dataclass(frozen=True)
class Session:
    """One case of every scene and seed."""
    viewer: Viewer
    arm: Arm

    @property
    def name(self):
        return f"{self.viewer.name}--{self.arm.name}"


@dataclass(frozen=True)
class Study:
    """All of `study.toml` that counts for this run."""
    content: dict
    seeds: tuple
    viewers: tuple
    arms: tuple
    absent: tuple  # arms that virtual time cannot have
    goals: dict
    sessions: tuple

    def arm(self, name):
        return next(arm for arm in (*self.arms, *self.absent) if arm.name == name)

    def viewer(self, name):
        return next(viewer for viewer in self.viewers if viewer.name == name)


def folder(out, scene, viewer, seed):
    """Where `mpq sim` puts the sessions of a scene, a viewer and a seed."""
    return out / f"{scene}-{viewer}-{seed}"


def load(full, file=FILE, seeds=None):
    """The study, with `full` all of it; `seeds` in place of its own."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    every = [Arm(**arm) for arm in data["arm"]]
    viewers = [Viewer(**entry) for entry in data["viewer"]]
    viewers = [viewer for viewer in viewers if full or not viewer.full]
    arms = [arm for arm in every if not arm.emulated and (full or not arm.full)]
    sessions = [Session(viewer, arm) for viewer in viewers for arm in arms
                if (not arm.full or viewer.name in data["design"]["every_arm"]) and (not viewer.arms or arm.name in viewer.arms)]
    return Study(content=data["content"], seeds=tuple(seeds or data["seeds"]["full" if full else "reduced"]), viewers=tuple(viewers),
                 arms=tuple(arms), absent=tuple(arm for arm in every if arm.emulated), goals=data["goals"],
                 sessions=tuple(sessions))
