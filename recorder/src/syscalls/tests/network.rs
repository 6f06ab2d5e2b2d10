//! Sockets, messages, readiness.

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;

use super::oracle::{Oracle, raw, scenarios};

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
const SOL_SOCKET: u64 = 1;
const MSG_DONTWAIT: u64 = 0x40;
const MSG_TRUNC: u64 = 0x20;

scenarios!(addresses, options, receiving, messages, truncated_messages, batches, polling, selecting, epoll, interfaces);

fn pair(o: &mut Oracle, kind: u64) -> (u64, u64) {
    let fds = o.buffer(8);
    o.ok(__NR_socketpair, &[AF_UNIX, kind, 0, fds]);
    (o.half(fds).into(), o.half(fds + 4).into())
}

/// A socket bound to a name that the kernel chose: 2 bytes of family, a zero and five digits.
fn bound(o: &mut Oracle, kind: u64) -> (u64, u64, u64) {
    let fd = o.ok(__NR_socket, &[AF_UNIX, kind, 0]) as u64;
    let family = o.put(&[1, 0]);
    o.ok(__NR_bind, &[fd, family, 2]);
    let (name, len) = (o.buffer(110), o.put_halves(&[110]));
    o.ok(__NR_getsockname, &[fd, name, len]);
    (fd, name, o.half(len).into())
}

fn addresses(o: &mut Oracle) {
    let (listener, name, len) = bound(o, SOCK_STREAM);
    o.ok(__NR_listen, &[listener, 5]);
    // Room for less than the address: the rest is cut off, the full length reported.
    let (short, room) = (o.buffer(4), o.put_halves(&[4]));
    o.ok(__NR_getsockname, &[listener, short, room]);
    assert_eq!(u64::from(o.half(room)), len);
    let (none, room) = (o.buffer(4), o.put_halves(&[0]));
    o.ok(__NR_getsockname, &[listener, none, room]);
    let room = o.put_halves(&[u32::MAX]);
    o.fails(EINVAL, __NR_getsockname, &[listener, none, room]);

    for (flags, room) in [(0, 110u64), (0, 3), (2, 110), (1, 0)] {
        let (client, _, _) = bound(o, SOCK_STREAM);
        o.ok(__NR_connect, &[client, name, len]);
        let (peer, length) = (o.buffer(room.max(1)), o.put_halves(&[room as u32]));
        let (peer, length) = if flags == 1 { (0, length) } else { (peer, length) };
        let accepted = match flags {
            0 => o.ok(__NR_accept4, &[listener, peer, length, u64::from(O_CLOEXEC)]),
            _ => o.ok(__NR_accept, &[listener, peer, length]),
        } as u64;
        let (peer, length) = (o.buffer(110), o.put_halves(&[110]));
        o.ok(__NR_getpeername, &[accepted, peer, length]);
        o.close(&[client, accepted]);
    }
    o.ok(__NR_fcntl, &[listener, F_SETFL.into(), O_NONBLOCK.into()]);
    let (peer, length) = (o.buffer(110), o.put_halves(&[110]));
    o.fails(EAGAIN, __NR_accept4, &[listener, peer, length, 0]);
    o.close(&[listener]);
}

fn options(o: &mut Oracle) {
    let (a, b) = pair(o, SOCK_STREAM);
    // Type, error, sizes, lingering, timeouts, credentials, groups, the peer's pidfd left out: it makes a descriptor.
    for option in [3, 4, 7, 8, 13, 17, 20, 21, 30, 38, 39, 59] {
        for room in [0u64, 2, 4, 12, 64] {
            let (value, length) = (o.buffer(room.max(1)), o.put_halves(&[room as u32]));
            o.any(__NR_getsockopt, &[a, SOL_SOCKET, option, value, length]);
        }
    }
    let (value, length) = (o.buffer(4), o.put_halves(&[u32::MAX]));
    o.fails(EINVAL, __NR_getsockopt, &[a, SOL_SOCKET, 3, value, length]);
    let on = o.put_halves(&[1]);
    o.ok(__NR_setsockopt, &[a, SOL_SOCKET, 16, on, 4]);

    let tcp = o.any(__NR_socket, &[AF_INET, SOCK_STREAM, 0]);
    if tcp >= 0 {
        for (option, room) in [(1, 4u64), (11, 300), (11, 50), (13, 16)] {
            let (value, length) = (o.buffer(room), o.put_halves(&[room as u32]));
            o.any(__NR_getsockopt, &[tcp as u64, 6, option, value, length]);
        }
        o.close(&[tcp as u64]);
    }
    o.close(&[a, b]);
}

