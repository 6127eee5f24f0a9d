"""Connection IDs: nothing in them links two of a connection, and balancers that have the key find the server."""
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hostile import RawClient
from raw import fetch_once

KEY = "8f95f09245765f80256934e50c66207f"


def single_pass(cid: bytes, key: str, server_id: int) -> tuple[int, bytes, bytes]:
    """What a balancer sees: configuration, server ID, nonce (draft-ietf-quic-load-balancers, Section 5.5)."""
    decryptor = Cipher(algorithms.AES(bytes.fromhex(key)), modes.ECB()).decryptor()
    block = decryptor.update(cid[1:17])
    return cid[0] >> 5, block[:server_id], block[server_id:]


def connection_ids(nginx, connections: int) -> list[bytes]:
    """IDs that the server has given to clients."""
    ids = []
    for _ in range(connections):
        client = RawClient(nginx.port)
        fetch_once(nginx, client)
        ids.append(client.quic._peer_cid.cid)
        ids += [other.cid for other in client.quic._peer_cid_available]
        client.quic.close()
        client.transmit()
    assert len(ids) >= 2 * connections and all(len(cid) == 20 for cid in ids)
    return ids


def test_vector_of_the_draft():
    # Appendix B.2.
    cid = bytes.fromhex("504dd2d05a7b0de9b2b9907afb5ecf8cc3")
    assert single_pass(cid, KEY, 8) == (2, bytes.fromhex("ed793a51d49b8f5f"), bytes.fromhex("ee080dbf48c0d1e5"))


def test_nothing_in_common(make_nginx):
    # One worker: what named it, or its process, was the same in all.
    ids = connection_ids(make_nginx(workers=1), 20)
    assert len(set(ids)) == len(ids)
    assert {cid[0] >> 5 for cid in ids} == {7}
    for octet in range(1, 20):
        assert len({cid[octet] for cid in ids}) > 10, f"octet {octet}"
    # Nor of any two: the difference of two is not the same twice.
    for pair in range(17, 19):
        assert len({cid[pair:pair + 2] for cid in ids}) > 30


def test_plaintext_server_id(make_nginx):
    ids = connection_ids(make_nginx(main="quic_server_id 0a000117 config=3;"), 20)
    assert {(cid[0] >> 5, cid[1:5]) for cid in ids} == {(3, bytes.fromhex("0a000117"))}
    for octet in range(5, 20):
        assert len({cid[octet] for cid in ids}) > 10, f"octet {octet}"


def test_encrypted_server_id(make_nginx):
    nginx = make_nginx(start=False)
    key = nginx.directory / "lb.key"
    key.write_text(KEY + "\n")
    nginx.write(main=f"quic_server_id 0a000117 config=2 key={key};", workers=2)
    nginx.start()
    ids = connection_ids(nginx, 20)
    for octet in range(1, 20):
        assert len({cid[octet] for cid in ids}) > 10, f"octet {octet}"
    seen = [single_pass(cid, KEY, 4) for cid in ids]
    assert {(config, server_id) for config, server_id, _ in seen} == {(2, bytes.fromhex("0a000117"))}
    assert len({nonce for _, _, nonce in seen}) == len(ids)


def test_wrong_settings_are_refused(make_nginx):
    nginx = make_nginx(start=False)
    bad = nginx.directory / "bad.key"
    bad.write_text("0123")
    for value, why in {
        "0a0001": "8 hexadecimal digits",
        "0a000117 config=7": "0 to 6",
        f"0a000117 key={bad}": "32 hexadecimal digits",
        "0a000117 key=/nonexistent": "failed",
        "0a000117 colour=red": "invalid parameter",
        "0a000117 config=1 config=2": 'two "config"',
    }.items():
        nginx.write(main=f"quic_server_id {value};")
        run = nginx.test()
        assert run.returncode != 0 and why in run.stderr, (value, run.stderr)
