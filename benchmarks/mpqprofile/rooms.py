"""Which part of a server an instruction belongs to, by the file of its code."""

from collections import Counter

ENCRYPTION = "encryption, header protection, TLS"
COPIES = "memcpy and the like"
HEAP = "allocation"
SEND = "quiche: datagrams, frames, connection"
STREAMS = "quiche: streams"
RECOVERY = "quiche: recovery"
MULTIPATH = "quiche: multipath"
DECISIONS = "schedulers, controllers, failure detector"
LIBRARY = "Rust's library, in functions of its own"
ADAPTER = "our module: streams, datagrams, C API"
STOCK = "nginx's own QUIC"
HTTP3 = "nginx: HTTP/3"
HTTP = "nginx: HTTP"
CORE = "nginx: core"
REST = "all other"

# The order of the table.
ROOMS = (ENCRYPTION, COPIES, HEAP, SEND, STREAMS, RECOVERY, MULTIPATH, DECISIONS, LIBRARY, ADAPTER, STOCK, HTTP3, HTTP, CORE,
         REST)

# The first part of a path that is found decides.
_BY_FILE = (
    ("boringssl", ENCRYPTION),
    ("/malloc/", HEAP), ("staticlib/cache.rs", HEAP), ("core/ngx_palloc.c", HEAP), ("os/unix/ngx_alloc", HEAP),
    ("quiche/src/crypto/", ENCRYPTION), ("ngx_event_quic_protection.c", ENCRYPTION),
    ("quiche/src/stream/", STREAMS), ("quiche/src/range_buf.rs", STREAMS), ("quiche/src/flowcontrol.rs", STREAMS),
    ("quiche/src/send_budget.rs", STREAMS),
    ("quiche/src/recovery/", RECOVERY), ("quiche/src/minmax.rs", RECOVERY), ("quiche/src/pmtud.rs", RECOVERY),
    ("quiche/src/multipath/", MULTIPATH), ("quiche/src/path.rs", MULTIPATH),
    ("quiche/src/ffi.rs", ADAPTER), ("nginx/staticlib/", ADAPTER),
    ("quiche/src/", SEND), ("quiche-0.30.0/src/", SEND), ("/octets-", SEND),
    ("/src/event/quic/", ADAPTER), ("ngx_http_quic", ADAPTER),
    ("/src/http/v3/", HTTP3), ("ngx_http_huff", HTTP3),
    ("/src/http/", HTTP), ("/src/core/", CORE), ("/src/event/", CORE), ("/src/os/", CORE),
    ("/src/cc/", DECISIONS), ("/src/sched/", DECISIONS), ("/src/health/", DECISIONS), ("/src/registry", DECISIONS),
)
# Inlined code of these belongs to what it is inlined into.
_OF_ALL = ("/library/core/", "/library/alloc/", "/library/std/", "/rust/deps/", "/index.crates.io-")
_COPYING = ("memcpy", "memmove", "memset", "memcmp")


def _of_file(path):
    for part, room in _BY_FILE:
        if part in path:
            return room
    return None


def room_of(place, is_stock=False):
    """The room of a Place."""
    if any(word in place.function for word in _COPYING):
        return COPIES
    room = _of_file(place.line_file) or _of_file(place.function_file)
    if room is ADAPTER and is_stock:
        return STOCK
    if room:
        return room
    if any(part in place.function_file for part in _OF_ALL):
        return LIBRARY
    return REST


def divide(profile, is_stock=False):
    """Instructions by room."""
    rooms = Counter()
    for place, count in profile.instructions.items():
        rooms[room_of(place, is_stock)] += count
    return rooms
