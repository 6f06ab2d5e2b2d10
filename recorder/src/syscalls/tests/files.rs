//! Files, directories, attributes, pipes.

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;

use super::oracle::{Oracle, raw, scenarios};

const HERE: u64 = AT_FDCWD as i64 as u64;

scenarios!(
    reading_and_writing,
    vectors,
    short_and_faulting_reads,
    file_status,
    directories_and_links,
    pipes_and_copies,
    extended_attributes,
    file_handles,
    locks_and_descriptors,
    ioctls,
    ioctls_of_terminals,
    ioctls_of_disks,
    mounts,
    message_queues,
);

fn temporary(name: &str) -> String {
    let id = format!("{}-{}", std::process::id(), raw(__NR_gettid, &[]));
    std::env::temp_dir().join(format!("oracle-{name}-{id}")).to_str().unwrap().to_owned()
}

fn reading_and_writing(o: &mut Oracle) {
    let fd = o.memory_file(b"some content of a file");
    let buffer = o.buffer(100);
    assert_eq!(o.ok(__NR_read, &[fd, buffer, 100]), 22);
    assert_eq!(o.ok(__NR_read, &[fd, buffer, 100]), 0);
    assert_eq!(o.ok(__NR_pread64, &[fd, buffer, 10, 5]), 10);
    o.fails(EBADF, __NR_read, &[u64::from(u32::MAX), buffer, 100]);
    o.ok(__NR_write, &[fd, buffer, 30]);
    o.close(&[fd]);
}

fn vectors(o: &mut Oracle) {
    let fd = o.memory_file(&[7; 100]);
    let (a, b, c) = (o.buffer(40), o.buffer(10), o.buffer(90));
    let vector = o.put_words(&[a, 40, b, 10, 0, 0, c, 90]);
    assert_eq!(o.ok(__NR_readv, &[fd, vector, 4]), 100);
    assert_eq!(o.ok(__NR_preadv, &[fd, vector, 4, 55]), 45);
    assert_eq!(o.ok(__NR_preadv2, &[fd, vector, 2, 0, 0, 0]), 50);
    o.ok(__NR_writev, &[fd, vector, 4]);
    o.ok(__NR_pwritev, &[fd, vector, 4, 10]);
    o.ok(__NR_pwritev2, &[fd, vector, 4, 10, 0, 0]);
    o.fails(EINVAL, __NR_readv, &[fd, vector, 2000]);

    let pid = raw(__NR_getpid, &[]) as u64;
    let (from, to) = (o.put(b"twenty bytes of data"), o.buffer(30));
    let (local, remote) = (o.put_words(&[to, 30]), o.put_words(&[from, 20]));
    assert_eq!(o.ok(__NR_process_vm_readv, &[pid, local, 1, remote, 1, 0]), 20);
    o.close(&[fd]);
}

fn short_and_faulting_reads(o: &mut Oracle) {
    let fd = o.memory_file(&[9; 300]);
    let last = o.last_buffer(50);
    // The kernel fills what it can reach and says how much that was.
    assert_eq!(o.ok(__NR_read, &[fd, last, 50]), 50);
    let path = o.put_string("/");
    // The structure does not fit: some of it may have been written before the fault.
    o.fails(EFAULT, __NR_newfstatat, &[HERE, path, o.end(), 0]);
    o.fails(EFAULT, __NR_read, &[fd, o.end(), 10]);
    o.close(&[fd]);
}

fn file_status(o: &mut Oracle) {
    let path = o.put_string("/etc/passwd");
    let fd = o.open("/etc/passwd", O_RDONLY);
    let status = o.buffer(144);
    o.ok(__NR_stat, &[path, status]);
    o.ok(__NR_lstat, &[path, status]);
    o.ok(__NR_fstat, &[fd, status]);
    o.ok(__NR_newfstatat, &[HERE, path, status, 0]);
    let missing = o.put_string("/nowhere/at/all");
    o.fails(ENOENT, __NR_stat, &[missing, status]);
    let extended = o.buffer(256);
    o.ok(__NR_statx, &[HERE, path, 0, u64::from(STATX_BASIC_STATS), extended]);
    let filesystem = o.buffer(120);
    o.ok(__NR_statfs, &[path, filesystem]);
    o.ok(__NR_fstatfs, &[fd, filesystem]);
    let (whole, pages) = (o.put_words(&[0, 0]), o.buffer(40));
    o.any(__NR_cachestat, &[fd, whole, pages, 0]);
    let attributes = o.buffer(24);
    o.any(468, &[HERE, path, attributes, 24, 0]);
    o.ok(__NR_access, &[path, 4]);
    o.ok(__NR_faccessat2, &[HERE, path, 4, 0]);
    let how = o.put_words(&[0, 0, 0]);
    let again = o.any(__NR_openat2, &[HERE, path, how, 24]);
    if again >= 0 {
        o.close(&[again as u64]);
    }
    o.close(&[fd]);
}

