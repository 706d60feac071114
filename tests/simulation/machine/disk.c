/* Files: where they lie, what is told of them, and which calls fail.
 *
 * Owns: the folder `disk` of the working directory, which the server sees as /sim. Promises: no other file of the system
 * is written; of it libc alone reads. What is told of a file (its number, its times, the room) is the same in each run;
 * a sync takes its time, and others run meanwhile. */
#include "machine.h"
#include "power.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <linux/stat.h>

enum { INODES = 1 << 16, INODES_FILE = 1002, ARMED = 8 };

static struct { enum fault fault; enum about about; uint32_t countdown; } armed[ARMED];
static uint64_t full_until;
static int log_syncs;                  /* under way */
static uint64_t *inodes;
static uint64_t inode_count;

void arm(enum fault fault, enum about about, uint32_t countdown) {
    for (int i = 0; i < ARMED; i++) {
        if (armed[i].countdown) continue;
        armed[i].fault = fault, armed[i].about = about, armed[i].countdown = countdown;
        return;
    }
}

/* When a fault may be due: before a file or name (-1) is changed, at its sync, when what was written is certain. */
enum moment { BEFORE, AT_SYNC, CERTAIN };

static int is_about(enum about about, int fd, enum moment moment) {
    if (moment == CERTAIN || about == OVERTAKEN) return moment == CERTAIN && about == OVERTAKEN && log_syncs;
    return about == ANY || (is_of_log(fd) && (about == LOG || (about == LOG_SYNC ? moment == AT_SYNC : is_inherited(fd))));
}

static int strikes_at(enum fault fault, int fd, enum moment moment) {
    int is_due = 0;
    for (int i = 0; i < ARMED; i++) {
        if (armed[i].fault != fault || !armed[i].countdown || !is_about(armed[i].about, fd, moment)) continue;
        if (!--armed[i].countdown) is_due = 1;
    }
    if (is_due) note("fault", fault, 0, 0);
    return is_due;
}

static int strikes(enum fault fault, int fd) { return strikes_at(fault, fd, BEFORE); }
static int strikes_sync(enum fault fault, int fd) { return strikes_at(fault, fd, AT_SYNC); }

/* At each call that changes the disk the machine may end. */
static void may_end_at(int fd, enum moment moment) {
    if (strikes_at(KILL, fd, moment)) finish('K', 0);
    if (strikes_at(POWER_CUT, fd, moment)) cut_power();
}

static void may_end(int fd) { may_end_at(fd, BEFORE); }

static const char *path(const char *from, char *to) {
    if (!begins(from, "/sim") || (from[4] != '/' && from[4])) return from;
    copy(to, "disk", 4);
    size_t count = length(from + 4) + 1;
    if (count > PATH - 8) die("so long a path", (long)count);
    copy(to + 4, from + 4, count);
    return to;
}

static int is_ours(const char *name) { return begins(name, "disk"); }

static int is_hidden(const char *name) {
    return (begins(name, "/proc/") && !begins(name, "/proc/self/maps")) || begins(name, "/sys/");
}

