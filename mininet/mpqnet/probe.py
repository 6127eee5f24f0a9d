"""Sends or counts full-size UDP datagrams; run as a program inside a namespace.

    probe.py send ADDRESS PORT RATE_BPS SECONDS   paced by IP bytes
    probe.py receive ADDRESS PORT SECONDS IDLE_S  prints "ready", then JSON after IDLE_S without
                                                  another datagram, or after SECONDS at the latest
"""

import json
import socket
import sys
import time

PAYLOAD = 1472  # with UDP and IP headers a full-size packet of 1500 bytes
IP_BITS = 1500 * 8


def send(address, port, rate_bps, duration_s):
    """Sends for `duration_s` at `rate_bps`; prints how many datagrams went."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((address, port))
    count, start, gap = 0, time.monotonic(), IP_BITS / rate_bps
    data = bytes(PAYLOAD)
    while (due := count * gap) < duration_s:
        if (early := start + due - time.monotonic()) > 0:
            time.sleep(early)
        sock.send(data)
        count += 1
    print(json.dumps({"sent": count}))


def receive(address, port, duration_s, idle_s):
    """Counts datagrams; the rate is over the time between the first and the last arrival."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind((address, port))
    print("ready", flush=True)
    count, first, last, end = 0, 0.0, 0.0, time.monotonic() + duration_s
    while (left := end - time.monotonic()) > 0:
        sock.settimeout(min(left, idle_s) if count else left)
        try:
            sock.recv(2048)
        except TimeoutError:
            break
        last = time.monotonic()
        first = first or last
        count += 1
    span = last - first
    rate = (count - 1) * IP_BITS / span if span > 0 else 0.0
    print(json.dumps({"received": count, "rate_bps": rate}))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
    else:
        receive(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
