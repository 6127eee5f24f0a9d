"""Connections opened and closed by the thousand, some broken at every stage: memory stays flat.

`soak` runs this with a day's worth of them."""
import contextlib
import multiprocessing
import os
import random
import socket
import statistics
import time
from collections import Counter

import hostile
from conftest import LIMIT_SECONDS

CONNECTIONS = int(os.environ.get("SOAK_CONNECTIONS", 4000))
PROCESSES = int(os.environ.get("SOAK_PROCESSES", 2))
# For each process: connections that nginx still has, and those among them that are under way. Few enough that on a slow
# machine too each is over long before nginx's timeouts.
AT_ONCE, ACTIVE = 200, 16
# nginx's timeouts here, and a little more.
TIMEOUT_S, SILENT_S = 10, 12
# Resident memory, from the second tenth to the last: judged if it is set, since it takes tens of thousands of connections
# to warm up an allocator.
GROWTH_KB = os.environ.get("SOAK_GROWTH_KB")
# Whole ones must come through; what is broken may be, now and then, broken before its stage.
LEAST_WHOLE = 0.99

# How a connection goes, and how often.
STAGES = {
    "whole": 60,            # handshake, request, answer, close
    "silent after first flight": 5,
    "closed in handshake": 5,
    "silent after handshake": 5,
    "silent with request under way": 5,
    "closed with request under way": 5,
    "reset of the request": 5,
    "garbage within": 5,    # a valid connection, then noise from its address with its connection ID
    "another port": 5,      # as behind a NAT that has forgotten
}


def clients(port, count, at_once, seed, progress):
    """One client process: so many connections, counted in `progress`. Returns how many of each stage had an answer,
    and how many there were."""
    choice = random.Random(seed)
    stages = choice.choices(list(STAGES), STAGES.values(), k=count)
    began_of, answered = Counter(stages), Counter()
    running, silent = [], []
    while stages or running or silent:
        # Silent ones count as long as nginx keeps them: else the memory would show how fast this machine is.
        while stages and len(running) < ACTIVE and len(running) + len(silent) < at_once:
            stage = stages.pop()
            client = hostile.RawClient(port)
            client.request("/8m.bin" if "under way" in stage or "reset" in stage else "/hello.txt")
            running.append((client, stage, time.monotonic()))
        kept = []
        for client, stage, began in running:
            client.step()
            if advance(client, stage, choice) or time.monotonic() - began > LIMIT_SECONDS:
                answered[stage] += client.status == 200
                client.vanish()
                silent.append(time.monotonic() + (SILENT_S if "closed" not in stage and stage != "whole" else 0))
            else:
                kept.append((client, stage, began))
        running = kept
        now = time.monotonic()
        over = sum(end <= now for end in silent)
        silent = [end for end in silent if end > now]
        with progress.get_lock():
            progress.value += over
        time.sleep(0.0005)
    return answered, began_of


def advance(client, stage, choice):
    """The next step of a connection; True if it is over. `client.status` is 200 once the answer has begun."""
    ready = client.quic._handshake_confirmed
    match stage:
        case "whole":
            if not client.ended:
                return False
            client.quic.close()
            client.transmit()
        case "silent after first flight":
            return True
        case "closed in handshake":
            client.quic.close(error_code=1, reason_phrase="changed its mind")
            client.transmit()
        case "silent after handshake":
            return ready
        case "silent with request under way":
            return client.status == 200
        case "closed with request under way":
            if client.status != 200:
                return False
            client.quic.close(error_code=0x10c)
            client.transmit()
        case "reset of the request":
            if client.status != 200:
                return False
            # nginx may have been faster: aioquic forgets streams that are over.
            with contextlib.suppress(ValueError):
                client.quic.reset_stream(0, 0x10c)
                client.quic.stop_stream(0, 0x10c)
            client.transmit()
        case "garbage within":
            if not client.ended:
                return False
            head = b"\x40" + client.quic._peer_cid.cid
            for _ in range(3):
                client.socket.sendto(head + choice.randbytes(choice.randrange(1, 1200)), client.peer)
        case "another port":
            if client.ended and not hasattr(client, "moved"):
                client.moved = True
                client.ended = False
                client.vanish()
                client.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                client.socket.setblocking(False)
                client.request("/hello.txt")
            if not (client.ended and hasattr(client, "moved")):
                return False
            client.quic.close()
            client.transmit()
    return True


def client_process(results, *arguments):
    results.put(clients(*arguments))


def test_memory_stays_flat(make_nginx):
    # Short times, so that what is silent does not pile up.
    nginx = make_nginx(start=False, listen=["127.0.0.1:{port} quic reuseport rcvbuf=8m sndbuf=8m"],
                       server="quic_multipath on;",
                       http=f"keepalive_timeout {TIMEOUT_S}s; client_header_timeout {TIMEOUT_S}s; send_timeout {TIMEOUT_S}s;")
    text = nginx.config.read_text().replace("worker_connections 4096", "worker_connections 16384")
    # A day's lines at "info" would fill the disk.
    nginx.config.write_text(text.replace("error.log info", "error.log warn").replace(
        f"access_log {nginx.directory}/logs/access.log quic", "access_log off"))
    nginx.start()

    before = hostile.heap_kb(nginx)
    context = multiprocessing.get_context("fork")
    progress, results = context.Value("q", 0), context.SimpleQueue()
    share = CONNECTIONS // PROCESSES
    processes = [context.Process(target=client_process, args=(results, nginx.port, share, AT_ONCE, seed, progress))
                 for seed in range(PROCESSES)]
    samples, began = [], time.monotonic()
    for process in processes:
        process.start()
    try:
        # One that fails has printed why, and has no result.
        while any(process.is_alive() for process in processes) and not any(process.exitcode for process in processes):
            time.sleep(0.1)
            done = progress.value
            if done >= share * PROCESSES * (len(samples) + 1) / 20:
                samples.append(nginx.rss_kb())
                print(f"{time.monotonic() - began:7.0f} s {done:8d} connections {samples[-1]:8d} KB", flush=True)
        assert not any(process.exitcode for process in processes), "a client process failed"
        answered, tried = Counter(), Counter()
        for _ in processes:
            some, all_of = results.get()
            answered += some
            tried += all_of
    finally:
        for process in processes:
            process.kill()
            process.join()

    nginx.wait_for(lambda: hostile.metric(nginx, "nginx_quic_connections") <= 1, "connections are left over")
    left = hostile.heap_kb(nginx) - before
    # The first tenth warms up.
    first, last = statistics.median(samples[2:4]), statistics.median(samples[-2:])
    print(f"    end {progress.value:8d} connections {nginx.rss_kb():8d} KB, none of them open")
    print("answered with 200:", ", ".join(f"{stage} {answered[stage]} of {n}" for stage, n in tried.items()))
    print(f"heap: {before} KB before, {left:+d} KB after all")
    print(f"resident memory: {first:.0f} KB in the second tenth, {last:.0f} KB in the last: {last - first:+.0f} KB, "
          f"over {progress.value} connections in {time.monotonic() - began:.0f} s")
    assert hostile.loud_lines(nginx) == []
    assert answered["whole"] >= LEAST_WHOLE * tried["whole"]
    # A quarter of a KB of each of the 4,000; one connection is 35 KB.
    assert left <= 2 * hostile.SLACK_KB
    assert GROWTH_KB is None or last - first <= int(GROWTH_KB)
