import pytest

from mpqnet import units


def test_quantities_scale_by_their_unit():
    assert units.rate_bps("12mbit") == 12_000_000
    assert units.seconds("20ms") == pytest.approx(0.02)
    assert units.probability("0.5%") == pytest.approx(0.005)
    assert units.size_bytes("20mb") == 20_000_000
    # As scenarios of mpq sim have them.
    assert units.rate_bps("1.5 Mbit/s") == 1_500_000
    assert units.size_bytes("16 MiB") == 16_777_216


def test_queue_limits():
    # 12 Mbit/s * 20 ms / 8 = 30,000 bytes; 12 Mbit/s * 100 ms / 8 = 150,000 bytes.
    assert units.queue("1bdp", 12e6, 0.02) == units.Queue(bytes=30_000)
    assert units.queue("0.5bdp", 12e6, 0.02) == units.Queue(bytes=15_000)
    assert units.queue("100ms", 12e6, 0.02) == units.Queue(bytes=150_000)
    assert units.queue("50packets", 12e6, 0.02) == units.Queue(packets=50)
    assert units.queue("2 BDP:rtt=100 ms", 12e6, 0.02) == units.Queue(bytes=300_000)
    assert units.queue("0.01bdp", 12e6, 0.02) == units.Queue(bytes=units.FULL_PACKET)


@pytest.mark.parametrize("read, text, hint", [
    (units.rate_bps, "12", "unit is missing"),
    (units.rate_bps, 12, "has no unit"),
    (units.rate_bps, "12ms", 'unknown unit "ms"'),
    (units.rate_bps, "0mbit", "at least 1bit"),
    (units.seconds, "-3ms", "expected a number and a unit"),
    (units.seconds, "fast", "expected a number and a unit"),
    (units.probability, "0.5", '"0.5%"'),
    (units.probability, "101%", "at most 100%"),
    (lambda text: units.queue(text, 1e6, 0.1), "0packets", "at least 1"),
])
def test_bad_quantities_say_what_to_write(read, text, hint):
    with pytest.raises(units.UnitError) as error:
        read(text)
    assert hint in str(error.value)
