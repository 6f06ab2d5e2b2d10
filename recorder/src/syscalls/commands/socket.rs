//! Socket options that cannot be recorded.

/// Why setting or getting this option must stop recording, if it must.
pub(in crate::syscalls) fn refused(level: u64, option: u64) -> Option<&'static str> {
    const TCP: u32 = 6;
    const PACKET: u32 = 263;
    const XDP: u32 = 283;
    match (level as u32, option as u32) {
        (TCP, 35) => Some("received pages would be mapped over the program's memory"), // TCP_ZEROCOPY_RECEIVE
        (PACKET, 5 | 13) => Some("packet rings are written by the kernel at any time"), // PACKET_RX_RING, PACKET_TX_RING
        (XDP, _) => Some("packet rings are written by the kernel at any time"),
        _ => None,
    }
}
