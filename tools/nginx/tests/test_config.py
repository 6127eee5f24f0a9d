"""What `nginx -t` says."""
import pytest


@pytest.mark.parametrize("server, message", [
    ("quic_congestion_control warp;",
     'unknown congestion controller "warp" in "quic_congestion_control", it must be one of: '
     "cubic, reno, bbr2_gcongestion, "),
    ("quic_scheduler fastest;",
     'unknown scheduler "fastest" in "quic_scheduler", it must be one of: min-rtt'),
    ("quic_max_paths 0;", "value must be between 1 and 64"),
    ("quic_max_paths 1000;", "value must be between 1 and 64"),
    ("quic_multipath maybe;", 'it must be "on" or "off"'),
    ("quic_multipath on; quic_multipath off;", '"quic_multipath" directive is duplicate'),
    ("quic_scheduler min-rtt; quic_scheduler min-rtt;", '"quic_scheduler" directive is duplicate'),
    ("quic_multipath on; quic_active_connection_id_limit 1;",
     '"quic_active_connection_id_limit" must be at least 2'),
])
def test_mistakes(make_nginx, server, message):
    run = make_nginx(start=False, server=server).test()
    assert run.returncode != 0
    assert message in run.stderr


def test_multipath_without_http3(make_nginx):
    nginx = make_nginx(start=False, server="quic_multipath on;")
    nginx.config.write_text(nginx.config.read_text().replace("http3 on;", "http3 off;"))
    run = nginx.test()
    assert run.returncode != 0
    assert '"quic_multipath" needs "http3 on"' in run.stderr


def test_everything_at_once(make_nginx):
    run = make_nginx(
        start=False, main="quic_bpf on;",
        http="quic_multipath on; quic_max_paths 4; quic_congestion_control olia; "
             "quic_scheduler min-rtt;",
        server="quic_retry on; quic_gso on; quic_active_connection_id_limit 4; "
               "http3_max_concurrent_streams 10; http3_stream_buffer_size 1m; ssl_early_data on;",
    ).test()
    assert run.returncode == 0, run.stderr


def test_inherited_from_http(make_nginx):
    # The server would refuse its own, and does not refuse that of http.
    run = make_nginx(start=False, http="quic_congestion_control lia;").test()
    assert run.returncode == 0, run.stderr
