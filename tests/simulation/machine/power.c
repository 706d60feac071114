/* What a power cut leaves.
 *
 * Owns: what was changed and is not synced yet, since the last cut: of each file what was there before and what was
 * written, and names that came, went or moved. Promises: at a cut what was synced is as it was; of the rest comes
 * nothing, all, a beginning that is torn in a sector, or any of its sectors; of the names a beginning. What a failed
 * sync was to write is never certain again, also if a later one succeeds. */
#include "machine.h"
#include "power.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { CHANGES = 1 << 16, FILES = 4096, SECTOR = 512, KEPT_FD = 5000, ROOM = 1 << 30 };
enum kind { WRITTEN, RESIZED, CREATED, MADE_FOLDER, REMOVED, REMOVED_FOLDER, RENAMED };
enum sort { UNKNOWN, STRICT, LAX };

struct change {
    enum kind kind;
    int file;                      /* of WRITTEN and RESIZED */
    int is_doubtful;               /* a sync of it failed */
    uint32_t life;                 /* of the process that made it */
    uint64_t number, at, count, old_count;
    unsigned char *bytes;          /* the old ones, then the new ones; or the name, and the other name */
    int undo;                      /* the file in `undo` that was in the way */
};

/* A process that is killed leaves what it wrote to the system, and only a power cut later takes it: so this outlives
 * processes, in a file that each one maps at the same place. */
static struct disk {
    struct change changes[CHANGES];
    uint64_t change_count, number, room_used;
    uint64_t files[FILES];         /* the system's numbers; each has a name in `undo` */
    uint64_t certain[FILES];       /* so long is each at least after a cut */
    int file_count, undo_count;
    uint32_t life;
    enum sort sort;                /* LAX: a sync makes all names certain, as ext4 does it */
    unsigned char room[];
} *const disk = (struct disk *)0x200000000000;

static int of_fd[FDS];             /* file + 1 */
static int is_direct[FDS];         /* each write is synced */
static int is_log[FDS];            /* it lies in a folder `log` */
static char folder_of[FDS][PATH];
static int is_open[FILES];         /* in this process, as kept(file) */

void remember_disk(void) {
    uint64_t size = sizeof *disk + ROOM;
    long fd = RAW(SYS_open, "undo/disk", (long)(O_RDWR | O_CREAT | O_CLOEXEC), 0600L);
    RAW(SYS_ftruncate, fd, (long)size);
    long at = RAW(SYS_mmap, disk, (long)size, (long)(PROT_READ | PROT_WRITE), (long)(MAP_SHARED | MAP_FIXED_NOREPLACE), fd, 0L);
    if (at != (long)disk) die("where to remember the disk", at);
    RAW(SYS_close, fd);
    disk->life++;
}

int is_tracked(int fd) { return fd >= 0 && fd < FDS && of_fd[fd]; }
int is_of_log(int fd) { return is_tracked(fd) && is_log[fd]; }
int is_certain_at_once(int fd) { return is_tracked(fd) && is_direct[fd]; }

/* Whether it holds bytes of a process that was killed. */
int is_inherited(int fd) {
    for (uint64_t i = 0; is_tracked(fd) && i < disk->change_count; i++) {
        struct change *one = &disk->changes[i];
        if (one->kind == WRITTEN && one->file == of_fd[fd] - 1 && one->life < disk->life) return 1;
    }
    return 0;
}

uint64_t changes_made(void) { return disk->number; }

/* The name that an open folder was opened by; empty = it is none. */
const char *folder_at(int fd) { return fd >= 0 && fd < FDS ? folder_of[fd] : ""; }

static unsigned char *space(uint64_t count) {
    if (disk->change_count == 0) disk->room_used = 0;
    if (disk->room_used + count > ROOM) die("so much that is not synced", (long)disk->room_used);
    disk->room_used += count;
    return disk->room + disk->room_used - count;
}

