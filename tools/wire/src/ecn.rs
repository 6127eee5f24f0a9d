//! ECN in Ethernet frames: who is capable of it, and marks (RFC 3168, section 5).

const ETHER_TYPE: usize = 12;
const IP: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const IPV4_CHECKSUM: usize = IP + 10;

/// Congestion experienced, in the last two bits of the type of service.
const CE: u8 = 3;

/// Whether the sender of an Ethernet frame says that it reacts to marks.
pub fn is_capable(frame: &[u8]) -> bool {
    codepoint(frame).is_some_and(|ecn| ecn != 0)
}

fn codepoint(frame: &[u8]) -> Option<u8> {
    let second = *frame.get(IP + 1)?;
    match frame.get(ETHER_TYPE..IP)? {
        ty if ty == IPV4 => Some(second & CE),
        // The traffic class begins half a byte later.
        ty if ty == IPV6 => Some(second >> 4 & CE),
        _ => None,
    }
}

/// Marks the packet in an Ethernet frame as one that met congestion, if that [is
/// possible](is_capable).
pub fn mark(frame: &mut [u8]) {
    match codepoint(frame) {
        None | Some(0) => {}
        Some(_) if frame[ETHER_TYPE..IP] == IPV6 => frame[IP + 1] |= CE << 4,
        Some(ecn) => {
            frame[IP + 1] |= CE;
            let Some(checksum) = frame.get_mut(IPV4_CHECKSUM..IPV4_CHECKSUM + 2) else {
                return;
            };
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), of which m' is greater by what was added.
            let before = u32::from(!u16::from_be_bytes([checksum[0], checksum[1]]));
            let sum = before + u32::from(CE - ecn);
            let sum = (sum & 0xffff) + (sum >> 16);
            checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Internet checksum (RFC 1071) of an IPv4 header, which is 0 if the one in it is right.
    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        !((sum & 0xffff) as u16 + (sum >> 16) as u16)
    }

    fn ipv4(tos: u8, id: u16) -> Vec<u8> {
        let mut frame = vec![0; IP + 20];
        frame[ETHER_TYPE..IP].copy_from_slice(&IPV4);
        frame[IP] = 0x45;
        frame[IP + 1] = tos;
        frame[IP + 4..IP + 6].copy_from_slice(&id.to_be_bytes());
        let sum = checksum(&frame[IP..]);
        frame[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn ipv4_is_marked_with_a_right_checksum() {
        for id in 0..=u16::MAX {
            for ecn in 1..=3 {
                let mut frame = ipv4(0xb8 | ecn, id);
                assert!(is_capable(&frame));
                mark(&mut frame);
                assert_eq!(frame[IP + 1], 0xbb);
                assert_eq!(checksum(&frame[IP..]), 0, "{ecn} {id}");
            }
        }
        let mut frame = ipv4(0xb8, 7);
        assert!(!is_capable(&frame));
        mark(&mut frame);
        assert_eq!(frame, ipv4(0xb8, 7));
    }

    #[test]
    fn ipv6_is_marked() {
        for ecn in 0..4u8 {
            let mut frame = vec![0; IP + 40];
            frame[ETHER_TYPE..IP].copy_from_slice(&IPV6);
            // Traffic class 0xb8 and the codepoint, flow label 0x54321.
            frame[IP..IP + 4].copy_from_slice(&[0x6b, 0x85 | ecn << 4, 0x43, 0x21]);
            assert_eq!(is_capable(&frame), ecn > 0);
            mark(&mut frame);
            let marked = if ecn > 0 { 0xb5 } else { 0x85 };
            assert_eq!(frame[IP..IP + 4], [0x6b, marked, 0x43, 0x21]);
        }
    }

    #[test]
    fn what_is_no_ip_is_left_alone() {
        for len in 0..IP + 12 {
            let mut frame = vec![0xff; len];
            assert!(!is_capable(&frame));
            mark(&mut frame);
            assert_eq!(frame, vec![0xff; len]);
        }
        // Cut short within its header.
        for ty in [IPV4, IPV6] {
            for len in IP..IP + 12 {
                let mut frame = vec![0xff; len];
                frame[ETHER_TYPE..IP].copy_from_slice(&ty);
                mark(&mut frame);
                assert_eq!(frame.len(), len);
            }
        }
    }
}
