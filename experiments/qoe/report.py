"""Judges what was run, and writes page, tables and picture."""

import sys

from . import goals, page, picture, sessions, story, tables


def write(arguments, scenes, plan):
    """Returns whether each goal is met by some judged arm."""
    found = sessions.load(arguments.out, scenes, plan)
    found = _complete(found, scenes, plan)
    for file in arguments.also:
        found.rows += sessions.read(file)
    scenes = [scene for scene in scenes if any(row.scene == scene.name for row in found.rows)]
    verdicts = goals.Judge(found, scenes, plan).all()
    shown = page.Page(found, scenes, plan, verdicts, "ci/qoe --full" if arguments.full else "ci/qoe")
    (arguments.out / "index.html").write_text(shown.html(), encoding="utf-8")
    tables.write(arguments.out, found, scenes, plan, verdicts)
    if arguments.picture:
        arguments.picture.write_text(picture.svg(picture.figures(found, scenes, plan)), encoding="utf-8")
    print("\n".join(story.sentences(found, scenes, plan)), end="\n\n")
    words = {True: "yes", False: "NO", None: "-"}
    for one in verdicts:
        print(f"{words[one.met]:<4}{one.arm:<8}{one.words}: {one.shown}")
    print(f"\n{arguments.out / 'index.html'}")
    return all(any(one.met for one in verdicts if one.goal == goal and one.met is not None)
               for goal in {one.goal for one in verdicts if one.met is not None})


def _complete(found, scenes, plan):
    """For each viewer only seeds of which every scene has every session, so that each is compared with its own."""
    there = {(row.viewer, row.seed, row.scene, row.arm) for row in found.rows}
    whole = set()
    for viewer in plan.viewers:
        arms = [session.arm.name for session in plan.sessions if session.viewer == viewer]
        seeds = {seed for seed in plan.seeds if all((viewer.name, seed, scene.name, arm) in there for scene in scenes for arm in arms)}
        whole |= {(viewer.name, seed) for seed in seeds}
        if left := sorted(set(plan.seeds) - seeds):
            print(f"viewers: {viewer.name} is not complete with the seeds {', '.join(map(str, left))}, which are left out",
                  file=sys.stderr)
    if not whole:
        raise sessions.ResultError("no seed is complete yet; `viewers.py run` goes on where it was")
    return sessions.Sessions([row for row in found.rows if (row.viewer, row.seed) in whole],
                             [one for one in found.failed if (one[2], one[1]) in whole])
