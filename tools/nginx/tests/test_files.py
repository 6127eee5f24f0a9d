"""Responses from files, which are read to where quiche sends them from unless somebody has to see them before."""
import asyncio
import gzip
import os
import random

import pytest

import h3

# Around the buffers of headers and short bodies together, and the pieces that quiche sends from.
SIZES = (0, 1, 1000, 2048, 2049, 4095, 4096, 4097, 8193, 65_536, 200_001, 3_000_000)


@pytest.fixture
def folder(content):
    """Files of these sizes, served as /files/."""
    made = content / "www/files"
    made.mkdir(exist_ok=True)
    draw = random.Random(2)
    for size in SIZES:
        (made / str(size)).write_bytes(draw.randbytes(size))
    return made


@pytest.mark.parametrize("directives", [
    "", "sendfile on;", "sendfile on; sendfile_max_chunk 10k;", "aio threads;", "sendfile on; aio threads;",
    "directio 4k;", "open_file_cache max=100;", "limit_rate 20m;", "output_buffers 1 1k;", "postpone_output 0;",
    "ssi on; ssi_types *;", "add_trailer end yes;",
])
def test_as_they_are(make_nginx, folder, directives):
    nginx = make_nginx(server=directives)

    async def conversation():
        async with h3.connection(nginx.port) as client:
            return await asyncio.gather(*(client.request(f"/files/{size}") for size in SIZES))
    for size, response in zip(SIZES, h3.run(conversation())):
        assert response.status == 200
        assert response.body == (folder / str(size)).read_bytes(), size
        assert ("end" in response.headers) == ("trailer" in directives)


def test_ranges(nginx, folder):
    data = (folder / "200001").read_bytes()
    for first, last in [(0, 0), (4095, 4096), (100, 199_999), (200_000, 200_000)]:
        response = h3.fetch(nginx.port, "/files/200001", headers={"range": f"bytes={first}-{last}"})
        assert (response.status, response.body) == (206, data[first:last + 1])
    # Parts of the file, and of memory between them.
    response = h3.fetch(nginx.port, "/files/200001", headers={"range": "bytes=5-9,1000-3999,150000-199999"})
    boundary = b"--" + response.headers["content-type"].partition("boundary=")[2].encode()
    parts = [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in response.body.split(boundary)[1:4]]
    assert parts == [data[5:10], data[1000:4000], data[150_000:200_000]]


def test_of_a_cache_and_of_temporary_files(make_nginx, folder):
    """What a proxied server sent is in files, too, whose first octets are not for clients."""
    nginx = make_nginx(start=False)
    sock = nginx.directory / "origin.sock"
    nginx.write(
        http=f"proxy_cache_path {nginx.directory}/cache keys_zone=one:1m;",
        server=f"location /files/ {{ proxy_pass http://unix:{sock}; proxy_buffers 4 4k; proxy_cache one; "
               "proxy_cache_valid 1h; add_header cache $upstream_cache_status; }",
        servers=f"server {{ listen unix:{sock}; root {folder.parent}; }}")
    nginx.start()
    for state in ("MISS", "HIT"):
        for size in SIZES[1:]:
            response = h3.fetch(nginx.port, f"/files/{size}")
            assert (response.headers["cache"], response.body) == (state, (folder / str(size)).read_bytes())


def test_compressed(make_nginx, folder):
    nginx = make_nginx(server="gzip on; gzip_types *;")
    response = h3.fetch(nginx.port, "/files/200001", headers={"accept-encoding": "gzip"})
    assert gzip.decompress(response.body) == (folder / "200001").read_bytes()


@pytest.mark.parametrize("directives, said", [
    ("", "files/shrinks. was truncated while it was sent"),
    # Read by nginx: in a thread, or to be changed.
    ("aio threads;", "read only"), ("directio 4k;", "read only"), ("ssi on; ssi_types *;", "read only"),
])
def test_truncated(make_nginx, folder, directives, said):
    """A file that ends too soon ends its response only. Who read it is told by what is said."""
    nginx = make_nginx(server=f"limit_rate 200k; {directives}")
    (folder / "shrinks").write_bytes(bytes(4_000_000))

    async def conversation():
        async with h3.connection(nginx.port) as client:
            stream = await client.begin("/files/shrinks")
            os.truncate(folder / "shrinks", 1000)
            with pytest.raises(ConnectionError, match="reset"):
                await client.waiters[stream]
            return await client.request("/files/1000")
    assert h3.run(conversation()).body == (folder / "1000").read_bytes()
    # Loud, as nginx is for sendfile(2).
    with pytest.raises(AssertionError, match=said):
        nginx.stop()
