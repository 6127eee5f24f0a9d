"""Fields of responses and requests, which the patches of tools/nginx/patches write and read in fewer instructions, side
by side with nginx as it is."""
import os
import random
import re
import time
from email.utils import parsedate_to_datetime

import pytest

import h3
from test_parity import both, stock  # noqa: F401


def fields(*requests, **options):
    """The fields of the responses to requests in a row on one connection, but for what tells the time or the build."""
    def see(server):
        async def conversation():
            async with h3.connection(server.port) as client:
                seen = []
                for path, headers in requests:
                    answer = await client.request(path, headers=headers, **options)
                    assert parsedate_to_datetime(answer.headers.pop("date")), path
                    answer.headers.pop("cache-control", None)
                    answer.headers["server"] = re.sub(r"\(.*\)", "(build)", answer.headers["server"])
                    seen.append((answer.status, answer.headers))
                return seen
        return h3.run(conversation())
    return see


def assert_same(both, configuration, *requests, **options):  # noqa: F811
    ours, theirs = both(configuration, fields(*requests, **options))
    assert ours == theirs
    return ours


@pytest.fixture
def files(base, content):
    """Makes files in a folder that is served as /fields/, of these sizes and times of change."""
    folder = content / "www/fields"
    folder.mkdir(exist_ok=True)

    def make(name, size, seconds):
        (folder / name).write_bytes(bytes(size))
        os.utime(folder / name, (seconds, seconds))
        return f"/fields/{name}", None
    return make


def test_dates_and_entity_tags(both, files):  # noqa: F811
    """Each month and weekday, leap days, 32 bits and beyond, and the last year that nginx knows."""
    draw = random.Random(1)
    times = [0, 1, 59, 86_399, 951_782_400, 951_868_799, 2**31 - 1, 2**31, 2**32, 4_107_542_399, -5]
    times += [draw.randrange(0, 15_000_000_000) for _ in range(60)]
    sizes = [0, 1, 15, 16, 255, 256, 65_535]
    requests = [files(f"at-{i}", sizes[i % len(sizes)], at) for i, at in enumerate(times)]
    # The time of change, and some 8,000 years later.
    seen = assert_same(both, {"server": "location /fields/ { expires modified 8030y; }"}, *requests)
    assert len({headers["last-modified"] for _, headers in seen}) > 60
    assert any("9999 23:59:59" in headers["expires"] for _, headers in seen)
    assert all(re.fullmatch(r'"-?[0-9a-f]+-[0-9a-f]+"', headers["etag"]) for _, headers in seen)
    assert all(headers["accept-ranges"] == "bytes" for _, headers in seen)


def test_files_in_turn(both, files):  # noqa: F811
    """What is kept of a file is its own: of sixteen, those that are sixteen seconds or bytes apart share a place."""
    draw = random.Random(3)
    places = [files(f"turn-{i}", size, 1_700_000_000 + seconds) for i, (seconds, size) in enumerate(
        [(0, 10), (0, 26), (16, 10), (16, 26), (32, 42), (1, 10), (1, 11), (5, 0), (21, 0), (37, 16)])]
    requests = [place for place in places for _ in range(2)] + [draw.choice(places) for _ in range(200)]
    seen = assert_same(both, {"server": "location /fields/ {}"}, *requests)
    assert len({headers["etag"] for _, headers in seen}) == len(places)
    assert len({headers["last-modified"] for _, headers in seen}) == 7

    # Of responses without a file, of parts, and of files that the client has.
    tag = seen[0][1]["etag"]
    requests = [(path, headers) for path, _ in places[:3] for headers in (
        None, {"range": "bytes=0-3"}, {"if-none-match": tag}, {"if-none-match": '"none"'}, None)]
    seen = assert_same(both, {"server": "location /fields/ {}"}, *requests, ("/fields/none", None), places[0])
    assert {status for status, _ in seen} == {200, 206, 304, 404}


