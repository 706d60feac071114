/* What a process does to the files below a folder, in order, and the failure of one of these calls.
 *
 *     cc -O2 -shared -fPIC -o disk.so disk.c
 *     LD_PRELOAD=./disk.so DISK_ROOT=/absolute/folder DISK_TRACE=/elsewhere/trace DISK_FAIL=17:eio tideline serve …
 *
 * Owns: the trace, a row of records (`recorder.py` reads it), and `DISK_FAIL=NUMBER:HOW`, which has the call of this
 * number fail: `eio`, `enospc`, `short` (a write is done by half; other calls are not touched), `syncs` (every sync
 * from this call on) or `kill` (the process ends in its place). Promises: a change is made and recorded under one lock,
 * so that the order of the records is that of the changes, and a kill by number leaves none that is not recorded. A
 * sync has a record before and one after it: it covers what is recorded before the first, and counts from the second.
 * What goes out through a socket is recorded before it does: so whatever was answered stands behind the syncs that had
 * ended by then. Must not: change what it does not fail. It sees calls of libc only; those of rustix (here fallocate,
 * of files without contents) pass it by.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum kind { WRITE = 1, CUT, NAME, UNNAME, RENAME, BEGIN, BEGIN_ONE, END, REPLY, FAILED };
enum fault { NONE, EIO_FAULT, ENOSPC_FAULT, SHORT, SYNCS, KILL };
enum call { NAMES, DATA, SYNC }; /* a length is as a name */

struct record {
    uint32_t kind;
    int32_t result;
    uint64_t file; /* an inode: of the file, or of the folder that a name is in */
    int64_t at;
    uint32_t name_bytes, data_bytes;
};

static char root[PATH_MAX];
static size_t root_bytes;
static int trace = -1;
static long fail_at;
static enum fault fail_how;
static long calls;
static int64_t ticket;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void start(void)
{
    const char *folder = getenv("DISK_ROOT"), *file = getenv("DISK_TRACE"), *fail = getenv("DISK_FAIL");
    if (!folder || !file || strlen(folder) >= sizeof root)
        return;
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    trace = fcntl(fd, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, fd);
    strcpy(root, folder);
    root_bytes = strlen(root);
    if (fail) {
        char *how;
        fail_at = strtol(fail, &how, 10);
        fail_how = !strcmp(how, ":eio") ? EIO_FAULT : !strcmp(how, ":enospc") ? ENOSPC_FAULT
                 : !strcmp(how, ":short") ? SHORT : !strcmp(how, ":syncs") ? SYNCS
                 : !strcmp(how, ":kill") ? KILL : NONE;
    }
}

static void put(struct record record, const char *name, const struct iovec *data, int count)
{
    struct iovec all[IOV_MAX];
    record.name_bytes = name ? strlen(name) : 0;
    all[0] = (struct iovec){&record, sizeof record};
    all[1] = (struct iovec){(void *)name, record.name_bytes};
    if (count > IOV_MAX - 2)
        abort();
    for (int at = 0; at < count; at++) {
        all[at + 2] = data[at];
        record.data_bytes += data[at].iov_len;
    }
    long all_bytes = sizeof record + record.name_bytes + record.data_bytes;
    if (syscall(SYS_writev, trace, all, count + 2) != all_bytes)
        abort(); /* a trace with a hole proves nothing */
}

/* Counts a call, under the lock; how it fails. */
static enum fault next_call(enum call call)
{
    int comes = ++calls == fail_at || (fail_how == SYNCS && calls > fail_at);
    if (!comes || (fail_how == SHORT && call != DATA) || (fail_how == SYNCS && call != SYNC))
        return NONE;
    put((struct record){.kind = FAILED, .at = calls}, NULL, NULL, 0);
    if (fail_how == KILL) {
        kill(getpid(), SIGKILL);
        for (;;)
            pause();
    }
    errno = fail_how == ENOSPC_FAULT ? ENOSPC : EIO;
    return fail_how;
}

static int is_inside(const char *path)
{
    return !strncmp(path, root, root_bytes) && (path[root_bytes] == '/' || !path[root_bytes]);
}

/* Where a descriptor's file is; the length, 0 = nowhere. */
static size_t path_of(int fd, char *path)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, PATH_MAX - 1);
    path[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0 ? bytes : 0;
}

/* 1 = a file or folder below the root, 2 = a socket, 0 = anything else. */
static int look(int fd, uint64_t *file)
{
    struct stat stat;
    char path[PATH_MAX];
    int before = errno, found = 0;
    if (trace >= 0 && fd != trace && !fstat(fd, &stat)) {
        *file = stat.st_ino;
        if (S_ISSOCK(stat.st_mode))
            found = 2;
        else if (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode))
            found = path_of(fd, path) && is_inside(path);
    }
    errno = before;
    return found;
}

