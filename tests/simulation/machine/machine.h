/* One deterministic machine around an unchanged server: what its parts share.
 *
 * Owns: the types. Promises: one thread runs at a time, which one is drawn from the seed wherever the server calls the
 * system; what the machine does not know ends it with the call's name. Must not: be linked into the server; the test
 * preloads it. */
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define NEVER UINT64_MAX
#define THREADS 768
#define FDS 4096

enum state { BORN, RUNS, FUTEX, EPOLL, SLEEP, DEAD };

/* A thread of the server. */
struct thread {
    int go;              /* the baton: a real futex */
    enum state state;
    int inside;          /* in the machine: no hand-over at a copy of memory */
    uint32_t *futex;     /* that it waits for */
    uint32_t bits;
    int woken;
    int epoll;           /* the object that it waits for */
    uint64_t deadline;   /* ns of the machine */
    uint32_t weight;     /* how likely it is to be chosen */
    int *tid;            /* where the system says that it has ended */
    int number;
    char name[16];
};

/* What happens to the disk at the call that `countdown` reaches. */
enum fault { NONE, WRITE_EIO, WRITE_ENOSPC, WRITE_SHORT, SYNC_EIO, KILL, POWER_CUT };

/* What is counted: calls about any file, about a commit log, about a log with bytes of a process that was killed, syncs of
 * a log, or what became certain of other files while a log's sync was under way. */
enum about { ANY, LOG, INHERITED, LOG_SYNC, OVERTAKEN };

/* What ails the disk: syncs are slow, writes are held up, syncs of logs may take seconds, or those of all else. */
enum trait { SLOW = 1, THROTTLED = 2, LOGS_HANG = 4, OTHERS_HANG = 8 };

#pragma GCC visibility push(hidden)
extern __thread struct thread *self;
extern uint64_t now;           /* ns since the machine began */
extern int64_t wall_offset;    /* ns from there to the clock on the wall */
extern int is_traced;
extern int traits;

long raw(long nr, ...);
#define RAW(nr, ...) raw(nr, ##__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)

/* schedule.c */
uint64_t draw(void);
uint64_t below(uint64_t bound);
void begin(void);
void note(const char *what, long one, long other, long result);
void die(const char *what, long number) __attribute__((noreturn));
void hand_over(void);
void hand_over_sometimes(void);
void copied(void);
void wait_until(enum state state, uint64_t deadline);
void end_thread(void);
void adopt(struct thread *thread);
void await_baton(struct thread *thread);
struct thread *new_thread(void);
long futex(uint32_t *at, int op, uint32_t value, const void *time, uint32_t *other, uint32_t bits);
uint64_t wall(void);
void fill_random(unsigned char *to, size_t count);
void tell(char kind, uint32_t number, const void *bytes, uint32_t count);
void finish(char kind, uint32_t number) __attribute__((noreturn));

/* network.c */
int is_virtual(int fd);
int epoll_is_ready(int object);
long network_call(long nr, long *a);
void from_driver(char kind, uint32_t number, const unsigned char *bytes, uint32_t count);

/* disk.c */
long disk_call(long nr, long *a);
void arm(enum fault fault, enum about about, uint32_t countdown);
void cut_power(void) __attribute__((noreturn));
void remember_disk(void);

/* trap.c */
void signal_server(int number);
#pragma GCC visibility pop

static inline void copy(void *to, const void *from, size_t count) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}
static inline void clear(void *to, size_t count) {
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0) : "memory");
}
static inline size_t length(const char *text) {
    size_t count = 0;
    while (text[count]) count++;
    return count;
}
static inline int begins(const char *text, const char *with) {
    while (*with) if (*text++ != *with++) return 0;
    return 1;
}