fn receiving(o: &mut Oracle) {
    let (receiver, name, len) = bound(o, SOCK_DGRAM);
    let (sender, _, _) = bound(o, SOCK_DGRAM);
    let text = o.put(b"a datagram of 25 bytes...");
    // Enough room; a datagram longer than the buffer, of which MSG_TRUNC reports the length; the sender's address cut off.
    for (room, flags, name_room) in [(100u64, 0, 110u64), (10, MSG_TRUNC, 110), (100, 0, 5), (10, 0, 0)] {
        o.ok(__NR_sendto, &[sender, text, 25, 0, name, len]);
        let (buffer, from) = (o.buffer(room), o.buffer(name_room.max(1)));
        let from_len = o.put_halves(&[name_room as u32]);
        let n = o.ok(__NR_recvfrom, &[receiver, buffer, room, flags, from, from_len]);
        assert_eq!(n, if flags == 0 { room.min(25) } else { 25 } as i64);
    }
    o.ok(__NR_sendto, &[sender, text, 25, 0, name, len]);
    let buffer = o.buffer(50);
    o.ok(__NR_recvfrom, &[receiver, buffer, 50, 0, 0, 0]);
    o.fails(EAGAIN, __NR_recvfrom, &[receiver, buffer, 50, MSG_DONTWAIT, 0, 0]);
    o.close(&[receiver, sender]);
}

/// `struct msghdr`.
fn header(o: &mut Oracle, name: (u64, u64), vector: (u64, u64), control: (u64, u64)) -> u64 {
    o.put_words(&[name.0, name.1, vector.0, vector.1, control.0, control.1, 0])
}

fn messages(o: &mut Oracle) {
    let (receiver, name, len) = bound(o, SOCK_DGRAM);
    let (sender, _, _) = bound(o, SOCK_DGRAM);
    let on = o.put_halves(&[1]);
    o.ok(__NR_setsockopt, &[receiver, SOL_SOCKET, 16, on, 4]); // SO_PASSCRED

    // Text in two pieces and a descriptor (SCM_RIGHTS).
    let (first, second) = (o.put(b"first piece"), o.put(b"second piece"));
    let vector = o.put_words(&[first, 11, second, 12]);
    let rights = o.put_halves(&[20, 0, 1, 1, sender as u32, 0]);
    let message = header(o, (name, len), (vector, 2), (rights, 24));
    assert_eq!(o.ok(__NR_sendmsg, &[sender, message, 0]), 23);

    let (a, b, from, control) = (o.buffer(5), o.buffer(64), o.buffer(110), o.buffer(200));
    let vector = o.put_words(&[a, 5, b, 64]);
    let message = header(o, (from, 110), (vector, 2), (control, 200));
    assert_eq!(o.ok(__NR_recvmsg, &[receiver, message, 0]), 23);
    let received = u64::from_ne_bytes(o.read(message + 40, 8).try_into().unwrap());
    assert!(received >= 20, "credentials and a descriptor came with it");
    o.fails(EAGAIN, __NR_recvmsg, &[receiver, message, MSG_DONTWAIT]);
    o.close(&[receiver, sender]);
}

fn truncated_messages(o: &mut Oracle) {
    let (receiver, name, len) = bound(o, SOCK_DGRAM);
    let (sender, _, _) = bound(o, SOCK_DGRAM);
    let text = o.put(b"a datagram of 25 bytes...");
    let on = o.put_halves(&[1]);
    o.ok(__NR_setsockopt, &[receiver, SOL_SOCKET, 16, on, 4]);
    for (room, name_room, control_room, flags) in [(8u64, 3u64, 10u64, 0u64), (8, 0, 20, MSG_TRUNC), (100, 110, 0, 0), (0, 3, 17, 0)] {
        o.ok(__NR_sendto, &[sender, text, 25, 0, name, len]);
        let (buffer, from, control) = (o.buffer(room.max(1)), o.buffer(name_room.max(1)), o.buffer(control_room.max(1)));
        let vector = o.put_words(&[buffer, room]);
        let message = header(o, (from, name_room), (vector, 1), (control, control_room));
        o.ok(__NR_recvmsg, &[receiver, message, flags]);
    }
    // Neither name nor control wanted.
    o.ok(__NR_sendto, &[sender, text, 25, 0, name, len]);
    let buffer = o.buffer(30);
    let vector = o.put_words(&[buffer, 30]);
    let message = header(o, (0, 77), (vector, 1), (0, 0));
    o.ok(__NR_recvmsg, &[receiver, message, 0]);
    o.close(&[receiver, sender]);
}

fn batches(o: &mut Oracle) {
    let (receiver, name, len) = bound(o, SOCK_DGRAM);
    let (sender, _, _) = bound(o, SOCK_DGRAM);
    let mut batch = Vec::new();
    for n in [5u64, 12, 20] {
        let text = o.buffer(n);
        let vector = o.put_words(&[text, n]);
        batch.extend([name, len, vector, 1, 0, 0, 0, 0]);
    }
    let batch = o.put_words(&batch);
    assert_eq!(o.ok(__NR_sendmmsg, &[sender, batch, 3, 0]), 3);

    let mut batch = Vec::new();
    for name_room in [110u64, 4, 0, 110, 110] {
        let (buffer, from, control) = (o.buffer(10), o.buffer(name_room.max(1)), o.buffer(40));
        let vector = o.put_words(&[buffer, 10]);
        batch.extend([from, name_room, vector, 1, control, 40, 0, 0]);
    }
    let batch = o.put_words(&batch);
    let timeout = o.put_words(&[5, 0]);
    assert_eq!(o.ok(__NR_recvmmsg, &[receiver, batch, 5, MSG_DONTWAIT, timeout]), 3);
    let unused = batch + 3 * 64;
    o.fails(EAGAIN, __NR_recvmmsg, &[receiver, unused, 2, MSG_DONTWAIT, timeout]);
    o.close(&[receiver, sender]);
}

