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
    verdicts = goals.Judge(found, scenes, plan.goals).all()
    shown = page.Page(found, scenes, plan, verdicts, "ci/qoe --full" if arguments.full else "ci/qoe")
    (arguments.out / "index.html").write_text(shown.html(), encoding="utf-8")
    tables.write(arguments.out, found, verdicts, plan.goals["confidence"])
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
    """Only seeds of which every scene has every session, so that each is compared with its own."""
    wanted = {(scene.name, session.viewer.name, session.arm.name) for scene in scenes for session in plan.sessions}
    there = {}
    for row in found.rows:
        there.setdefault(row.seed, set()).add((row.scene, row.viewer, row.arm))
    gone = {(seed, scene, viewer, arm) for scene, seed, viewer, arm, _ in found.failed}
    whole = {seed for seed, cases in there.items() if not {case for case in wanted - cases if (seed, *case) not in gone}}
    if len(whole) < len(there):
        print(f"viewers: seeds {sorted(set(there) - whole)} are not complete yet, and left out", file=sys.stderr)
    if not whole:
        raise sessions.ResultError("no seed is complete yet; `viewers.py run` goes on where it was")
    return sessions.Sessions([row for row in found.rows if row.seed in whole],
                             [one for one in found.failed if one[1] in whole])
