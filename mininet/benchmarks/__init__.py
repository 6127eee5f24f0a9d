"""The benchmarks that `ci/bench` runs, one a file: SUMMARY says what is measured, RUNS how often unless told,
and `run(setting)` does it and returns its figures."""

from . import aggregation, handover, overhead

BENCHMARKS = {"aggregation": aggregation, "handover": handover, "overhead": overhead}
