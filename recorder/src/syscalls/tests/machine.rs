//! Time, timers, memory, futexes, System V objects, asynchronous input/output.

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;

use super::oracle::{Oracle, raw, scenarios};

scenarios!(clocks, timers, randomness, residency, placement, futexes, semaphores, shared_memory, message_queues, asynchronous_io, events);

const IPC_CREAT: u64 = 0o1000;
const IPC_NOWAIT: u64 = 0o4000;
const OURS: u64 = IPC_CREAT | 0o600;

fn clocks(o: &mut Oracle) {
    let time = o.buffer(16);
    for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_BOOTTIME] {
        o.ok(__NR_clock_gettime, &[clock.into(), time]);
        o.ok(__NR_clock_getres, &[clock.into(), time]);
    }
    o.fails(EINVAL, __NR_clock_gettime, &[999, time]);
    let zone = o.buffer(8);
    o.ok(__NR_gettimeofday, &[time, zone]);
    let seconds = o.buffer(8);
    o.ok(__NR_time, &[seconds]);
    let timex = o.put(&[0; 208]);
    o.any(__NR_clock_adjtime, &[0, timex]);
    let (short, left) = (o.put_words(&[0, 1]), o.buffer(16));
    o.ok(__NR_nanosleep, &[short, left]);
    o.ok(__NR_clock_nanosleep, &[CLOCK_MONOTONIC.into(), 0, short, left]);
}

