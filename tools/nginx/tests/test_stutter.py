"""A worker that gets the processor for moments only: what is acknowledged late must not stop a connection for good."""
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from relay import Relay


def test_downloads_from_a_worker_that_stutters(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on;")
    worker, = nginx.workers()
    over, pauses = threading.Event(), random.Random(5)

    def stutter():
        while not over.is_set():
            os.kill(worker, signal.SIGSTOP)
            time.sleep(pauses.uniform(0.02, 0.2))
            os.kill(worker, signal.SIGCONT)
            time.sleep(pauses.uniform(0.001, 0.02))

    def downloads(n):
        (mpq.directory / str(n)).mkdir()
        one = type(mpq)(mpq.directory / str(n))
        for _ in range(25):
            body, _ = one.get(relay.url("1m.bin"), paths=(f"127.0.0.{n}", f"127.0.0.{n + 1}"))
            assert len(body) == 1_000_000
    stutterer = threading.Thread(target=stutter)
    stutterer.start()
    try:
        with Relay(nginx.port) as relay, ThreadPoolExecutor() as pool:
            list(pool.map(downloads, (11, 13, 15)))
    finally:
        over.set()
        stutterer.join()
        os.kill(worker, signal.SIGCONT)
