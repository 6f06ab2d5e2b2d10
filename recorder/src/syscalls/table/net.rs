//! Sockets, readiness (`poll` and its kin), event descriptors.

use linux_raw_sys::general::*;

use crate::syscalls::spec::{Class::*, Only, Size::*, *};

/// `struct epoll_event` is packed on x86-64.
const EPOLL_EVENT: u32 = 12;

/// The address that a socket call returns, if one is asked for, and its length.
const fn address_out(addr: u8, len: u8) -> [MemArg; 2] {
    [out(addr, Deref(len)), inout(len, Fixed(4)).only(Only::Set { arg: addr, mask: u64::MAX })]
}

const PEER_1_2: [MemArg; 2] = address_out(1, 2);
const PEER_4_5: [MemArg; 2] = address_out(4, 5);

/// The time that is left is written back also when a signal ends the wait.
const fn time_left(arg: u8) -> MemArg {
    inout(arg, Fixed(16)).on(On::SuccessOrInterrupt)
}

const fn poll_set() -> [MemArg; 2] {
    [input(0, ArgTimes(1, 8)), out(0, Revents(1)).on(On::SuccessOrInterrupt)]
}

const POLL: [MemArg; 2] = poll_set();

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_poll, Plain, BLOCKS, [POLL[0], POLL[1]]),
    row!(__NR_select, Plain, BLOCKS, [inout(1, FdSet(0)), inout(2, FdSet(0)), inout(3, FdSet(0)), time_left(4)]),
    row!(__NR_socket, Plain, NEW_FD, []),
    row!(__NR_connect, Plain, BLOCKS, [input(1, Arg(2))]),
    row!(__NR_accept, Plain, BLOCKS.and(NEW_FD), [PEER_1_2[0], PEER_1_2[1]]),
    row!(__NR_sendto, Plain, BLOCKS, [input(1, Ret(2)), input(4, Arg(5))]),
    row!(__NR_recvfrom, Plain, BLOCKS, [out(1, Ret(2)), PEER_4_5[0], PEER_4_5[1]]),
    row!(__NR_sendmsg, Plain, BLOCKS, [input(1, Message)]),
    row!(__NR_recvmsg, Plain, BLOCKS.and(NEW_FD), [out(1, Message)]),
    row!(__NR_shutdown, Plain, NONE, []),
    row!(__NR_bind, Plain, NONE, [input(1, Arg(2))]),
    row!(__NR_listen, Plain, NONE, []),
    row!(__NR_getsockname, Plain, NONE, [out(1, Deref(2)), inout(2, Fixed(4))]),
    row!(__NR_getpeername, Plain, NONE, [out(1, Deref(2)), inout(2, Fixed(4))]),
    row!(__NR_socketpair, Plain, NEW_FD, [out(3, Fixed(8))]),
    row!(__NR_setsockopt, Plain, NONE, [input(3, SocketOption(4))]),
    // Some options state the size they need together with an error.
    row!(__NR_getsockopt, Plain, NONE, [out(3, Deref(4)), inout(4, Fixed(4)).always()]),
    row!(__NR_epoll_create, Plain, NEW_FD, []),
    row!(__NR_epoll_wait, Plain, BLOCKS, [out(1, RetTimes(2, EPOLL_EVENT))]),
    row!(__NR_epoll_ctl, Plain, NONE, [input(3, Fixed(EPOLL_EVENT))]),
    row!(
        __NR_pselect6,
        Plain,
        BLOCKS.and(SIGMASK),
        [inout(1, FdSet(0)), inout(2, FdSet(0)), inout(3, FdSet(0)), time_left(4), input(5, SigsetPair),]
    ),
    row!(__NR_ppoll, Plain, BLOCKS.and(SIGMASK), [POLL[0], POLL[1], time_left(2), input(3, Arg(4))]),
    row!(__NR_epoll_pwait, Plain, BLOCKS.and(SIGMASK), [out(1, RetTimes(2, EPOLL_EVENT)), input(4, Arg(5))]),
    row!(__NR_signalfd, Plain, NEW_FD, [input(1, Arg(2))]),
    row!(__NR_eventfd, Plain, NEW_FD, []),
    row!(__NR_accept4, Plain, BLOCKS.and(NEW_FD), [PEER_1_2[0], PEER_1_2[1]]),
    row!(__NR_signalfd4, Plain, NEW_FD, [input(1, Arg(2))]),
    row!(__NR_eventfd2, Plain, NEW_FD, []),
    row!(__NR_epoll_create1, Plain, NEW_FD, []),
    row!(__NR_recvmmsg, Plain, BLOCKS.and(NEW_FD), [out(1, Messages(2)), inout(4, Fixed(16)).on(On::Positive)]),
    row!(__NR_sendmmsg, Plain, BLOCKS, [input(1, Messages(2)), out(1, SentLengths(2))]),
    row!(__NR_epoll_pwait2, Plain, BLOCKS.and(SIGMASK), [out(1, RetTimes(2, EPOLL_EVENT)), input(3, Fixed(16)), input(4, Arg(5)),]),
];