static struct change *change(enum kind kind) {
    if (disk->change_count == CHANGES) die("so many changes without a sync", CHANGES);
    struct change *one = &disk->changes[disk->change_count++];
    clear(one, sizeof *one);
    one->kind = kind, one->number = ++disk->number, one->life = disk->life;
    return one;
}

/* The name by which a file stays, and comes back. */
static const char *aside(char kind, int number) {
    static char name[] = "undo/x00000";
    name[5] = kind;
    for (int at = 10; at > 5; at--, number /= 10) name[at] = (char)('0' + number % 10);
    return name;
}

/* A file for what concerns the machine alone, whatever the server has closed or removed. */
static int kept(int file) {
    if (!is_open[file]) {
        long own = RAW(SYS_open, aside('f', file), (long)O_RDWR, 0L);
        if (own < 0) die("how to keep a file", own);
        RAW(SYS_dup3, own, (long)(KEPT_FD + file), (long)O_CLOEXEC);
        RAW(SYS_close, own);
        is_open[file] = 1;
    }
    return KEPT_FD + file;
}

static uint64_t size_of(int fd) {
    struct stat s;
    RAW(SYS_fstat, (long)fd, &s);
    return (uint64_t)s.st_size;
}

static void name_change(enum kind kind, const char *name, const char *other, int undo) {
    uint64_t count = length(name) + 1, more = other ? length(other) + 1 : 0;
    unsigned char *bytes = space(count + more);
    struct change *one = change(kind);
    one->bytes = bytes, one->count = count, one->undo = undo;
    copy(one->bytes, name, count);
    if (other) copy(one->bytes + count, other, more);
}

void opened(int fd, const char *name, int flags, int was_there) {
    struct stat s;
    RAW(SYS_fstat, (long)fd, &s);
    of_fd[fd] = 0, folder_of[fd][0] = 0, is_direct[fd] = (flags & (O_DSYNC | O_SYNC)) != 0;
    is_log[fd] = 0;
    for (const char *at = name; *at && !is_log[fd]; at++) is_log[fd] = begins(at, "/log/");
    if (S_ISDIR(s.st_mode)) copy(folder_of[fd], name, length(name) + 1);
    if (!S_ISREG(s.st_mode)) return;
    int file = 0;
    while (file < disk->file_count && disk->files[file] != s.st_ino) file++;
    if (file == disk->file_count) {
        if (file == FILES) die("so many files", FILES);
        disk->files[disk->file_count++] = s.st_ino;
        disk->certain[file] = was_there ? (uint64_t)s.st_size : 0;
        if (RAW(SYS_link, name, aside('f', file))) die("how to keep a file", file);
    }
    of_fd[fd] = file + 1;
    if (!was_there) name_change(CREATED, name, NULL, 0);
}

void copied_fd(int from, int to) {
    if (to >= FDS) die("so many descriptors", to);
    of_fd[to] = of_fd[from], is_direct[to] = is_direct[from], is_log[to] = is_log[from];
    copy(folder_of[to], folder_of[from], PATH);
}

void closed(int fd) {
    if (fd >= 0 && fd < FDS) of_fd[fd] = 0, folder_of[fd][0] = 0;
}

/* A page that is written again is whole in memory: the next sync makes all of it certain. */
static void make_dirty(int file, uint64_t from, uint64_t to) {
    from = from / 4096 * 4096, to = (to + 4095) / 4096 * 4096;
    for (uint64_t i = 0; i < disk->change_count; i++) {
        struct change *one = &disk->changes[i];
        if (one->is_doubtful && one->kind == WRITTEN && one->file == file && one->at < to && one->at + one->count > from) one->is_doubtful = 0;
    }
}

