"""A download over plain TCP, or the kernel's MPTCP, without TLS; run as a program inside a namespace.

    stream.py serve ADDRESS PORT tcp|mptcp CC     prints "ready"; sends each client as much as it asks for
    stream.py get LOCAL ADDRESS PORT tcp|mptcp N  prints JSON: seconds from before the handshake to the last byte,
                                                  bytes, and whether it was MPTCP to the end
"""

import json
import socket
import struct
import sys
import threading
import time

PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "mptcp": 262}
TCP_IS_MPTCP = 43  # 0 after a fallback to TCP
CHUNK = 1 << 18


def _socket(protocol):
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOLS[protocol])


def serve(address, port, protocol, cc):
    listener = _socket(protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Each subflow of MPTCP has it, too.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    listener.bind((address, port))
    listener.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_send, args=(connection,), daemon=True).start()


def _send(connection):
    with connection:
        left, data = struct.unpack("!Q", connection.recv(8, socket.MSG_WAITALL))[0], memoryview(bytes(CHUNK))
        while left:
            left -= connection.send(data[:left])


def get(local, address, port, protocol, count):
    began = time.monotonic()
    with _socket(protocol) as connection:
        connection.bind((local, 0))
        connection.connect((address, port))
        connection.sendall(struct.pack("!Q", count))
        received, buffer = 0, bytearray(CHUNK)
        while received < count and (size := connection.recv_into(buffer)):
            received += size
        seconds = time.monotonic() - began
        whole = protocol == "tcp" or connection.getsockopt(socket.IPPROTO_TCP, TCP_IS_MPTCP) == 1
    print(json.dumps({"seconds": round(seconds, 6), "bytes": received, "mptcp": protocol == "mptcp" and whole}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        get(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
