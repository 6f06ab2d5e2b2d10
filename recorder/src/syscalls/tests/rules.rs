//! What cannot be provoked on this machine, and the oracle's own ability to fail.

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;

use super::oracle::{Oracle, OwnMemory};
use crate::syscalls::call::Call;
use crate::syscalls::spec::{MemArg, Size::*, inout, input, out, path};
use crate::syscalls::{BLOCKS, Class, Dir, GuestMemory, NEW_FD, Place, Range, SIGMASK, Stop};

/// Memory that holds these bytes from this address on, and nothing else.
struct Bytes(u64, Vec<u8>);

impl GuestMemory for Bytes {
    fn read(&self, addr: u64, into: &mut [u8]) -> bool {
        let start = addr.checked_sub(self.0).map(|start| start as usize);
        let Some(bytes) = start.and_then(|start| self.1.get(start..start.checked_add(into.len())?)) else { return false };
        into.copy_from_slice(bytes);
        true
    }

    fn semaphores(&self, _set: u64) -> u64 {
        3
    }
}

fn nothing() -> Bytes {
    Bytes(0, Vec::new())
}

fn outputs(call: &Call, result: i64, mem: &impl GuestMemory) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    call.for_each_output(result, mem, &mut |Range { addr, len }| ranges.push((addr, len)));
    ranges
}

fn inputs(call: &Call, result: i64, mem: &impl GuestMemory) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    call.for_each_input(result, mem, &mut |Range { addr, len }| ranges.push((addr, len)));
    ranges
}

fn capture(nr: u32, args: &[u64]) -> Call {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    Call::capture(nr.into(), &six, &nothing())
}

fn error(number: u32) -> i64 {
    -i64::from(number)
}

/// Judges `newfstatat` by a wrong row.
fn judge_by(o: &mut Oracle, effects: &'static [MemArg]) -> Vec<String> {
    let (name, status) = (o.put_string("/"), o.buffer(144));
    let args = [AT_FDCWD as u64, name, status, 0, 0, 0];
    let mut call = Call::capture(__NR_newfstatat.into(), &args, &OwnMemory);
    assert!(o.judge(&call).1.is_empty());
    // Different content, or the second call would change nothing.
    let other = o.put_string("/proc");
    call.args[1] = other;
    o.judge(&call.with_effects(effects)).1
}

#[test]
fn the_oracle_notices_an_output_that_is_too_short() {
    let wrong = judge_by(&mut Oracle::new(), const { &[path(1), out(2, Fixed(16))] });
    assert!(wrong.iter().any(|w| w.contains("the kernel wrote offset")), "{wrong:?}");
}

#[test]
fn the_oracle_notices_an_output_that_is_missing() {
    assert!(!judge_by(&mut Oracle::new(), const { &[path(1)] }).is_empty());
}

#[test]
fn the_oracle_notices_an_output_that_leaves_its_buffer() {
    let wrong = judge_by(&mut Oracle::new(), const { &[path(1), out(2, Fixed(145))] });
    assert!(wrong.iter().any(|w| w.contains("is in no buffer")), "{wrong:?}");
}

#[test]
fn the_oracle_notices_a_wrong_argument() {
    assert!(!judge_by(&mut Oracle::new(), const { &[path(1), inout(1, Fixed(144))] }).is_empty());
    assert!(!judge_by(&mut Oracle::new(), const { &[path(1), input(2, Fixed(144))] }).is_empty());
}

#[test]
fn sizes_follow_the_result_within_the_buffer() {
    let read = capture(__NR_read, &[3, 0x1000, 100]);
    assert_eq!(outputs(&read, 40, &nothing()), [(0x1000, 40)]);
    assert_eq!(outputs(&read, 0, &nothing()), []);
    assert_eq!(outputs(&read, 4000, &nothing()), [(0x1000, 100)]);
    assert_eq!(outputs(&read, error(EIO), &nothing()), []);
    let write = capture(__NR_write, &[3, 0x1000, 100]);
    assert_eq!(inputs(&write, 40, &nothing()), [(0x1000, 40)]);
    assert_eq!(inputs(&write, error(EPIPE), &nothing()), []);
    assert_eq!(outputs(&write, 40, &nothing()), []);
}

#[test]
fn after_a_fault_outputs_reach_to_the_first_unreadable_page() {
    let read = capture(__NR_read, &[3, 0x1800, 10_000]);
    let mem = Bytes(0x1000, vec![0; 0x2000]);
    assert_eq!(outputs(&read, error(EFAULT), &mem), [(0x1800, 0x1800)]);
    assert_eq!(outputs(&read, error(EFAULT), &nothing()), []);
    let huge = capture(__NR_read, &[3, u64::MAX - 10, u64::MAX]);
    assert_eq!(outputs(&huge, error(EFAULT), &mem), []);
}

#[test]
fn addresses_that_wrap_around_do_no_harm() {
    for spec in crate::syscalls::all() {
        for fill in [u64::MAX, u64::MAX - 4096, 1 << 63, i64::MAX as u64, 8] {
            let call = Call::capture(spec.nr.into(), &[fill; 6], &nothing());
            call.for_each_pointer(&nothing(), &mut |_| {});
            for result in [0, 1, i64::MAX, error(EINTR), error(EFAULT), error(E2BIG)] {
                call.for_each_input(result, &nothing(), &mut |_| {});
                call.for_each_output(result, &nothing(), &mut |_| {});
            }
        }
    }
}

#[test]
fn null_pointers_are_not_reported() {
    for spec in crate::syscalls::all() {
        let call = Call::capture(spec.nr.into(), &[0; 6], &nothing());
        call.for_each_pointer(&nothing(), &mut |p| panic!("{}: {p:x?}", spec.name));
    }
}

