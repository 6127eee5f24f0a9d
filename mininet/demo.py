"""The demonstration: a video and a download over WiFi, over LTE and over both, on emulated links.

Run it by `ci/demo`, which builds what it needs. Needs root.
"""

import argparse
import json
import os
import platform
import signal
import sys
from pathlib import Path

from mpqnet import page, results, scenario
from mpqnet.bulk import make_bulk, sha256_of
from mpqnet.link import LinkError, choose_backend
from mpqnet.live import run_live
from mpqnet.nginx import Nginx
from mpqnet.process import CommandError
from mpqnet.server import PORT, Server, client_command
from mpqnet.topology import DisjointPaths, measure_links

BULK = "bulk.bin"
NGINX_DIRECTIVES = "quic_multipath on; quic_scheduler ecf;"
HERE = Path(__file__).resolve().parent


def run_stages(arguments, plan, net, server, out):
    """Plays and downloads over each choice of paths; returns both by name."""
    runs = {**{name: [name] for name in net.links}, "both": list(net.links)}
    total, stage = 2 * len(runs), 0
    plays, gets = {}, {}
    expected = sha256_of(arguments.content / BULK)
    for name, links in runs.items():
        stage += 1
        report = out / f"play-{name}.json"
        command = client_command(arguments.mpq, "play", net, server, links, arguments.mpd, report)
        run_live(net.client, command, f"[{stage}/{total}] play over {name}", plan.traffic.play_timeout_s,
                 out / f"play-{name}.log")
        plays[name] = results.load_play(report)
    for name, links in runs.items():
        stage += 1
        report, target = out / f"get-{name}.json", out / f"get-{name}.bin"
        command = client_command(arguments.mpq, "get", net, server, links, BULK, report)
        target.unlink(missing_ok=True)
        try:
            run_live(net.client, [*command, "-o", target], f"[{stage}/{total}] download over {name}",
                     plan.traffic.get_timeout_s, out / f"get-{name}.log")
            if (got := sha256_of(target)) != expected:
                raise results.ResultError(f"the download over {name} is damaged: SHA-256 {got}, not {expected}")
        finally:
            target.unlink(missing_ok=True)
        gets[name] = results.load_get(report)
        if gets[name].sha256 != expected:
            raise results.ResultError(f"get-{name}.json states SHA-256 {gets[name].sha256}, not {expected}")
    return plays, gets


def make_server(arguments, net, out):
    """The server that is asked for, which is to be entered."""
    if arguments.server == "mpq":
        return Server(net, arguments.mpq, arguments.content)
    addresses = [f"{net.server_address(name)}:{PORT}" for name in net.links]
    return Nginx(net.server, arguments.nginx, out / "nginx", arguments.content, addresses, NGINX_DIRECTIVES)


def demo(arguments):
    """Runs everything; returns the exit status."""
    plan = scenario.load(arguments.scenario)
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    make_bulk(arguments.content / BULK, plan.traffic.bulk_bytes, plan.seed)
    print(f"Question: {plan.question}\nExpected: {plan.expected}\n")
    backend = choose_backend(arguments.backend)
    with DisjointPaths(plan.links, backend, seed=plan.seed, wire=arguments.wire, report=out) as net:
        notes = measure_links(net)
        link_of = {net.client_address(name): name for name in net.links}
        with make_server(arguments, net, out) as server:
            plays, gets = run_stages(arguments, plan, net, server, out)
    notes.append(f"served by {arguments.nginx if arguments.server == 'nginx' else 'mpq serve'}".replace(str(Path.cwd()) + "/", ""))
    notes.append(f"Linux {platform.release()}, {os.cpu_count()} processors, seed {plan.seed}")
    data = results.summary(plays, gets, link_of)
    (out / "summary.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    (out / "index.html").write_text(page.page(plan, data, plays, gets, link_of, notes), encoding="utf-8")
    print("\n" + results.table(data) + "\n")
    print(f"Figures: {out / 'index.html'}\nSummary: {out / 'summary.json'}")
    problems = results.shortfalls(data)
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--content", type=Path, required=True, help="directory with the video; the file to download is put there")
    parser.add_argument("--mpd", default="manifest.mpd", help="the video's manifest in it (default: %(default)s)")
    parser.add_argument("--mpq", type=Path, required=True, help="the mpq program")
    parser.add_argument("--server", choices=("nginx", "mpq"), default="nginx", help="who serves: nginx, or mpq serve (default: %(default)s)")
    parser.add_argument("--nginx", type=Path, help="the nginx program, as tools/nginx/build installs it")
    parser.add_argument("--wire", type=Path, required=True, help="the mpq-wire program, for kernels without netem")
    parser.add_argument("--scenario", type=Path, default=HERE / "demo.toml")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where results go (default: %(default)s)")
    parser.add_argument("--backend", choices=("auto", "netem", "wire"), default="auto")
    arguments = parser.parse_args(words)
    # Children run in the directory of their node's shell, so paths must not be relative.
    if arguments.server == "nginx" and arguments.nginx is None:
        parser.error("--server nginx needs --nginx PROGRAM; ci/demo builds and names it")
    programs = ["mpq", "wire"] + (["nginx"] if arguments.server == "nginx" else [])
    for name in ("content", "scenario", "out", *programs):
        setattr(arguments, name, getattr(arguments, name).resolve())
    for file in (arguments.content / arguments.mpd, arguments.scenario, *(getattr(arguments, name) for name in programs)):
        if not file.is_file():
            parser.error(f"{file} is missing; ci/demo makes all that is needed")
    return arguments


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        print("demo: network namespaces need root; run ci/demo, or this under sudo", file=sys.stderr)
        return 2
    # A request to end takes the same way out as Ctrl-C, past every `finally`.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return demo(arguments)
    except (scenario.ScenarioError, LinkError, CommandError, results.ResultError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
