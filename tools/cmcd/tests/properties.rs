//! What is written is read; whatever comes is survived, and believed within limits.

use mpq_cmcd::Cmcd;
use mpq_cmcd::Fields;
use mpq_cmcd::Object;
use mpq_cmcd::MAX_KBPS;
use mpq_cmcd::MAX_MS;
use proptest::option;
use proptest::prelude::*;

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        Just(Object::Manifest),
        Just(Object::Audio),
        Just(Object::Video),
        Just(Object::AudioVideo),
        Just(Object::Init),
        Just(Object::Other),
    ]
}

prop_compose! {
    /// Values that rounding leaves alone.
    fn cmcd()(
        buffer in option::of(0..=MAX_MS / 100),
        bitrate_kbps in option::of(0..=MAX_KBPS),
        duration_ms in option::of(0..=MAX_MS),
        deadline in option::of(0..=MAX_MS / 100),
        throughput in option::of(0..=MAX_KBPS / 100),
        top_bitrate_kbps in option::of(0..=MAX_KBPS),
        object in option::of(object()),
        is_startup in any::<bool>(),
        was_starved in any::<bool>(),
    ) -> Cmcd {
        let hundreds = |value: Option<u64>| value.map(|value| value * 100);
        Cmcd {
            buffer_ms: hundreds(buffer),
            bitrate_kbps,
            duration_ms,
            deadline_ms: hundreds(deadline),
            throughput_kbps: hundreds(throughput),
            top_bitrate_kbps,
            object,
            is_startup,
            was_starved,
        }
    }
}

fn check(cmcd: &Cmcd) -> Result<(), TestCaseError> {
    for ms in [cmcd.buffer_ms, cmcd.duration_ms, cmcd.deadline_ms] {
        prop_assert!(ms.unwrap_or(0) <= MAX_MS);
    }
    for kbps in [
        cmcd.bitrate_kbps,
        cmcd.throughput_kbps,
        cmcd.top_bitrate_kbps,
    ] {
        prop_assert!(kbps.unwrap_or(0) <= MAX_KBPS);
    }
    prop_assert!(cmcd.bitrate_bits_per_sec() <= MAX_KBPS * 1000);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        cmcd in cmcd(),
        session_id in "[ -~]{0,64}",
        next in option::of("\\PC{0,40}"),
    ) {
        let fields = Fields { cmcd, session_id: &session_id, next_object: next.as_deref() };
        let mut read = Cmcd::default();
        for (_, value) in fields.headers() {
            read.read(value.as_bytes());
        }
        prop_assert_eq!(read, cmcd);

        let mut read = Cmcd::default();
        read.read_query(format!("t=1&{}&x", fields.argument()).as_bytes());
        prop_assert_eq!(read, cmcd);
    }

    #[test]
    fn any_bytes(value in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let mut cmcd = Cmcd::default();
        cmcd.read(&value);
        check(&cmcd)?;
        cmcd.read_query(&[b"CMCD=", &value[..]].concat());
        check(&cmcd)?;
    }

    #[test]
    fn any_members(value in "((bl|br|d|dl|mtp|tb|ot|su|bs|x-y)?(=)?(\"|\\(|\\)|\\\\|-|\\?)?([0-9]{0,20}|av?|v)( |,|\"|;|%2C)?){0,40}") {
        let mut cmcd = Cmcd::default();
        cmcd.read(value.as_bytes());
        check(&cmcd)?;
        cmcd.read_query(format!("CMCD={value}").as_bytes());
        check(&cmcd)?;
    }
}
