"""$remote_addr, and all that goes by it, follows a client that moves, once it has shown that it is there.

As with nginx's own QUIC, the request that moves with the client still counts as of the address before."""
import pytest

import h3
import hostile
from test_handover import status
from upstream import Download

SHOW = "location = /who { add_header x-addr $remote_addr; add_header x-port $remote_port; return 200; }"
FIRST, SECOND = "127.0.0.1", "127.0.0.5"


def who(nginx, host, path="/who", count=1):
    """Statuses and addresses of requests: one before the client moves to `host`, `count` after a first one there."""
    async def conversation():
        async with h3.connection(nginx.port) as client:
            answers = [await client.request(path)]
            await h3.rebind(client, host)
            await client.request("/hello.txt")
            answers += [await client.request(path) for _ in range(count)]
            return [(answer.status, answer.headers.get("x-addr")) for answer in answers]
    return h3.run(conversation())


@pytest.mark.parametrize("listen", ["127.0.0.1:{port} quic reuseport", "{port} quic reuseport"])
def test_follows_a_migration(make_nginx, listen):
    nginx = make_nginx(listen=[listen], server=SHOW)
    assert who(nginx, SECOND, count=3) == [(200, FIRST)] + [(200, SECOND)] * 3
    assert nginx.errors().count("quic client migrated") == 1


def test_port_follows_a_rebinding(make_nginx):
    nginx = make_nginx(server=SHOW)

    async def conversation():
        async with h3.connection(nginx.port) as client:
            ports = [(await client.request("/who")).headers["x-port"]]
            await h3.rebind(client)
            await client.request("/hello.txt")
            ports.append((await client.request("/who")).headers["x-port"])
            assert ports[-1] == str(client._transport.get_extra_info("socket").getsockname()[1])
            return ports
    assert len(set(h3.run(conversation()))) == 2


def test_access_rules(make_nginx):
    nginx = make_nginx(server=f"{SHOW} location = /inside {{ allow {SECOND}; deny all; try_files /hello.txt =404; }}"
                              f"location = /outside {{ deny {SECOND}; allow all; try_files /hello.txt =404; }}")
    assert [status for status, _ in who(nginx, SECOND, path="/inside")] == [403, 200]
    assert [status for status, _ in who(nginx, SECOND, path="/outside")] == [200, 403]


def test_access_log(make_nginx):
    nginx = make_nginx(start=False, http="log_format who $remote_addr;")
    nginx.write(http="log_format who $remote_addr;", server=f"access_log {nginx.directory}/logs/who.log who; {SHOW}")
    nginx.start()
    who(nginx, SECOND, count=2)
    lines = (nginx.directory / "logs/who.log").read_text().split()
    # The second one moved with the client.
    assert lines == [FIRST, FIRST, SECOND, SECOND]


def test_request_rate(make_nginx):
    """Each address has a rate of its own; a client does not take its past along, nor leave it to others."""
    nginx = make_nginx(http="limit_req_zone $binary_remote_addr zone=rate:1m rate=1r/m; limit_req_status 429;",
                       server="location = /limited { limit_req zone=rate; try_files /hello.txt =404; }")

    async def conversation():
        async with h3.connection(nginx.port) as client:
            first = [(await client.request("/limited")).status for _ in range(2)]
            await h3.rebind(client, SECOND)
            await client.request("/hello.txt")
            return first + [(await client.request("/limited")).status for _ in range(2)]
    assert h3.run(conversation()) == [200, 429, 200, 429]


def test_a_request_under_way_keeps_its_address(make_nginx, held):
    nginx = make_nginx(start=False)
    nginx.write(http="log_format who '$uri $remote_addr';",
                server=f"access_log {nginx.directory}/logs/who.log who; {SHOW} {held.location}")
    nginx.start()

    async def conversation():
        async with h3.connection(nginx.port) as client:
            stream = await client.begin("/held")
            await h3.rebind(client, SECOND)
            await client.request("/hello.txt")
            after = await client.request("/who")
            held.let_go()
            return after.headers["x-addr"], (await client.waiters[stream]).body
    assert h3.run(conversation()) == (SECOND, held.BODY)
    assert f"/held {FIRST}" in (nginx.directory / "logs/who.log").read_text().splitlines()


def test_a_forged_address_opens_nothing(make_nginx):
    """A request is not served on the word of its source address: who forges it does not get the challenge. With
    nginx's own QUIC the second one is."""
    nginx = make_nginx(server=f"location = /inside {{ allow {SECOND}; deny all; try_files /hello.txt =404; }} {SHOW}")
    client = hostile.RawClient(nginx.port)
    client.request("/who")
    hostile.drive([client], lambda client: client.ended)
    assert client.status == 200
    # As if from an address that the client does not own: nothing that is sent there comes back.
    with hostile.socket.socket(hostile.socket.AF_INET, hostile.socket.SOCK_DGRAM) as forged:
        forged.bind((SECOND, 0))
        client.socket, own = forged, client.socket
        for count in range(1, 4):
            client.request("/inside")
            nginx.wait_for(lambda: sum("/inside" in line for line in nginx.access()) == count, "no request")
        client.socket = own
    assert [line.split()[2] for line in nginx.access() if "/inside" in line] == ["403"] * 3


def test_several_paths_keep_the_address(make_nginx, mpq, held):
    """With multipath, a second path is no migration."""
    nginx = make_nginx(start=False)
    nginx.write(http="log_format who '$uri $remote_addr $quic_paths';",
                server=f"quic_multipath on; access_log {nginx.directory}/logs/who.log who; {held.location}")
    nginx.start()
    download = Download(mpq, nginx, held, FIRST, SECOND)
    nginx.wait_for(lambda: max(len(c["paths"]) for c in status(nginx)["connections"]) == 2, "no second path")
    assert download.is_whole() and len(download.report["paths"]) == 2
    lines = (nginx.directory / "logs/who.log").read_text().splitlines()
    assert [line for line in lines if "/status" not in line] == [f"/held {FIRST} 2"]
