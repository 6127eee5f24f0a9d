"""Sessions in real time as processes of their own, some at a time, with progress; Ctrl-C ends them all."""

import concurrent.futures
import signal
import subprocess
import sys
import threading
import time

import simulator


def run_all(jobs, todo, words, say, error):
    """Runs this script with `words(one)` for each of `todo`, `jobs` at a time. `say(one)` names it in progress, and in an
    `error` for one that fails, with the last line it wrote."""
    begun, done = time.monotonic(), 0
    children, stopped = set(), threading.Event()

    def work(one):
        if stopped.is_set():
            return one
        # Out of reach of Ctrl-C, which would meet it twice.
        child = subprocess.Popen([sys.executable, sys.argv[0], *map(str, words(one))], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, start_new_session=True)
        children.add(child)
        said = child.communicate()[1]
        children.discard(child)
        if child.returncode and not stopped.is_set():
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise error(f"{say(one)}: {last[0]}")
        return one

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, one) for one in todo]
        try:
            for future in concurrent.futures.as_completed(futures):
                one, done = future.result(), done + 1
                rest = simulator.left(done, len(todo), time.monotonic() - begun)
                print(f"{say(one)}: {done} of {len(todo)}, {rest} left", file=sys.stderr, flush=True)
        except BaseException:
            stopped.set()
            for child in list(children):
                child.send_signal(signal.SIGTERM)
            raise