long write_tracked(int fd, const unsigned char *bytes, uint64_t count, int64_t at) {
    int file = of_fd[fd] - 1;
    uint64_t size = size_of(fd);
    long flags = RAW(SYS_fcntl, (long)fd, (long)F_GETFL);
    if (flags & O_APPEND) at = (int64_t)size;
    int is_plain = at < 0;
    if (is_plain) at = RAW(SYS_lseek, (long)fd, 0L, (long)SEEK_CUR);
    uint64_t there = size > (uint64_t)at ? size - (uint64_t)at : 0, old = there < count ? there : count;
    make_dirty(file, (uint64_t)at, (uint64_t)at + count);
    if (is_direct[fd]) {
        long done = is_plain ? RAW(SYS_write, (long)fd, bytes, (long)count) : RAW(SYS_pwrite64, (long)fd, bytes, (long)count, at);
        if (done > 0 && (uint64_t)(at + done) > disk->certain[file]) disk->certain[file] = (uint64_t)(at + done);
        return done;
    }
    unsigned char *both = space(old + count);
    RAW(SYS_pread64, (long)kept(file), both, (long)old, at);
    long done = is_plain ? RAW(SYS_write, (long)fd, bytes, (long)count) : RAW(SYS_pwrite64, (long)fd, bytes, (long)count, at);
    if (done < 0) return done;
    copy(both + old, bytes, (uint64_t)done);
    struct change *one = change(WRITTEN);
    one->file = file, one->at = (uint64_t)at, one->count = (uint64_t)done, one->bytes = both;
    one->old_count = old;
    return done;
}

long resize_tracked(int fd, uint64_t size) {
    uint64_t old_size = size_of(fd), lost = old_size > size ? old_size - size : 0;
    unsigned char *old = space(lost);
    RAW(SYS_pread64, (long)fd, old, (long)lost, (long)size);
    long error = RAW(SYS_ftruncate, (long)fd, (long)size);
    if (error) return error;
    struct change *one = change(RESIZED);
    one->file = of_fd[fd] - 1, one->at = size, one->old_count = lost, one->bytes = old;
    return 0;
}

/* Whether a name lies right in this folder. */
static int lies_in(const unsigned char *name, const char *folder) {
    size_t count = length(folder), last = length((const char *)name);
    while (count && folder[count - 1] == '/') count--;
    while (last && name[last - 1] != '/') last--;
    if (last != count + 1) return 0;
    for (size_t i = 0; i < count; i++) if (name[i] != (unsigned char)folder[i]) return 0;
    return 1;
}

static int is_covered(struct change *one, int fd, uint64_t up_to) {
    if (one->number > up_to || one->is_doubtful) return 0;
    if (one->kind <= RESIZED) return of_fd[fd] && one->file == of_fd[fd] - 1;
    if (disk->sort == LAX) return 1;
    const unsigned char *name = one->kind == RENAMED ? one->bytes + one->count : one->bytes;
    return folder_of[fd][0] && lies_in(name, folder_of[fd]);
}

void synced(int fd, uint64_t up_to, int has_failed) {
    if (disk->sort == UNKNOWN) disk->sort = below(2) ? STRICT : LAX;
    if (fd < 0 || fd >= FDS) return;
    if (of_fd[fd] && !has_failed) disk->certain[of_fd[fd] - 1] = size_of(fd);
    uint64_t to = 0;
    for (uint64_t i = 0; i < disk->change_count; i++) {
        int covered = is_covered(&disk->changes[i], fd, up_to);
        if (covered && has_failed && disk->changes[i].kind <= RESIZED) disk->changes[i].is_doubtful = 1;
        if (covered && !has_failed) continue;
        if (to != i) copy(&disk->changes[to], &disk->changes[i], sizeof disk->changes[i]);
        to++;
    }
    disk->change_count = to;
}

/* A place for what goes away, so that a cut can bring it back. */
static int put_aside(const char *name) {
    int undo = ++disk->undo_count;
    return RAW(SYS_link, name, aside('n', undo)) == 0 ? undo : 0;
}

static void bring_back(int undo, const char *name) { RAW(SYS_link, aside('n', undo), name); }

