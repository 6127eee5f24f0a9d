"""Judges `mpq tune` in virtual time: on drawn pairs of sites, a quick search against an exhaustive one and the default.

Each pair has two to four paths. The exhaustive search measures every controller, path manager and buffer with other seeds
than the quick one, so that both see different packets; a choice is worth the mean of its measurements, since the best of 144
single runs is the luckiest one. The quick search runs with --delta 0, as the goal is about throughput: within 5 % of the best
point for nine pairs in ten, at a tenth of the time of one exhaustive search.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONTROLLERS = ("uncoupled-cubic", "olia", "hybla", "uncoupled-reno", "scalable", "vegas")
MANAGERS = ("full-mesh", "pcdc-quick")
# MiB; the rates are some Mbit/s, so that a tenth of the paper's buffers does.
BUFFERS = tuple(round(3 / 1.5 ** n, 4) for n in range(11, -1, -1))
SECONDS = 10
QUICK_SEED, SEEDS = 1, (1001, 1002, 1003)
DEFAULT = ("uncoupled-cubic", "full-mesh", BUFFERS[-1])
GOAL_RATIO, GOAL_SHARE, GOAL_COST = 0.95, 0.9, 0.1


def scenario(seed):
    """A pair of sites, drawn: paths of 0.3 to 6 Mbit/s and 10 to 600 ms, with all kinds of queues, some with losses."""
    draw = random.Random(seed)
    text = ['question = "Which controller, path manager and buffer?"', 'expected = "It depends."', 'duration = "10 s"']
    names = [f"p{n}" for n in range(draw.randint(2, 4))]
    for name in names:
        rate = 0.3 * 20 ** draw.random()
        rtt = 10 * 60 ** draw.random()
        queue = draw.choice((0.3, 1.0, 3.0))
        loss = draw.choice((0, 0, 0.01, 0.1, 0.5))
        text += ["[[link]]", f'name = "{name}"', f'rate = "{rate:.3f} Mbit/s"', f'rtt = "{rtt:.1f} ms"', f'queue = "{queue} BDP"']
        if loss:
            text.append(f'loss = "{loss} %"')
    text += ["[[flow]]", 'name = "mp"', f"paths = {json.dumps(names)}", "re_entry = false", "fast_start = false",
             f'scheduler = "{draw.choice(("ecf", "min-rtt"))}"']
    return "\n".join(text) + "\n"


def tune(mpq, file, out, *options):
    report = out.with_suffix(".json")
    command = [str(mpq), "tune", str(file), "--out", str(out), "--quiet", f"--json={report}", "--controllers",
               ",".join(CONTROLLERS), "--managers", ",".join(MANAGERS), "--buffers", ",".join(map(str, BUFFERS)),
               "--time", str(SECONDS), "--rounds", "1", "--delta", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tune.py: {' '.join(command)}\n{done.stderr}")
    return json.loads(report.read_text(encoding="utf-8"))


def pair(mpq, out, seed):
    """{what: number} of one pair of sites."""
    file = out / f"pair-{seed}.toml"
    file.write_text(scenario(seed), encoding="utf-8")
    reports = [tune(mpq, file, out / f"pair-{seed}-all-{of}", "--method", "published", "--seed", str(of)) for of in SEEDS]
    every = reports[0]
    quick = tune(mpq, file, out / f"pair-{seed}-quick", "--seed", str(QUICK_SEED))
    runs = {}
    for one in (one for report in reports for one in report["measurements"]):
        runs.setdefault((one["cc"], one["paths"], one["buffer_mib"]), []).append(one["mbps"])
    worth = {point: statistics.mean(mbps) for point, mbps in runs.items()}
    best = max(worth.values())
    # What leaves no path out was not measured as another manager, but is the same.
    chosen = (quick["cc"], quick["paths"], quick["buffer_mib"])
    # The model's buffer lies between those that were measured: the next larger one.
    modelled = (every["cc"], every["paths"], min((b for b in BUFFERS if b >= every["buffer_mib"] - 1e-6), default=BUFFERS[-1]))
    return {"pair": seed, "best": best, "quick": worth[chosen] / best, "default": worth[DEFAULT] / best,
            "model": worth[modelled] / best, "cost": quick["cost"]["seconds"] / every["cost"]["seconds"],
            "quick choice": chosen, "best choice": max(worth, key=worth.get)}


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        prog="tune.py", description="Judges mpq tune on drawn pairs of sites, in virtual time.",
        epilog="exit status: 0 the goal is met, 1 it is not. What is measured is kept in --out and not measured again.")
    parser.add_argument("--mpq", type=Path, default=Path("target/release/mpq"), help="[default: %(default)s]")
    parser.add_argument("--pairs", type=int, default=50, metavar="N", help="pairs of sites [default: %(default)s]")
    parser.add_argument("--first", type=int, default=151, metavar="N",
                        help="number of the first pair; the search was made with 1 to 50, and judged by single runs of "
                             "101 to 150 [default: %(default)s]")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="pairs at a time [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=Path("out/tune-judged"), metavar="FOLDER", help="[default: %(default)s]")
    return parser.parse_args(words)


def main(words=None):
    arguments = parse_arguments(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda seed: pair(arguments.mpq, arguments.out, seed), range(arguments.first, arguments.first + arguments.pairs)))
    (arguments.out / "pairs.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("pair  best Mbit/s  quick  model  default  cost   quick's choice")
    for row in rows:
        print(f"{row['pair']:4}  {row['best']:11.2f}  {row['quick']:5.2f}  {row['model']:5.2f}  {row['default']:7.2f}  "
              f"{row['cost']:4.1%}  {', '.join(map(str, row['quick choice']))}")
    near = sum(row["quick"] >= GOAL_RATIO for row in rows)
    cost = max(row["cost"] for row in rows)
    met = near >= GOAL_SHARE * len(rows) and cost <= GOAL_COST
    print(f"\nquick is within 5 % of the best for {near} of {len(rows)}, at {cost:.1%} of the time at most: "
          f"the goal (90 %, 10 %) is {'met' if met else 'missed'}")
    for what in ("quick", "model", "default"):
        parts = [row[what] for row in rows]
        print(f"{what:8} median {statistics.median(parts):.3f} of the best, least {min(parts):.3f}; within 5 % for "
              f"{sum(part >= GOAL_RATIO for part in parts)}")
    better = sum(row["quick"] > row["default"] for row in rows)
    worse = sum(row["quick"] < row["default"] for row in rows)
    print(f"against the default: quick is ahead for {better}, behind for {worse}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
