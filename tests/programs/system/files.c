// Files and directories: open in all ways, link, rename, truncate, locks, times, permissions, directory listings.
#include "../program.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void)
{
    int fd = open("one", O_RDWR | O_CREAT | O_EXCL, 0640);
    must(fd >= 0 && write(fd, "0123456789", 10) == 10);
    int exists = open("one", O_CREAT | O_EXCL, 0600);
    printf("%d %s\n", exists, strerror(errno));
    must(link("one", "two") == 0 && symlink("one", "soft") == 0 && mkdir("dir", 0755) == 0 && rename("two", "dir/two") == 0);
    char text[64];
    ssize_t n = readlink("soft", text, sizeof text);
    printf("%.*s\n", (int)n, text);
    struct stat status;
    must(fstat(fd, &status) == 0);
    printf("%lo %ld links %ld\n", (long)status.st_mode, (long)status.st_size, (long)status.st_nlink);
    must(lstat("soft", &status) == 0 && S_ISLNK(status.st_mode));
    struct statx extended;
    must(statx(AT_FDCWD, "one", 0, STATX_ALL, &extended) == 0);
    printf("%lld\n", (long long)extended.stx_size);
    must(ftruncate(fd, 5) == 0 && pwrite(fd, "X", 1, 100) == 1 && lseek(fd, 0, SEEK_END) == 101);
    printf("%ld %ld\n", (long)lseek(fd, 10, SEEK_SET), (long)pread(fd, text, 20, 95));
    must(flock(fd, LOCK_EX) == 0 && chmod("one", 0600) == 0 && fsync(fd) == 0 && posix_fallocate(fd, 0, 4096) == 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    must(fcntl(fd, F_SETLK, &lock) == 0 && fcntl(fd, F_GETLK, &lock) == 0);
    printf("%d %d %d\n", lock.l_type == F_UNLCK, fcntl(fd, F_GETFL) & O_ACCMODE, fcntl(fd, F_GETFD));
    struct timespec times[2] = {{1000, 5}, {2000, 6}};
    must(futimens(fd, times) == 0 && stat("dir/two", &status) == 0);
    printf("%ld %ld\n", (long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    for (int i = 0; i < 300; i++)
    {
        snprintf(text, sizeof text, "dir/file-%03d", i);
        close(creat(text, 0600));
    }
    struct dirent **names;
    int count = scandir("dir", &names, NULL, by_name);
    printf("%d %s %s\n", count, names[2]->d_name, names[count - 1]->d_name);
    char where[4096];
    must(chdir("dir") == 0 && getcwd(where, sizeof where) != NULL);
    printf("%s\n", strrchr(where, '/'));
    int out = open("copy", O_RDWR | O_CREAT | O_APPEND, 0600);
    off_t from = 0;
    printf("%zd\n", sendfile(out, fd, &from, 101));
    printf("%ld\n", (long)copy_file_range(fd, &(off_t){0}, out, NULL, 50, 0));
    must(unlink("two") == 0 && rmdir("../dir") == -1 && errno == ENOTEMPTY);
    struct statvfs system;
    printf("%d %d\n", statvfs(".", &system) == 0, access("/etc/shadow-none", F_OK));
    must(mkfifo("fifo", 0600) == 0);
    int at = openat(AT_FDCWD, "..", O_RDONLY | O_DIRECTORY);
    printf("%d %d\n", fstatat(at, "one", &status, 0), faccessat(at, "none", R_OK, 0));
    DIR *stream = fdopendir(at);
    count = 0;
    while (readdir(stream) != NULL)
    {
        count++;
    }
    rewinddir(stream);
    printf("%d %d\n", count, readdir(stream) != NULL);
    closedir(stream);
    n = getxattr("copy", "user.none", text, sizeof text);
    printf("%zd\n", n);
    char template[] = "temporary-XXXXXX";
    fd = mkstemp(template);
    must(fd >= 0 && unlink(template) == 0 && close(fd) == 0 && close(fd) == -1);
}