fn timers(o: &mut Oracle) {
    let old = o.buffer(32);
    o.ok(__NR_getitimer, &[1, old]);
    let never = o.put_words(&[0, 0, 0, 0]);
    o.ok(__NR_setitimer, &[1, never, old]);

    let quiet = o.put_halves(&[0, 0, 0, SIGEV_NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let id = o.buffer(4);
    o.ok(__NR_timer_create, &[CLOCK_MONOTONIC.into(), quiet, id]);
    let timer = o.half(id).into();
    let later = o.put_words(&[0, 0, 100, 0]);
    o.ok(__NR_timer_settime, &[timer, 0, later, old]);
    o.ok(__NR_timer_settime, &[timer, 0, later, 0]);
    o.ok(__NR_timer_gettime, &[timer, old]);
    o.ok(__NR_timer_getoverrun, &[timer]);
    o.ok(__NR_timer_delete, &[timer]);

    let fd = o.ok(__NR_timerfd_create, &[CLOCK_MONOTONIC.into(), u64::from(O_NONBLOCK)]) as u64;
    o.ok(__NR_timerfd_settime, &[fd, 0, later, old]);
    o.ok(__NR_timerfd_gettime, &[fd, old]);
    let count = o.buffer(8);
    o.fails(EAGAIN, __NR_read, &[fd, count, 8]);
    o.close(&[fd]);
}

fn randomness(o: &mut Oracle) {
    let bytes = o.buffer(300);
    assert_eq!(o.ok(__NR_getrandom, &[bytes, 300, 0]), 300);
    // A buffer that ends in a closed page is filled as far as it goes.
    let last = o.last_buffer(500);
    assert_eq!(raw(__NR_getrandom, &[last, 4000, 0]), 500);
}

fn residency(o: &mut Oracle) {
    let len = 10 * 4096;
    let memory = raw(__NR_mmap, &[0, len, u64::from(PROT_READ | PROT_WRITE), u64::from(MAP_PRIVATE | MAP_ANONYMOUS), u64::MAX, 0]);
    assert!(memory > 0);
    let memory = memory as u64;
    let pages = o.buffer(10);
    o.ok(__NR_mincore, &[memory, len, pages]);
    o.ok(__NR_mincore, &[memory, len - 4000, pages]);
    assert_eq!(raw(__NR_munmap, &[memory + 5 * 4096, 5 * 4096]), 0);
    o.any(__NR_mincore, &[memory, len, pages]);
    assert_eq!(raw(__NR_munmap, &[memory, 5 * 4096]), 0);
}

fn placement(o: &mut Oracle) {
    let mode = o.buffer(4);
    for bits in [1024u64, 1025, 65, 1] {
        let mask = o.buffer((bits - 1).next_multiple_of(64).max(8) / 8);
        o.any(__NR_get_mempolicy, &[mode, mask, bits, 0, 0]);
    }
    o.any(__NR_get_mempolicy, &[mode, 0, 0, 0, 0]);
    let (page, status) = (o.put_words(&[o.end() - 4096]), o.buffer(4));
    o.any(__NR_move_pages, &[0, 1, page, 0, status, 0]);
}

fn futexes(o: &mut Oracle) {
    let (word, other) = (o.put_halves(&[7]), o.put_halves(&[0]));
    o.ok(__NR_futex, &[word, FUTEX_WAKE.into(), 1]);
    o.fails(EAGAIN, __NR_futex, &[word, FUTEX_WAIT.into(), 8, 0, 0, 0]);
    let soon = o.put_words(&[0, 1]);
    o.fails(ETIMEDOUT, __NR_futex, &[word, u64::from(FUTEX_WAIT | FUTEX_PRIVATE_FLAG), 7, soon, 0, 0]);
    // FUTEX_WAKE_OP adds one to the second word.
    let add = 1 << 28 | 1 << 12;
    o.ok(__NR_futex, &[word, FUTEX_WAKE_OP.into(), 1, 1, other, add]);
    assert_eq!(o.half(other), 1);
    o.ok(__NR_futex, &[word, FUTEX_CMP_REQUEUE.into(), 1, 1, other, 7]);
    let lock = o.put_halves(&[0]);
    o.ok(__NR_futex, &[lock, FUTEX_TRYLOCK_PI.into(), 0, 0, 0, 0]);
    assert_ne!(o.half(lock), 0);
    o.ok(__NR_futex, &[lock, FUTEX_UNLOCK_PI.into(), 0, 0, 0, 0]);
    o.ok(__NR_futex, &[lock, FUTEX_LOCK_PI.into(), 0, 0, 0, 0]);
    o.ok(__NR_futex, &[lock, FUTEX_UNLOCK_PI.into(), 0, 0, 0, 0]);
    let waiters = o.put_words(&[8, word, 2, 8, other, 2]);
    o.any(__NR_futex_waitv, &[waiters, 2, 0, 0, 0]);
    o.any(__NR_futex_wake, &[word, u64::from(u32::MAX), 1, 2]);
    o.any(__NR_futex_wait, &[word, 8, u64::from(u32::MAX), 2, 0, 0]);
}

fn semaphores(o: &mut Oracle) {
    let set = o.ok(__NR_semget, &[0, 5, OURS]) as u64;
    let values = o.put(&[1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
    o.ok(__NR_semctl, &[set, 0, 17, values]); // SETALL
    let read = o.buffer(10);
    o.ok(__NR_semctl, &[set, 0, 13, read]); // GETALL
    assert_eq!(o.read(read, 10), o.read(values, 10));
    let status = o.buffer(104);
    o.ok(__NR_semctl, &[set, 0, 2, status]);
    o.ok(__NR_semctl, &[set, 0, 1, status]);
    let info = o.buffer(40);
    o.ok(__NR_semctl, &[0, 0, 3, info]);
    o.ok(__NR_semctl, &[0, 0, 19, info]);
    o.any(__NR_semctl, &[0, 0, 18, status]);
    let operations = o.put(&[0, 0, 1, 0, 0, 0, 1, 0, 0xff, 0xff, 0, 8]);
    o.ok(__NR_semop, &[set, operations, 2]);
    let soon = o.put_words(&[0, 1]);
    o.ok(__NR_semtimedop, &[set, operations, 2, soon]);
    o.ok(__NR_semctl, &[set, 0, 0, 0]);
    o.any(__NR_semctl, &[set, 0, 13, read]);
}

fn shared_memory(o: &mut Oracle) {
    let segment = o.ok(__NR_shmget, &[0, 4096, OURS]) as u64;
    let status = o.buffer(112);
    o.ok(__NR_shmctl, &[segment, 2, status]);
    o.ok(__NR_shmctl, &[segment, 1, status]);
    let limits = o.buffer(72);
    o.ok(__NR_shmctl, &[0, 3, limits]);
    let usage = o.buffer(48);
    o.ok(__NR_shmctl, &[0, 14, usage]);
    o.any(__NR_shmctl, &[0, 13, status]);
    o.any(__NR_shmctl, &[0, 15, status]);
    o.ok(__NR_shmctl, &[segment, 0, 0]);
}

fn message_queues(o: &mut Oracle) {
    let queue = o.ok(__NR_msgget, &[0, OURS]) as u64;
    let message = o.put(b"\x03\0\0\0\0\0\0\0text of a message");
    for room in [100u64, 17, 4] {
        o.ok(__NR_msgsnd, &[queue, message, 17, 0]);
        let buffer = o.buffer(8 + room);
        // Of a longer message the rest is cut off (MSG_NOERROR).
        assert_eq!(o.ok(__NR_msgrcv, &[queue, buffer, room, 0, 0o10000]), room.min(17) as i64);
    }
    let buffer = o.buffer(50);
    o.fails(ENOMSG, __NR_msgrcv, &[queue, buffer, 42, 0, IPC_NOWAIT]);
    o.ok(__NR_msgsnd, &[queue, message, 17, 0]);
    o.fails(E2BIG, __NR_msgrcv, &[queue, buffer, 4, 0, IPC_NOWAIT]);
    let status = o.buffer(120);
    o.ok(__NR_msgctl, &[queue, 2, status]);
    o.ok(__NR_msgctl, &[queue, 1, status]);
    let info = o.buffer(32);
    o.ok(__NR_msgctl, &[0, 3, info]);
    o.ok(__NR_msgctl, &[0, 12, info]);
    o.any(__NR_msgctl, &[0, 11, status]);
    o.ok(__NR_msgctl, &[queue, 0, 0]);
}

fn asynchronous_io(o: &mut Oracle) {
    let context = o.put_words(&[0]);
    if o.any(__NR_io_setup, &[4, context]) < 0 {
        return;
    }
    let id = u64::from_ne_bytes(o.read(context, 8).try_into().unwrap());
    let (events, now) = (o.buffer(32 * 2), o.put_words(&[0, 0]));
    o.ok(__NR_io_getevents, &[id, 0, 2, events, now]);
    // A write, collected afterwards. Its submission is not judged: it is refused, for its effects come later.
    let (file, text) = (o.memory_file(b""), o.put(b"written later"));
    const WRITE: u64 = 1;
    let request = o.put_words(&[77, 0, WRITE | file << 32, text, 13, 0, 0, 0]);
    let list = o.put_words(&[request]);
    assert_eq!(raw(__NR_io_submit, &[id, 1, list]), 1);
    assert_eq!(o.ok(__NR_io_getevents, &[id, 1, 2, events, 0]), 1);
    o.close(&[file]);
    o.any(__NR_io_pgetevents, &[id, 0, 2, events, now, 0]);
    o.ok(__NR_io_destroy, &[id]);
    // Set up and given back: the parameters are filled in.
    let parameters = o.put(&[0; 120]);
    let fd = o.any(__NR_io_uring_setup, &[4, parameters]);
    if fd >= 0 {
        o.close(&[fd as u64]);
    }
    let mut attributes = [0u32; 40];
    attributes[1] = 160;
    attributes[39] = 1;
    let attributes = o.put_halves(&attributes);
    o.any(__NR_perf_event_open, &[attributes, 0, u64::MAX, u64::MAX, 0]);
}

fn events(o: &mut Oracle) {
    let fd = o.ok(__NR_eventfd2, &[5, u64::from(O_NONBLOCK)]) as u64;
    let count = o.buffer(8);
    assert_eq!(o.ok(__NR_read, &[fd, count, 8]), 8);
    o.fails(EAGAIN, __NR_read, &[fd, count, 8]);
    o.close(&[fd]);
    let watcher = o.ok(__NR_inotify_init1, &[u64::from(O_NONBLOCK)]) as u64;
    let path = o.put_string("/");
    o.ok(__NR_inotify_add_watch, &[watcher, path, 1 << 9]);
    let buffer = o.buffer(100);
    o.fails(EAGAIN, __NR_read, &[watcher, buffer, 100]);
    o.close(&[watcher]);
}