/* The same number for the same file, also after a restart. */
static uint64_t inode(uint64_t real) {
    if (!inodes) {
        inodes = (void *)RAW(SYS_mmap, 0L, (long)(INODES * 8), (long)(PROT_READ | PROT_WRITE),
                             (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
        long fd = RAW(SYS_open, "inodes", (long)(O_RDWR | O_CREAT | O_APPEND), 0600L);
        RAW(SYS_dup3, fd, (long)INODES_FILE, (long)O_CLOEXEC);
        RAW(SYS_close, fd);
        inode_count = (uint64_t)RAW(SYS_read, (long)INODES_FILE, inodes, (long)(INODES * 8)) / 8;
    }
    for (uint64_t i = 0; i < inode_count; i++) if (inodes[i] == real) return 100 + i;
    if (inode_count == INODES) die("so many files", INODES);
    inodes[inode_count] = real;
    RAW(SYS_write, (long)INODES_FILE, &inodes[inode_count], 8L);
    return 100 + inode_count++;
}

/* A name below an open folder. */
static const char *below_folder(int fd, const char *name, char *to) {
    const char *folder = folder_at(fd);
    size_t count = length(folder), more = length(name) + 1;
    if (!count || count + more + 1 > PATH) die("a name below a descriptor", fd);
    copy(to, folder, count);
    to[count] = '/';
    copy(to + count + 1, name, more);
    return to;
}

static long open_file(const char *given, int flags, int mode) {
    if (is_hidden(given)) return -ENOENT;
    char to[PATH];
    const char *name = path(given, to);
    struct stat before;
    int was_there = RAW(SYS_stat, name, &before) == 0;
    if (is_ours(name) && (flags & (O_CREAT | O_TRUNC))) may_end(-1);
    int empties = is_ours(name) && was_there && (flags & O_TRUNC);
    long fd = RAW(SYS_open, name, (long)(empties ? flags & ~O_TRUNC : flags), (long)mode);
    if (fd < 0 || !is_ours(name)) return fd;
    if (fd >= FDS) die("so many descriptors", fd);
    opened((int)fd, name, flags, was_there);
    if (empties && before.st_size) resize_tracked((int)fd, 0);
    return fd;
}

static long open_at(int fd, const char *name, int flags, int mode) {
    char to[PATH];
    return open_file(fd == AT_FDCWD || *name == '/' ? name : below_folder(fd, name, to), flags, mode);
}

static long stat_x(long *a) {
    char to[PATH];
    const char *name = (const char *)a[1];
    if (!name) return -EFAULT;
    if (is_hidden(name)) return -ENOENT;
    long error = RAW(SYS_statx, a[0], path(name, to), a[2], a[3], a[4]);
    struct statx *x = (void *)a[4];
    if (error) return error;
    clear(&x->stx_atime, sizeof(struct statx_timestamp) * 4);
    x->stx_dev_major = 8, x->stx_dev_minor = 1, x->stx_ino = inode(x->stx_ino), x->stx_mnt_id = 1;
    return 0;
}

static long stat_old(long nr, long *a) {
    char to[PATH];
    struct stat *s;
    long error;
    if (nr == SYS_fstat) error = RAW(nr, a[0], a[1]), s = (void *)a[1];
    else if (nr == SYS_newfstatat) error = RAW(nr, a[0], path((char *)a[1], to), a[2], a[3]), s = (void *)a[2];
    else error = RAW(nr, path((char *)a[0], to), a[1]), s = (void *)a[1];
    if (error) return error;
    clear(&s->st_atim, 3 * sizeof s->st_atim);
    s->st_dev = makedev(8, 1), s->st_ino = inode(s->st_ino);
    return 0;
}

static long room_of(struct statfs *to) {
    clear(to, sizeof *to);
    to->f_type = 0xef53, to->f_bsize = to->f_frsize = 4096, to->f_namelen = 255;
    to->f_blocks = 1u << 26, to->f_bfree = to->f_bavail = 1u << 25;
    to->f_files = to->f_ffree = 1u << 20;
    return 0;
}

/* One write, perhaps a part of it, perhaps none. */
static long write_bytes(int fd, const unsigned char *bytes, size_t count, int64_t at) {
    may_end(fd);
    if (strikes(WRITE_EIO, fd)) return -EIO;
    if (strikes(WRITE_ENOSPC, fd)) full_until = now + below(3000000000u);
    if (now < full_until) return -ENOSPC;
    if (strikes(WRITE_SHORT, fd) && count > 1) count = 1 + below(count - 1);
    long done = write_tracked(fd, bytes, count, at);
    if (is_certain_at_once(fd)) may_end_at(fd, CERTAIN);
    return done;
}

static long write_file(long nr, long *a) {
    int fd = (int)a[0];
    if (!is_tracked(fd)) return RAW(nr, a[0], a[1], a[2], a[3]);
    /* Whoever writes waits for the disk: meanwhile others queue up behind it. */
    if (traits & THROTTLED) wait_until(SLEEP, now + (below(1000000) << below(5)));
    if (nr == SYS_write) return write_bytes(fd, (void *)a[1], (size_t)a[2], -1);
    if (nr == SYS_pwrite64) return write_bytes(fd, (void *)a[1], (size_t)a[2], a[3]);
    int64_t at = nr == SYS_pwritev ? a[3] : -1;
    const struct iovec *pieces = (void *)a[1];
    long written = 0;
    for (long i = 0; i < a[2]; i++) {
        long one = write_bytes(fd, pieces[i].iov_base, pieces[i].iov_len, at < 0 ? at : at + written);
        if (one < 0) return written ? written : one;
        written += one;
        if ((size_t)one < pieces[i].iov_len) break;
    }
    return written;
}

static long resize(int fd, uint64_t size) {
    may_end(fd);
    return is_tracked(fd) ? resize_tracked(fd, size) : RAW(SYS_ftruncate, (long)fd, (long)size);
}

static long sync_file(int fd) {
    int is_log = is_of_log(fd);
    /* Some disks are slow: then something is always on its way. On some one file's sync hangs, and others go on. */
    uint64_t up_to = changes_made(), ns = (20000 + below(1000000)) << (traits & SLOW ? below(8) : 0);
    if (strikes_sync(KILL, fd)) finish('K', 0);
    /* The power goes while the disk is slow: whoever did not wait for it has told of what is lost. */
    int goes = strikes_sync(POWER_CUT, fd), is_long = goes || below(20) == 0;
    if (is_long) ns *= 50;
    if ((traits & (is_log ? LOGS_HANG : OTHERS_HANG)) && below(3) == 0) ns += below(2000000000) >> below(6), is_long = 1;
    if (is_long) tell('I', 0, "", 0);
    log_syncs += is_log;
    wait_until(SLEEP, now + ns);
    log_syncs -= is_log;
    if (goes) cut_power();
    int fails = strikes_sync(SYNC_EIO, fd);
    synced(fd, up_to, fails);
    if (!fails) may_end_at(fd, CERTAIN);
    return fails ? -EIO : 0;
}

static long entries(long *a) {
    long count = RAW(SYS_getdents64, a[0], a[1], a[2]);
    for (long at = 0; at < count; at += *(uint16_t *)(a[1] + at + 16)) *(uint64_t *)(a[1] + at) = 1;
    return count;
}

static long names(long nr, long *a) {
    char one_room[PATH], other_room[PATH];
    const char *one = path((char *)a[nr == SYS_unlinkat || nr == SYS_linkat || nr == SYS_readlinkat || nr == SYS_fchmodat], one_room);
    const char *other = nr == SYS_rename ? path((char *)a[1], other_room) : nr == SYS_linkat ? path((char *)a[3], other_room) : NULL;
    switch (nr) {
    case SYS_mkdir: may_end(-1); return made(one, RAW(nr, one, a[1]));
    case SYS_unlink: may_end(-1); return removed(one, 0);
    case SYS_rmdir: may_end(-1); return removed(one, 1);
    case SYS_unlinkat:
        if ((int)a[0] != AT_FDCWD && !is_ours(one)) one = below_folder((int)a[0], (char *)a[1], other_room);
        may_end(-1);
        return removed(one, (a[2] & AT_REMOVEDIR) != 0);
    case SYS_rename: may_end(-1); return renamed(one, other);
    case SYS_linkat: may_end(-1); return made(other, RAW(nr, a[0], one, a[2], other, a[4]));
    case SYS_chmod: case SYS_access: return RAW(nr, one, a[1]);
    case SYS_readlink: return RAW(nr, one, a[1], a[2]);
    default: return RAW(nr, a[0], one, a[2], a[3]);
    }
}

static long fcntl_file(long *a) {
    long done = RAW(SYS_fcntl, a[0], a[1], a[2]);
    if (done >= 0 && (a[1] == F_DUPFD_CLOEXEC || a[1] == F_DUPFD)) copied_fd((int)a[0], (int)done);
    return done;
}

long disk_call(long nr, long *a) {
    switch (nr) {
    case SYS_open: return open_file((char *)a[0], (int)a[1], (int)a[2]);
    case SYS_openat:
        return open_at((int)a[0], (char *)a[1], (int)a[2], (int)a[3]);
    case SYS_statx: return stat_x(a);
    case SYS_stat: case SYS_lstat: case SYS_fstat: case SYS_newfstatat: return stat_old(nr, a);
    case SYS_statfs: case SYS_fstatfs: return room_of((void *)a[1]);
    case SYS_close: closed((int)a[0]); return RAW(nr, a[0]);
    case SYS_fcntl: return fcntl_file(a);
    case SYS_read: case SYS_pread64: case SYS_lseek: case SYS_flock: case SYS_fchmod: case SYS_readv: case SYS_fadvise64:
        return RAW(nr, a[0], a[1], a[2], a[3]);
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: return write_file(nr, a);
    case SYS_ftruncate: return resize((int)a[0], (uint64_t)a[1]);
    case SYS_fallocate: {
        struct stat s;
        if (a[1]) die("the mode of fallocate", a[1]);
        long error = RAW(SYS_fstat, a[0], &s);
        return error || s.st_size >= a[2] + a[3] ? error : resize((int)a[0], (uint64_t)(a[2] + a[3]));
    }
    case SYS_fsync: case SYS_fdatasync: return sync_file((int)a[0]);
    case SYS_getdents64: return entries(a);
    case SYS_ioctl: return -ENOTTY;
    case SYS_getcwd: copy((void *)a[0], "/sim", 5); return 5;
    case SYS_mkdir: case SYS_rmdir: case SYS_unlink: case SYS_unlinkat: case SYS_rename: case SYS_linkat: case SYS_chmod:
    case SYS_access: case SYS_readlink: case SYS_readlinkat: case SYS_fchmodat: return names(nr, a);
    default: die("the call", nr);
    }
}