fn directories_and_links(o: &mut Oracle) {
    let fd = o.open("/proc/self", O_RDONLY | O_DIRECTORY);
    let entries = o.buffer(1000);
    assert!(o.ok(__NR_getdents64, &[fd, entries, 1000]) > 0);
    assert!(o.ok(__NR_getdents, &[fd, entries, 1000]) > 0);
    o.ok(__NR_lseek, &[fd, 0, 0]);
    o.fails(EINVAL, __NR_getdents64, &[fd, entries, 4]);
    let (name, target) = (o.put_string("/proc/self/exe"), o.buffer(300));
    assert!(o.ok(__NR_readlink, &[name, target, 300]) > 5);
    assert_eq!(o.ok(__NR_readlinkat, &[HERE, name, target, 5]), 5);
    let directory = o.buffer(300);
    assert!(o.ok(__NR_getcwd, &[directory, 300]) > 0);
    o.fails(ERANGE, __NR_getcwd, &[directory, 1]);
    o.close(&[fd]);
}

fn pipes_and_copies(o: &mut Oracle) {
    let old = o.buffer(8);
    o.ok(__NR_pipe, &[old]);
    let ends = [u64::from(o.half(old)), u64::from(o.half(old + 4))];
    o.close(&ends);

    let (reader, writer) = o.pipe(b"twelve bytes");
    let file = o.memory_file(&[3; 64]);
    let (from, to) = (o.put_words(&[5]), o.put_words(&[0]));
    assert_eq!(o.ok(__NR_splice, &[file, from, writer, 0, 10, 0]), 10);
    assert_eq!(o.ok(__NR_splice, &[reader, 0, file, to, 12, 0]), 12);
    let (other_reader, other_writer) = o.pipe(b"");
    o.ok(__NR_tee, &[reader, other_writer, 100, 0]);
    let from = o.put_words(&[7]);
    assert_eq!(o.ok(__NR_sendfile, &[writer, file, from, 20]), 20);
    o.fails(EBADF, __NR_sendfile, &[999_999, file, from, 20]);

    let buffer = o.buffer(64);
    let vector = o.put_words(&[buffer, 64]);
    assert_eq!(o.ok(__NR_vmsplice, &[reader, vector, 1, 0]), 30);
    o.ok(__NR_vmsplice, &[writer, vector, 1, 0]);

    let second = o.memory_file(b"");
    let (from, to) = (o.put_words(&[1]), o.put_words(&[2]));
    assert_eq!(o.ok(__NR_copy_file_range, &[file, from, second, to, 30, 0]), 30);
    let beyond = o.put_words(&[10_000]);
    assert_eq!(o.ok(__NR_copy_file_range, &[file, beyond, second, to, 30, 0]), 0);
    o.close(&[reader, writer, other_reader, other_writer, file, second]);
}

fn extended_attributes(o: &mut Oracle) {
    let path = temporary("xattr");
    let fd = o.open(&path, O_RDWR | O_CREAT);
    let path = o.put_string(&path);
    let (name, value) = (o.put_string("user.oracle"), o.put(b"fifteen bytes.."));
    o.any(__NR_setxattr, &[path, name, value, 15, 0]);
    o.any(__NR_lsetxattr, &[path, name, value, 15, 0]);
    o.any(__NR_fsetxattr, &[fd, name, value, 15, 0]);
    let buffer = o.buffer(64);
    for room in [64, 15, 3, 0] {
        o.any(__NR_getxattr, &[path, name, buffer, room]);
        o.any(__NR_lgetxattr, &[path, name, buffer, room]);
        o.any(__NR_fgetxattr, &[fd, name, buffer, room]);
        o.any(__NR_listxattr, &[path, buffer, room]);
        o.any(__NR_llistxattr, &[path, buffer, room]);
        o.any(__NR_flistxattr, &[fd, buffer, room]);
        o.any(__NR_listxattrat, &[HERE, path, 0, buffer, room]);
        let args = o.put_words(&[buffer, room]);
        o.any(__NR_getxattrat, &[HERE, path, 0, name, args, 16]);
    }
    o.any(__NR_removexattr, &[path, name]);
    o.ok(__NR_unlink, &[path]);
    o.close(&[fd]);
}

fn file_handles(o: &mut Oracle) {
    let path = o.put_string("/etc/passwd");
    let mount = o.buffer(8);
    let mut handle = vec![0; 8 + 128];
    handle[0] = 128;
    let large = o.put(&handle);
    o.any(__NR_name_to_handle_at, &[HERE, path, large, mount, 0]);
    o.any(__NR_name_to_handle_at, &[HERE, path, large, mount, 1]);
    let small = o.put_halves(&[0, 0]);
    let result = o.any(__NR_name_to_handle_at, &[HERE, path, small, mount, 0]);
    if result == -i64::from(EOVERFLOW) {
        assert!(o.half(small) > 0);
    }
    let root = o.open("/", O_RDONLY);
    let fd = o.any(__NR_open_by_handle_at, &[root, large, 0]);
    if fd >= 0 {
        o.close(&[fd as u64]);
    }
    o.close(&[root]);
}