#[test]
fn nested_pointers_name_their_places() {
    let mut bytes = Vec::new();
    for word in [0x9000u64, 10, 0, 0, 0x9100, 20] {
        bytes.extend(word.to_ne_bytes());
    }
    let mem = Bytes(0x5000, bytes);
    let call = capture(__NR_readv, &[3, 0x5000, 3]);
    let mut places = Vec::new();
    call.for_each_pointer(&mem, &mut |p| places.push((p.place, p.range.addr, p.range.len, p.dir)));
    let expected = [
        (Place::Arg(1), 0x5000, 48, Dir::In),
        (Place::Nested(0x5000), 0x9000, 10, Dir::Out),
        (Place::Nested(0x5020), 0x9100, 20, Dir::Out),
    ];
    assert_eq!(places, expected);
    assert_eq!(outputs(&call, 13, &mem), [(0x9000, 10), (0x9100, 3)]);
}

#[test]
fn strings_end_at_their_terminator_or_where_memory_ends() {
    let mem = Bytes(0x1030, b"/a/path\0and more".to_vec());
    assert_eq!(inputs(&capture(__NR_unlink, &[0x1030]), 0, &mem), [(0x1030, 8)]);
    let mut page = vec![b'x'; 4096];
    page[100] = 0;
    let mem = Bytes(0x1000, page);
    assert_eq!(inputs(&capture(__NR_unlink, &[0x1010]), 0, &mem), [(0x1010, 85)]);
    assert_eq!(inputs(&capture(__NR_unlink, &[0x1010]), error(ENOENT), &mem), [(0x1010, 85)]);
    assert_eq!(inputs(&capture(__NR_unlink, &[0x1010]), error(EFAULT), &mem), []);
    assert_eq!(inputs(&capture(__NR_unlink, &[0x1800]), 0, &mem), [(0x1800, 0x800)]);
}

fn stop(nr: u32, args: &[u64]) -> Stop {
    capture(nr, args).class().expect_err("must not be recorded")
}

#[test]
fn what_is_not_known_is_named() {
    assert_eq!(Call::capture(400, &[0; 6], &nothing()).class().unwrap_err().to_string(), "system call number 400 is not known");
    assert_eq!(stop(__NR_ioctl, &[0, 0x1234]).to_string(), "system call ioctl with command 0x1234 is not known");
    assert_eq!(stop(__NR_prctl, &[9999]).to_string(), "system call prctl with command 0x270f is not known");
    assert_eq!(stop(__NR_fcntl, &[0, 77]).to_string(), "system call fcntl with command 0x4d is not known");
    let text = stop(__NR_io_uring_setup, &[]).to_string();
    assert!(text.starts_with("system call io_uring_setup cannot be recorded: its queues"), "{text}");
    assert!(stop(__NR_ioctl, &[0, 0xc010_64b3]).reason.is_some(), "graphics devices");
    assert!(stop(__NR_prctl, &[22]).reason.is_some(), "seccomp");
    assert!(stop(__NR_getsockopt, &[0, 6, 35]).reason.is_some(), "zero-copy receive");
    assert!(capture(__NR_getsockopt, &[0, 6, 11]).class().is_ok());
}

#[test]
fn classes_and_flags() {
    let class = |nr| capture(nr, &[]).class().unwrap();
    assert_eq!(class(__NR_read), Class::Plain);
    assert_eq!(class(__NR_mmap), Class::Memory);
    assert_eq!(class(__NR_fork), Class::Process);
    assert_eq!(class(__NR_rt_sigaction), Class::Signal);
    assert_eq!(class(__NR_rseq), Class::Identity);
    assert_eq!(class(__NR_wait4), Class::Plain);
    assert!(capture(__NR_ppoll, &[]).flags().has(BLOCKS.and(SIGMASK)));
    assert!(!capture(__NR_poll, &[]).flags().has(SIGMASK));
    assert!(capture(__NR_fcntl, &[0, 0]).flags().has(NEW_FD));
    assert!(!capture(__NR_fcntl, &[0, 1]).flags().has(NEW_FD));
    assert!(capture(__NR_fcntl, &[0, 7]).flags().has(BLOCKS));
}

#[test]
fn ioctl_numbers_speak_for_themselves() {
    let call = capture(__NR_ioctl, &[3, 0x8010_7a01, 0x1000]);
    assert_eq!(outputs(&call, 0, &nothing()), [(0x1000, 16)]);
    assert_eq!(inputs(&call, 0, &nothing()), []);
    let call = capture(__NR_ioctl, &[3, 0x4010_7a01, 0x1000]);
    assert_eq!(outputs(&call, 0, &nothing()), []);
    assert_eq!(inputs(&call, 0, &nothing()), [(0x1000, 16)]);
    // FICLONE carries a descriptor where the encoding promises a pointer.
    let call = capture(__NR_ioctl, &[3, 0x4004_9409, 4]);
    assert_eq!(inputs(&call, 0, &nothing()), []);
}

#[test]
fn waits_write_what_is_left_when_interrupted() {
    let sleep = capture(__NR_nanosleep, &[0x1000, 0x2000]);
    assert_eq!(outputs(&sleep, error(EINTR), &Bytes(0x2000, vec![0; 16])), [(0x2000, 16)]);
    assert_eq!(outputs(&sleep, 0, &nothing()), [(0x2000, 16)]);
    assert_eq!(outputs(&sleep, error(EINVAL), &Bytes(0x2000, vec![0; 16])), []);
    let absolute = capture(__NR_clock_nanosleep, &[1, 1, 0x1000, 0x2000]);
    assert_eq!(outputs(&absolute, error(EINTR), &Bytes(0x2000, vec![0; 16])), []);
}