fn polling(o: &mut Oracle) {
    let (full, writer) = o.pipe(b"data");
    let (empty, other) = o.pipe(b"");
    let mut set = || o.put_halves(&[full as u32, 1, empty as u32, 1, u32::MAX, 1, 999_999, 1]);
    let (first, set) = (set(), set());
    assert_eq!(o.ok(__NR_poll, &[first, 4, 0]), 2);
    let timeout = o.put_words(&[3, 0]);
    assert_eq!(o.ok(__NR_ppoll, &[set, 4, timeout, 0, 8]), 2);
    let (nothing, timeout) = (o.put_halves(&[empty as u32, 1]), o.put_words(&[0, 1]));
    let mask = o.put_words(&[0]);
    assert_eq!(o.ok(__NR_ppoll, &[nothing, 1, timeout, mask, 8]), 0);
    o.close(&[full, writer, empty, other]);
}

fn selecting(o: &mut Oracle) {
    let (full, writer) = o.pipe(b"data");
    let (empty, other) = o.pipe(b"");
    let n = full.max(writer).max(empty).max(other) + 1;
    let bit = |fds: &[u64]| {
        let mut words = vec![0u64; (n as usize).div_ceil(64)];
        for fd in fds {
            words[*fd as usize / 64] |= 1 << (fd % 64);
        }
        words
    };
    let (readable, writable) = (o.put_words(&bit(&[full, empty])), o.put_words(&bit(&[writer, empty])));
    let unusual = o.put_words(&bit(&[full]));
    let timeout = o.put_words(&[2, 0]);
    assert_eq!(o.ok(__NR_select, &[n, readable, writable, unusual, timeout]), 2);
    let (readable, unusual) = (o.put_words(&bit(&[full, empty])), o.put_words(&bit(&[full])));
    let mask = o.put_words(&[0]);
    let masked = o.put_words(&[mask, 8]);
    let writable = o.put_words(&bit(&[empty]));
    assert_eq!(o.ok(__NR_pselect6, &[n, readable, writable, unusual, timeout, masked]), 1);
    let (readable, timeout) = (o.put_words(&bit(&[empty])), o.put_words(&[0, 1]));
    assert_eq!(o.ok(__NR_pselect6, &[n, readable, 0, 0, timeout, 0]), 0);
    o.close(&[empty]);
    let readable = o.put_words(&bit(&[full, empty]));
    o.any(__NR_select, &[n, readable, 0, 0, timeout]);
    o.close(&[full, writer, other]);
}

fn epoll(o: &mut Oracle) {
    let set = o.ok(__NR_epoll_create1, &[0]) as u64;
    let (reader, writer) = o.pipe(b"x");
    for (fd, interest) in [(reader, 1), (writer, 4)] {
        let event = o.put_halves(&[interest, fd as u32, 0]);
        o.ok(__NR_epoll_ctl, &[set, 1, fd, event]);
    }
    let events = o.buffer(12 * 4);
    assert_eq!(o.ok(__NR_epoll_wait, &[set, events, 4, 0]), 2);
    assert_eq!(o.ok(__NR_epoll_pwait, &[set, events, 1, 0, 0, 8]), 1);
    let now = o.put_words(&[0, 0]);
    assert_eq!(o.ok(__NR_epoll_pwait2, &[set, events, 4, now, 0, 8]), 2);
    o.close(&[set, reader, writer]);
}

fn interfaces(o: &mut Oracle) {
    let fd = raw(__NR_socket, &[AF_INET, SOCK_DGRAM, 0]);
    if fd < 0 {
        return;
    }
    let fd = fd as u64;
    for room in [400u64, 45, 0] {
        let list = o.buffer(room.max(1));
        let request = o.put_words(&[room, list]);
        o.ok(__NR_ioctl, &[fd, 0x8912, request]); // SIOCGIFCONF
    }
    let count = o.put_words(&[0, 0]);
    o.ok(__NR_ioctl, &[fd, 0x8912, count]);
    for command in [0x8913, 0x8915, 0x8919, 0x891b, 0x891d, 0x8921, 0x8927, 0x8933, 0x8942, 0x8970] {
        let mut request = [0; 40];
        request[..2].copy_from_slice(b"lo");
        let request = o.put(&request);
        o.any(__NR_ioctl, &[fd, command, request]);
    }
    let request = o.put_halves(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    o.any(__NR_ioctl, &[fd, 0x8910, request]); // SIOCGIFNAME
    o.close(&[fd]);
}
