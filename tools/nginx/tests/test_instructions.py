"""What HTTP/3 says on our own streams while the client's windows for them are full, or its requests come at once."""
from hostile import RawClient, drive

# Octets that the client takes on each of our unidirectional streams; SETTINGS fit.
WINDOW = 40


def taken(client, kind: int) -> int:
    """Octets that have come on our unidirectional stream of a kind (RFC 9114, 6.2)."""
    streams = {stream.stream_type: number for number, stream in client.http._stream.items()
               if number % 4 == 3}
    return client.quic._streams[streams[kind]].receiver.highest_offset


def ask(client, count: int) -> None:
    """So many requests, of which each must be answered."""
    answered = []
    handle = client.http.handle_event

    def watch(event):
        for item in handle(event):
            if getattr(item, "headers", None):
                answered.append(dict(item.headers)[b":status"])
            yield item

    client.http.handle_event = watch
    for _ in range(count):
        client.request("/hello.txt")
    drive([client], lambda _: len(answered) == count or client.quic._close_event)
    client.http.handle_event = handle
    assert answered == [b"200"] * count and client.quic._close_event is None


def test_acknowledgments_wait_for_the_clients_window(make_nginx):
    """Requests that are answered or cancelled have an octet or two each for the QPACK decoder stream, for which the client
    has no room: they wait, up to 4,096, and come when there is room."""
    def prepare(quic):
        quic._local_max_stream_data_uni = WINDOW
        prepare.limits = quic._write_stream_limits
        quic._write_stream_limits = lambda *args, **words: None

    nginx = make_nginx(server="keepalive_requests 10000;")
    client = RawClient(nginx.port, prepare=prepare)
    ask(client, 20)
    decoder = 3
    # Streams that end before their header block does are cancelled there, in two octets each.
    for _ in range(8):
        for _ in range(50):
            stream = client.quic.get_next_available_stream_id()
            client.quic.send_stream_data(stream, b"\x01\x05")
            client.transmit()
            client.quic.reset_stream(stream, 0x10c)
        ask(client, 1)
    assert taken(client, decoder) == WINDOW

    # aioquic doubles a window of which half is used.
    client.quic._write_stream_limits = prepare.limits
    ask(client, 1)
    drive([client], lambda client: taken(client, decoder) > WINDOW + 500)
    # All of it is in order, so a later request may refer to the same table.
    ask(client, 50)
    client.quic.close()
    client.transmit()