fn locks_and_descriptors(o: &mut Oracle) {
    let fd = o.memory_file(b"lockable");
    let lock = o.put_words(&[u64::from(F_WRLCK), 0, 4, 0]);
    o.ok(__NR_fcntl, &[fd, F_SETLK.into(), lock]);
    o.ok(__NR_fcntl, &[fd, F_GETLK.into(), lock]);
    let lock = o.put_words(&[u64::from(F_WRLCK), 0, 4, 0]);
    o.ok(__NR_fcntl, &[fd, F_OFD_GETLK.into(), lock]);
    let owner = o.buffer(8);
    o.ok(__NR_fcntl, &[fd, F_GETOWN_EX.into(), owner]);
    o.any(__NR_fcntl, &[fd, F_GETOWNER_UIDS.into(), owner]);
    let hint = o.buffer(8);
    o.any(__NR_fcntl, &[fd, 1035, hint]);
    o.any(__NR_fcntl, &[fd, 1037, hint]);
    for command in [F_GETFD, F_GETFL, F_GETSIG, F_GETLEASE] {
        o.any(__NR_fcntl, &[fd, command.into()]);
    }
    let copy = o.ok(__NR_fcntl, &[fd, F_DUPFD_CLOEXEC.into(), 100]) as u64;
    o.close(&[fd, copy]);
}

fn ioctls(o: &mut Oracle) {
    let fd = o.memory_file(b"0123456789");
    let (reader, writer) = o.pipe(b"four");
    let int = o.buffer(4);
    o.ok(__NR_ioctl, &[reader, 0x541b, int]); // FIONREAD
    assert_eq!(o.half(int), 4);
    let on = o.put_halves(&[1]);
    o.ok(__NR_ioctl, &[reader, 0x5421, on]); // FIONBIO
    o.ok(__NR_ioctl, &[reader, 0x5451, 0]); // FIOCLEX
    o.any(__NR_ioctl, &[fd, 2, int]); // FIGETBSZ
    let size = o.buffer(8);
    o.any(__NR_ioctl, &[fd, 0x5460, size]); // FIOQSIZE

    let path = temporary("ioctl");
    let file = o.open(&path, O_RDWR | O_CREAT);
    let path = o.put_string(&path);
    let content = o.buffer(9000);
    o.ok(__NR_write, &[file, content, 9000]);
    o.any(__NR_ioctl, &[file, 0x8008_6601, int]); // FS_IOC_GETFLAGS
    o.any(__NR_ioctl, &[file, 0x8008_7601, int]); // FS_IOC_GETVERSION
    o.any(__NR_ioctl, &[file, 2, int]);
    o.any(__NR_ioctl, &[file, 0x5460, size]);
    let attributes = o.buffer(28);
    o.any(__NR_ioctl, &[file, 0x801c_581f, attributes]); // FS_IOC_FSGETXATTR
    let label = o.buffer(256);
    o.any(__NR_ioctl, &[file, 0x8100_9431, label]); // FS_IOC_GETFSLABEL
    // FS_IOC_FIEMAP: start 0, the whole file, written to disk first, room for four extents.
    let mut map = vec![0; 32 + 4 * 56];
    map[8..16].fill(0xff);
    map[16] = 1;
    map[24] = 4;
    let map = o.put(&map);
    o.any(__NR_ioctl, &[file, 0xc020_660b, map]);
    o.ok(__NR_unlink, &[path]);

    let random = o.open("/dev/urandom", O_RDONLY);
    o.any(__NR_ioctl, &[random, 0x8004_5200, int]); // RNDGETENTCNT, by its encoding
    let events = o.ok(__NR_inotify_init1, &[0]) as u64;
    o.ok(__NR_ioctl, &[events, 0x541b, int]);
    let namespace = o.open("/proc/self/ns/user", O_RDONLY);
    o.any(__NR_ioctl, &[namespace, 0xb704, int]); // NS_GET_OWNER_UID
    o.close(&[fd, reader, writer, file, random, events, namespace]);
}

