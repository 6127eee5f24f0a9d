"""What `nginx -t` says."""
import pytest


@pytest.mark.parametrize("server, message", [
    ("quic_congestion_control warp;",
     '"quic_congestion_control" is not valid: no congestion controller is called "warp"; '
     "use one of: reno, cubic, bbr2_gcongestion, "),
    ("quic_congestion_control hybla:rho=3;",
     '"quic_congestion_control" is not valid: hybla has no parameter "rho"; '
     "use any of: rtt0=25ms (1ms to 1s), rho_max=16 (1 to 16)"),
    ("quic_congestion_control hybla:rtt0=25;",
     '"25" is no value for rtt0 of hybla; use one like rtt0=25ms (1ms to 1s)'),
    ("quic_congestion_control dc-ledbat:ret=2h;",
     '"2h" is no value for ret of dc-ledbat; use one like ret=10s (1s to 3600s)'),
    ("quic_congestion_control dc-ledbat:ret=10s, zeta=1;",
     'invalid number of arguments in "quic_congestion_control" directive'),
    ("quic_scheduler fastest;",
     '"quic_scheduler" is not valid: no scheduler is called "fastest"; use one of: min-rtt'),
    ("quic_max_paths 0;", "value must be between 1 and 64"),
    ("quic_max_paths 1000;", "value must be between 1 and 64"),
    ("quic_path allow 10.0.0.0/8;", 'invalid value "allow" in "quic_path" directive, it must be "use", "standby" or "refuse"'),
    ("quic_path refuse;", 'invalid number of arguments in "quic_path" directive'),
    ("quic_path refuse here;",
     'invalid parameter "here" in "quic_path" directive, it must be an address, a network or "all"'),
    ("quic_careful_resume on;", 'invalid value "on" in "quic_careful_resume" directive, it must be "off" or a time'),
    ("quic_careful_resume 2d;", 'invalid value "2d" in "quic_careful_resume" directive'),
    ("quic_careful_resume 10m;",
     '"quic_congestion_control sbd-bbr" resumes no window; "quic_careful_resume" works with olia, for one'),
    ("quic_careful_resume off; quic_careful_resume off;", '"quic_careful_resume" directive is duplicate'),
    ("quic_ack_detours perhaps;", 'it must be "on" or "off"'),
    ("quic_ack_frequency seldom;", 'it must be "on" or "off"'),
    ("quic_ecn 3;", 'it must be "on" or "off"'),
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
             "quic_scheduler min-rtt; quic_ack_detours on; quic_ack_frequency on; quic_ecn on;",
        server="quic_retry on; quic_gso on; quic_active_connection_id_limit 4; "
               "http3_max_concurrent_streams 10; http3_stream_buffer_size 1m; ssl_early_data on;",
    ).test()
    assert run.returncode == 0, run.stderr


def test_the_whole_list_of_controllers_is_shown(make_nginx):
    # The longest reason there is, and its last name: nothing is cut.
    run = make_nginx(start=False, server="quic_congestion_control warp;").test()
    assert run.returncode != 0
    assert "sbd-cubic, sbd-bbr in " in run.stderr
    # The longest list of parameters.
    run = make_nginx(start=False, server="quic_congestion_control dc-ledbat:warp=9;").test()
    assert "margin_part=0.05 (0 to 1) in " in run.stderr


@pytest.mark.parametrize("name", [
    "reno", "cubic", "bbr2_gcongestion", "dc-ledbat:ret=10s,zeta=1", '"hybla:rtt0=50ms"',
    "coupled-cubic:variant=alpha1,f=linear,clock=plain,class=large",
])
def test_controllers(make_nginx, name):
    run = make_nginx(start=False, server=f"quic_congestion_control {name};").test()
    assert run.returncode == 0, run.stderr


def test_inherited_from_http(make_nginx):
    # The server would refuse its own, and does not refuse that of http.
    run = make_nginx(start=False, http="quic_congestion_control lia;").test()
    assert run.returncode == 0, run.stderr