long made(const char *name, long result) {
    struct stat s;
    if (result == 0 && RAW(SYS_stat, name, &s) == 0) name_change(S_ISDIR(s.st_mode) ? MADE_FOLDER : CREATED, name, NULL, 0);
    return result;
}

long removed(const char *name, int is_folder) {
    int undo = is_folder ? 0 : put_aside(name);
    long error = RAW(is_folder ? SYS_rmdir : SYS_unlink, name);
    if (!error) name_change(is_folder ? REMOVED_FOLDER : REMOVED, name, NULL, undo);
    return error;
}

long renamed(const char *from, const char *to) {
    int undo = put_aside(to);
    long error = RAW(SYS_rename, from, to);
    if (!error) name_change(RENAMED, from, to, undo);
    return error;
}

static void undo_names(void) {
    uint64_t count = 0, keep;
    for (uint64_t i = 0; i < disk->change_count; i++) count += disk->changes[i].kind > RESIZED;
    keep = below(3) == 0 ? count : below(count + 1);
    for (uint64_t i = disk->change_count; i-- > 0;) {
        struct change *one = &disk->changes[i];
        if (one->kind <= RESIZED || count-- <= keep) continue;
        const char *name = (const char *)one->bytes, *other = name + one->count;
        switch (one->kind) {
        case CREATED: RAW(SYS_unlink, name); break;
        case MADE_FOLDER: RAW(SYS_rmdir, name); break;
        case REMOVED: bring_back(one->undo, name); break;
        case REMOVED_FOLDER: RAW(SYS_mkdir, name, 0700L); break;
        default:
            RAW(SYS_rename, other, name);
            if (one->undo) bring_back(one->undo, other);
        }
    }
}

static void write_part(struct change *one, uint64_t from, uint64_t to) {
    if (to > from) RAW(SYS_pwrite64, (long)kept(one->file), one->bytes + one->old_count + from, (long)(to - from), (long)(one->at + from));
}

/* Sector by sector of the disk: each one comes or not. */
static void write_some(struct change *one) {
    for (uint64_t from = 0; from < one->count;) {
        uint64_t to = (one->at + from) / SECTOR * SECTOR + SECTOR - one->at;
        to = to < one->count ? to : one->count;
        if (below(2)) write_part(one, from, to);
        from = to;
    }
}

static void tear(int file) {
    uint64_t count = 0;
    for (uint64_t i = disk->change_count; i-- > 0;) {
        struct change *one = &disk->changes[i];
        if (one->kind > RESIZED || one->file != file) continue;
        count++;
        RAW(SYS_pwrite64, (long)kept(file), one->bytes, (long)one->old_count, (long)one->at);
    }
    if (count == 0) return;
    RAW(SYS_ftruncate, (long)kept(file), (long)disk->certain[file]);
    uint64_t way = below(4), whole = way == 0 ? 0 : way == 1 ? count : below(count + 1);
    for (uint64_t i = 0; i < disk->change_count; i++) {
        struct change *one = &disk->changes[i];
        if (one->kind > RESIZED || one->file != file) continue;
        int comes = whole > 0;
        if (comes) whole--;
        if (one->kind == RESIZED) {
            if (way == 3 ? below(2) : (uint64_t)comes) RAW(SYS_ftruncate, (long)kept(file), (long)one->at);
        } else if (way == 3) {
            write_some(one);
        } else if (comes) {
            write_part(one, 0, one->count);
        } else if (way == 2) {
            uint64_t end = (one->at + below(one->count + 1)) / SECTOR * SECTOR;
            write_part(one, 0, end > one->at ? end - one->at : 0);
            way = 0;
        }
    }
}

void cut_power(void) {
    note("power cut", (long)disk->change_count, 0, 0);
    for (int file = 0; file < disk->file_count; file++) tear(file);
    undo_names();
    finish('P', (uint32_t)disk->change_count);
}