def test_names_and_values_of_any_octets(both):  # noqa: F811
    """What Huffman's code makes shorter and what it does not, at each length modulo a word."""
    draw = random.Random(2)
    short, long = "0123456789aceiost", "".join(map(chr, [*range(0x23, 0x7f), 0xe9, 0x20ac])).translate(
        {ord(c): None for c in "$\\"})
    lines = []
    for length in [*range(1, 41), 63, 64, 65, 126, 127, 128, 200]:
        for letters in (short, long, short + long):
            name = f"x-{length}-" + "".join(draw.choice("abcxyzABQVXZ") for _ in range(length % 9 + 1))
            value = "".join(draw.choice(letters) for _ in range(length))
            lines.append(f'add_header {name}-{len(lines)} "{value}";')
    seen = assert_same(both, {"server": "location /hello.txt { " + "\n".join(lines) + " }"}, ("/hello.txt", None))
    assert sum(name.startswith("x-") for name in seen[0][1]) == len(lines)


def test_types_and_servers_in_turn(both):  # noqa: F811
    """What is remembered of the last response is not that of another one."""
    server = """
        location /a { default_type text/html; charset utf-8; return 200 a; }
        location /b { default_type text/html; return 200 b; }
        location /c { default_type text/htmm; server_tokens off; return 200 c; }
        location /d { default_type application/""" + "d" * 80 + """; server_tokens build; return 200 d; }
        location /e { default_type ""; server_tokens off; return 200 e; }
        location /f { return 204; }"""
    order = "abcdefaabbccddeeffafbecdda"
    seen = assert_same(both, {"server": server}, *((f"/{name}", None) for name in order))
    by_name = dict(zip(order, seen))
    assert by_name["a"][1]["content-type"] == "text/html; charset=utf-8"
    assert by_name["b"][1]["content-type"] == "text/html"
    assert by_name["c"][1]["server"] == "nginx"
    assert by_name["d"][1]["content-type"].endswith("d" * 80)
    assert by_name["d"][1]["server"].endswith("(build)")


def test_fields_that_others_have_set(both):  # noqa: F811
    """Entity tags and ranges of an application, and those that a configuration adds."""
    upstream = "server { listen unix:{directory}/upstream; default_type text/plain; location / { etag off; "
    upstream += 'add_header ETag $arg_etag; add_header Accept-Ranges $arg_ranges; return 200 "%s"; } }' % ("y" * 500)
    server = """
        location /proxy { proxy_pass http://unix:{directory}/upstream:/; }
        location /hello.txt { add_header ETag mine; add_header Accept-Ranges none; }
        location /off { alias {content}/www/hello.txt; etag off; max_ranges 0; }"""
    seen = assert_same(
        both, {"server": server, "servers": upstream},
        ("/proxy?etag=W/abc&ranges=bytes", None), ("/proxy?etag=%22q%22&ranges=none", None),
        ("/proxy?ranges=bytes", {"range": "bytes=3-9"}), ("/hello.txt", None), ("/off", None), ("/missing", None))
    assert seen[0][1]["etag"] == "W/abc" and seen[1][1]["accept-ranges"] == "none"


def test_browsers_are_told_apart(both, files):  # noqa: F811
    """Versions of Internet Explorer that do not understand compression, and others."""
    path, _ = files("page.txt", 2000, 1_000_000_000)
    agents = ["", "M", "MSIE ", "MSIE 6", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
              "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", "Mozilla/4.0 (compatible; MSIE 5.5; Mac_PPC)",
              "Mozilla/4.0 (MMSIE MSIE 7.0; Windows NT 6.0)", "Opera/9.80 MSIE 6.0; Windows",
              "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"]
    server = "gzip on; gzip_types text/plain; gzip_disable msie6; gzip_http_version 1.0;"
    seen = assert_same(both, {"server": server},
                       *((path, {"user-agent": agent, "accept-encoding": "gzip"}) for agent in agents))
    packed = ["content-encoding" in headers for _, headers in seen]
    assert packed == [True, True, True, True, False, True, False, True, True, True]


def test_the_date_goes_on(nginx):
    """The field is remembered for as long as it is the same."""
    async def conversation():
        async with h3.connection(nginx.port) as client:
            dates = set()
            for _ in range(12):
                before = time.time()
                answer = await client.request("/hello.txt")
                at = parsedate_to_datetime(answer.headers["date"]).timestamp()
                # nginx reads the clock when something happens.
                assert before - 2 <= at <= time.time() + 1
                dates.add(at)
                await h3.asyncio.sleep(0.2)
            return dates
    assert len(h3.run(conversation())) >= 2