fn ioctls_of_terminals(o: &mut Oracle) {
    let path = o.put_string("/dev/ptmx");
    let fd = o.any(__NR_openat, &[HERE, path, u64::from(O_RDWR | O_NOCTTY), 0]);
    if fd < 0 {
        return;
    }
    let fd = fd as u64;
    let (int, size) = (o.buffer(4), o.buffer(8));
    o.ok(__NR_ioctl, &[fd, 0x8004_5430, int]); // TIOCGPTN
    let unlocked = o.put_halves(&[0]);
    o.ok(__NR_ioctl, &[fd, 0x4004_5431, unlocked]); // TIOCSPTLCK
    o.ok(__NR_ioctl, &[fd, 0x5413, size]); // TIOCGWINSZ
    o.ok(__NR_ioctl, &[fd, 0x5414, size]);
    let old = o.buffer(18);
    let settings = o.buffer(36);
    o.ok(__NR_ioctl, &[fd, 0x5401, settings]); // TCGETS
    o.ok(__NR_ioctl, &[fd, 0x5402, settings]);
    o.ok(__NR_ioctl, &[fd, 0x5405, old]); // TCGETA
    let settings = o.buffer(44);
    o.ok(__NR_ioctl, &[fd, 0x802c_542a, settings]); // TCGETS2
    for command in [0x5411, 0x541b, 0x5424, 0x5429, 0x540f, 0x8004_5432, 0x8004_5438, 0x8004_5439, 0x8004_5440] {
        o.any(__NR_ioctl, &[fd, command, int]);
    }
    let far = o.any(__NR_ioctl, &[fd, 0x5441, u64::from(O_RDWR | O_NOCTTY)]); // TIOCGPTPEER
    if far >= 0 {
        o.close(&[far as u64]);
    }
    o.close(&[fd]);
}

/// Only where the tests may open a disk.
fn ioctls_of_disks(o: &mut Oracle) {
    for device in ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"] {
        let path = o.put_string(device);
        let fd = o.any(__NR_openat, &[HERE, path, O_RDONLY.into(), 0]);
        if fd < 0 {
            continue;
        }
        let fd = fd as u64;
        let (short, int, long) = (o.buffer(2), o.buffer(4), o.buffer(8));
        for command in [0x1267, 0x127e] {
            o.any(__NR_ioctl, &[fd, command, short]);
        }
        for command in [0x125e, 0x1268, 0x1278, 0x1279, 0x127a, 0x127b, 0x127c, 0x8008_1270] {
            o.any(__NR_ioctl, &[fd, command, int]);
        }
        for command in [0x1260, 0x1263, 0x1265, 0x8008_1272, 0x8008_1280] {
            o.any(__NR_ioctl, &[fd, command, long]);
        }
        let geometry = o.buffer(16);
        o.any(__NR_ioctl, &[fd, 0x301, geometry]);
        let status = o.buffer(232);
        o.any(__NR_ioctl, &[fd, 0x4c05, status]);
        o.close(&[fd]);
    }
}

fn mounts(o: &mut Oracle) {
    let path = o.put_string("/");
    let extended = o.buffer(256);
    const STATX_MNT_ID_UNIQUE: u64 = 0x4000;
    o.ok(__NR_statx, &[HERE, path, 0, STATX_MNT_ID_UNIQUE, extended]);
    let id = u64::from_ne_bytes(o.read(extended + 0x90, 8).try_into().unwrap());
    let request = o.put_words(&[24, id, 0x3f]);
    for room in [4000, 600, 8] {
        let mount = o.buffer(room);
        o.any(__NR_statmount, &[request, mount, room, 0]);
    }
    let (request, ids) = (o.put_words(&[24, u64::MAX, 0]), o.buffer(80));
    o.any(__NR_listmount, &[request, ids, 10, 0]);
    let quota = o.buffer(72);
    let device = o.put_string("/dev/no-such-device");
    o.any(__NR_quotactl, &[0x8000_0700, device, 0, quota]);
    let root = o.open("/", O_RDONLY);
    o.any(__NR_quotactl_fd, &[root, 0x8000_0700, 0, quota]);
    o.close(&[root]);
}

fn message_queues(o: &mut Oracle) {
    let name = o.put_string(&format!("oracle-{}-{}", std::process::id(), raw(__NR_gettid, &[])));
    let attributes = o.put_words(&[0, 4, 64, 0, 0, 0, 0, 0]);
    let fd = o.any(__NR_mq_open, &[name, u64::from(O_RDWR | O_CREAT | O_NONBLOCK), 0o600, attributes]);
    let (text, priority) = (o.put(b"text of a message"), o.buffer(4));
    let queue = fd as u64;
    o.any(__NR_mq_timedsend, &[queue, text, 17, 3, 0]);
    let buffer = o.buffer(64);
    o.any(__NR_mq_timedreceive, &[queue, buffer, 64, priority, 0]);
    o.any(__NR_mq_timedreceive, &[queue, buffer, 64, priority, 0]);
    let old = o.buffer(64);
    o.any(__NR_mq_getsetattr, &[queue, 0, old]);
    if fd >= 0 {
        o.ok(__NR_mq_unlink, &[name]);
        o.close(&[queue]);
    }
}
