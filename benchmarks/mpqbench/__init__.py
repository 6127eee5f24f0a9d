"""The benchmarks that `ci/bench` runs: one module for each name here. Its RUNS says how often unless told, and
`run(setting)` does it and returns its figures."""

SUMMARIES = {
    "aggregation": "one download over two links: goodput against the links' sum, and completion time",
    "handover": "the better of two links dies silently during a download: longest pause, completion time",
    "agreement": "the same scenarios in the simulator and in Mininet: goodput within 5 %, path shares within 10 %",
    "overhead": "loopback: multipath off against stock quiche (throughput), two paths against one (CPU per byte)",
    "noq": "mpq get from mpq serve over loopback beside noq: seconds, CPU per GB of each end",
    "controllers": "an acknowledged packet in each congestion controller, by number of paths, beside quiche's CUBIC",
    "picks": "a scheduler's pick, without and with all that it may look at",
    "sim": "the simulator: speed, CPU per byte beside the same download over loopback, memory of a 1000 s run",
    "nginx": "our nginx against stock nginx with its own QUIC: requests, bodies, crowds; two paths against mpq serve, and against one",
}
