"""What a worker holds for clients that do not read: quic_send_budget."""
import pytest

from conftest import LIMIT_SECONDS
from hostile import RawClient, drive, loud_lines, metric

BUDGET = 2 << 20


def stuck(nginx, clients: int, taken: int = 50_000) -> list[RawClient]:
    """Clients of four files each that take so many bytes of them, and are not heard of again."""
    made = [RawClient(nginx.port, max_data=1 << 26, max_stream_data=1 << 26) for _ in range(clients)]
    for client in made:
        for _ in range(4):
            client.request("/8m.bin")
    drive(made, lambda client: len(client.body) > taken)
    return made


def held(nginx) -> int:
    return metric(nginx, "nginx_quic_send_held_bytes")


def test_within_the_budget(make_nginx, mpq):
    nginx = make_nginx(server="quic_multipath on;", http=f"quic_send_budget {BUDGET};")
    clients = stuck(nginx, 60)
    assert metric(nginx, "nginx_quic_send_budget_bytes") == BUDGET
    assert metric(nginx, "nginx_quic_send_holders") >= len(clients)
    # Four times 64 KB would wait for each; so many greedy ones share half of it.
    assert BUDGET / 3 < held(nginx) <= BUDGET + 4096 * (len(clients) + 2)

    # Others are served meanwhile.
    data, report = mpq.get(f"https://127.0.0.1:{nginx.port}/8m.bin")
    assert len(data) == 8_000_000
    assert held(nginx) <= BUDGET + 4096 * (len(clients) + 2)

    # What goes with a connection is free again.
    for client in clients:
        client.quic.close()
        client.transmit()
    # Only the answer with the figure.
    nginx.wait_for(lambda: held(nginx) < 65536, "closed connections hold data")
    assert loud_lines(nginx) == []


def test_slow_readers_come_to_the_end(make_nginx):
    """Each is heard of when it is its turn only. All go on, together they stay within the budget, and each file is
    whole."""
    # Waiting for a turn is no reason to end a connection.
    nginx = make_nginx(server="send_timeout 1h;", http=f"keepalive_timeout 1h; quic_send_budget {BUDGET};")
    body = (nginx.content / "www/1m.bin").read_bytes()
    clients = [RawClient(nginx.port, max_data=1 << 26, max_stream_data=1 << 26, idle_timeout=10 * LIMIT_SECONDS)
               for _ in range(40)]
    for client in clients:
        client.request("/1m.bin")
    # A handshake does not wait for its turn: the server would give it up.
    drive(clients, lambda client: client.body)
    most, turn = 0, 100_000
    for wanted in range(turn, len(body) + 1, turn):
        for client in clients:
            drive([client], lambda client: len(client.body) >= wanted)
        most = max(most, held(nginx))
    assert BUDGET / 3 < most <= BUDGET + 4096 * (len(clients) + 2)
    drive(clients, lambda client: client.ended)
    assert all(client.status == 200 and client.body == body for client in clients)
    assert loud_lines(nginx) == []


def test_without_a_budget(make_nginx):
    nginx = make_nginx(http="quic_send_budget 0;")
    stuck(nginx, 20)
    assert metric(nginx, "nginx_quic_send_budget_bytes") == 0


@pytest.mark.parametrize("where", ["server", "location"])
def test_for_the_whole_worker_only(make_nginx, where):
    nginx = make_nginx(start=False, **{where: "quic_send_budget 1m;"})
    assert '"quic_send_budget" directive is not allowed here' in nginx.test().stderr


@pytest.mark.parametrize("buffer", [None, 128 << 10])
def test_of_one_connection(make_nginx, mpq, buffer):
    """quic_send_buffer: four files that a client does not read hold no more than that together."""
    nginx = make_nginx(http=f"quic_send_buffer {buffer};" if buffer else "")
    # Enough for a window of more than the buffer.
    clients = stuck(nginx, 5, taken=3_000_000)
    if buffer:
        assert held(nginx) <= (len(clients) + 1) * buffer
    else:
        # 64 KB wait for each file.
        assert held(nginx) > len(clients) * (160 << 10)
    data, _ = mpq.get(f"https://127.0.0.1:{nginx.port}/8m.bin")
    assert len(data) == 8_000_000
    assert loud_lines(nginx) == []
