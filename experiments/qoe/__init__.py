"""The viewers' study: films and clips over pairs of networks from life, over one path, the other, and both.

`scenes/` has a file for each scene, `study.toml` what is compared in them and what counts as reached. The rest:
`links.py` draws what links do from a seed, `scene.py` reads a scene, `study.py` what is run, `sessions.py` one row for
each session, `spread.py` means with intervals, `goals.py` the verdicts, `timeline.py`, `charts.py`, `page.py` and
`tables.py` what is shown.
"""