static void reply(const struct iovec *data, int count)
{
    pthread_mutex_lock(&lock);
    put((struct record){.kind = REPLY}, NULL, data, count);
    pthread_mutex_unlock(&lock);
}

/* The first `bytes` of some pieces; how many pieces these are. */
static int first(struct iovec *to, const struct iovec *from, int count, size_t bytes)
{
    int at = 0;
    for (; at < count && bytes; at++) {
        to[at] = from[at];
        if (to[at].iov_len > bytes)
            to[at].iov_len = bytes;
        bytes -= to[at].iov_len;
    }
    return at;
}

static ssize_t raw_write(int fd, const struct iovec *data, int count, off_t at)
{
    return at < 0 ? syscall(SYS_writev, fd, data, count) : syscall(SYS_pwritev, fd, data, count, at, 0L);
}

/* `at` < 0: where the descriptor is. */
static ssize_t write_pieces(int fd, const struct iovec *data, int count, off_t at)
{
    uint64_t file;
    int what = look(fd, &file);
    if (what == 2)
        reply(data, count);
    if (what != 1)
        return raw_write(fd, data, count, at);
    struct iovec part[IOV_MAX];
    size_t bytes = 0;
    for (int piece = 0; piece < count; piece++)
        bytes += data[piece].iov_len;
    pthread_mutex_lock(&lock);
    enum fault fault = next_call(DATA);
    if (fault == EIO_FAULT || fault == ENOSPC_FAULT) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    int flags = fcntl(fd, F_GETFL);
    off_t place = at >= 0 ? at : lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
    int pieces = first(part, data, count, fault == SHORT ? bytes / 2 : bytes);
    struct record record = {.kind = WRITE, .file = file, .at = place};
    ssize_t done;
    if (flags & O_DSYNC) {
        /* Begun, and durable by itself when it has returned. */
        int64_t own = ++ticket;
        put(record, NULL, part, pieces);
        put((struct record){.kind = BEGIN_ONE, .file = file, .at = own}, NULL, NULL, 0);
        pthread_mutex_unlock(&lock);
        done = raw_write(fd, part, pieces, at);
        int error = errno;
        pthread_mutex_lock(&lock);
        put((struct record){.kind = END, .result = done < 0 ? -error : 0, .at = own}, NULL, NULL, 0);
        errno = error;
    } else {
        done = raw_write(fd, part, pieces, at);
        int error = errno;
        if (done > 0)
            put(record, NULL, part, first(part, data, count, done));
        errno = error;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int sync_file(int fd, long number)
{
    uint64_t file;
    if (look(fd, &file) != 1)
        return syscall(number, fd);
    pthread_mutex_lock(&lock);
    enum fault fault = next_call(SYNC);
    int64_t own = ++ticket;
    put((struct record){.kind = BEGIN, .file = file, .at = own}, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    int done = fault ? -1 : syscall(number, fd);
    int error = !fault ? errno : fault == ENOSPC_FAULT ? ENOSPC : EIO;
    pthread_mutex_lock(&lock);
    put((struct record){.kind = END, .result = done ? -error : 0, .at = own}, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

/* A path below the root, from its beginning; 0 if it is elsewhere. */
static int whole(char *to, int folder, const char *path)
{
    size_t bytes = 0;
    if (trace < 0)
        return 0;
    if (path[0] != '/') {
        /* The root is given whole, and so is all below it: AT_FDCWD is elsewhere. */
        bytes = folder == AT_FDCWD ? 0 : path_of(folder, to);
        if (!bytes)
            return 0;
        to[bytes++] = '/';
    }
    if (bytes + strlen(path) >= PATH_MAX)
        return 0;
    strcpy(to + bytes, path);
    return is_inside(to) && to[root_bytes];
}

static uint64_t inode(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) ? 0 : stat.st_ino;
}

/* The inode of the folder that a path is in, and the name in it. */
static uint64_t parent(const char *path, const char **name)
{
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/');
    memcpy(above, path, slash - path);
    above[slash - path] = 0;
    *name = slash + 1;
    return inode(above);
}

static int change_name(enum kind kind, int from_folder, const char *from, int to_folder, const char *to, long number,
                       long extra)
{
    char path[PATH_MAX], path_to[PATH_MAX], names[PATH_MAX];
    const char *name, *name_to;
    if (!whole(path, from_folder, from) || (kind == RENAME && !whole(path_to, to_folder, to)))
        return number == SYS_renameat ? syscall(number, from_folder, from, to_folder, to)
                                      : syscall(number, from_folder, from, extra);
    pthread_mutex_lock(&lock);
    int done = -1, error;
    if (!next_call(NAMES)) {
        struct record record = {.kind = kind, .result = number == SYS_mkdirat, .file = parent(path, &name)};
        uint64_t to_inode = kind == RENAME ? parent(path_to, &name_to) : 0, moved = inode(path);
        done = number == SYS_renameat ? syscall(number, from_folder, from, to_folder, to)
                                      : syscall(number, from_folder, from, extra);
        error = errno;
        record.at = number == SYS_mkdirat ? inode(path) : moved;
        if (!done && kind == RENAME) {
            strcpy(names, name);
            strcat(strcat(names, "/"), name_to);
            struct iovec data = {&to_inode, sizeof to_inode};
            put(record, names, &data, 1);
        } else if (!done) {
            put(record, name, NULL, 0);
        }
        errno = error;
    }
    error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int open_file(int folder, const char *file, int flags, mode_t mode)
{
    char path[PATH_MAX];
    const char *name;
    if (!(flags & (O_CREAT | O_TRUNC)) || !whole(path, folder, file))
        return syscall(SYS_openat, folder, file, flags, mode);
    pthread_mutex_lock(&lock);
    uint64_t before = inode(path);
    int done = -1;
    if ((before && !(flags & O_TRUNC)) || !next_call(NAMES)) {
        done = syscall(SYS_openat, folder, file, flags, mode);
        if (done >= 0 && !before) {
            struct record record = {.kind = NAME, .file = parent(path, &name), .at = inode(path)};
            put(record, name, NULL, 0);
        } else if (done >= 0 && flags & O_TRUNC) {
            put((struct record){.kind = CUT, .file = before}, NULL, NULL, 0);
        }
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int cut_file(int fd, off_t bytes)
{
    uint64_t file;
    if (look(fd, &file) != 1)
        return syscall(SYS_ftruncate, fd, bytes);
    pthread_mutex_lock(&lock);
    int done = next_call(NAMES) ? -1 : syscall(SYS_ftruncate, fd, bytes), error = errno;
    if (!done)
        put((struct record){.kind = CUT, .file = file, .at = bytes}, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

/* Each name of a call, with and without 64. `folder` may be a parameter of the call. */
#define OPEN(declared, folder)                                                                                        \
    EXPORT int declared                                                                                               \
    {                                                                                                                 \
        va_list rest;                                                                                                 \
        va_start(rest, flags);                                                                                        \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                       \
        va_end(rest);                                                                                                 \
        return open_file(folder, file, flags, mode);                                                                  \
    }
#define PWRITE(name)                                                                                                  \
    EXPORT ssize_t name(int fd, const void *data, size_t bytes, off_t at)                                             \
    {                                                                                                                 \
        return write_pieces(fd, &(struct iovec){(void *)data, bytes}, 1, at);                                         \
    }
#define PWRITEV(name)                                                                                                 \
    EXPORT ssize_t name(int fd, const struct iovec *data, int count, off_t at)                                        \
    {                                                                                                                 \
        return write_pieces(fd, data, count, at);                                                                     \
    }
#define FTRUNCATE(name)                                                                                               \
    EXPORT int name(int fd, off_t bytes)                                                                              \
    {                                                                                                                 \
        return cut_file(fd, bytes);                                                                                   \
    }

OPEN(open(const char *file, int flags, ...), AT_FDCWD)
OPEN(open64(const char *file, int flags, ...), AT_FDCWD)
OPEN(openat(int folder, const char *file, int flags, ...), folder)
OPEN(openat64(int folder, const char *file, int flags, ...), folder)
PWRITE(pwrite)
PWRITE(pwrite64)
PWRITEV(pwritev)
PWRITEV(pwritev64)
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
    return write_pieces(fd, &(struct iovec){(void *)data, bytes}, 1, -1);
}

EXPORT ssize_t writev(int fd, const struct iovec *data, int count)
{
    return write_pieces(fd, data, count, -1);
}

EXPORT ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    if (trace >= 0)
        reply(&(struct iovec){(void *)data, bytes}, 1);
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (trace >= 0)
        reply(message->msg_iov, message->msg_iovlen);
    return syscall(SYS_sendmsg, fd, message, flags);
}

EXPORT int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

EXPORT int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    return change_name(NAME, AT_FDCWD, path, 0, NULL, SYS_mkdirat, mode);
}

EXPORT int unlink(const char *path)
{
    return change_name(UNNAME, AT_FDCWD, path, 0, NULL, SYS_unlinkat, 0);
}

EXPORT int rmdir(const char *path)
{
    return change_name(UNNAME, AT_FDCWD, path, 0, NULL, SYS_unlinkat, AT_REMOVEDIR);
}

EXPORT int unlinkat(int folder, const char *path, int flags)
{
    return change_name(UNNAME, folder, path, 0, NULL, SYS_unlinkat, flags);
}

EXPORT int rename(const char *from, const char *to)
{
    return change_name(RENAME, AT_FDCWD, from, AT_FDCWD, to, SYS_renameat, 0);
}
