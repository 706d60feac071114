/* Threads, time and chance.
 *
 * Owns: who runs next, the clock, the seeded numbers, the trace and its sum, and the channel to the driver, who is one
 * more thread here: it gets its turn like the others, and everything stands still meanwhile. */
#include "machine.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

__thread struct thread *self __attribute__((tls_model("initial-exec")));
uint64_t now = 1000000000;
int64_t wall_offset;
int is_traced;
int traits;

enum { FROM_DRIVER = 1000, TO_DRIVER = 1001, CALLS_MAX = 4000000 };

static struct thread threads[THREADS];
static int thread_count;
static int *reap;              /* of the thread that is just ending */
static uint64_t random_state[2];
static uint64_t sum = 14695981039346656037u;
static uint64_t calls;
static uint64_t driver_wakes;
static uint32_t driver_weight = 4;
static int driver_has_news;
static uint32_t patience;      /* calls that pass between two hand-overs, on average */
static uint32_t copies;        /* copies of memory likewise */
static int copies_left;
static int is_spurious;

static unsigned char *out, *in;
static uint32_t out_count;
enum { CHANNEL = 16 << 20 };

/* xoroshiro128+ */
uint64_t draw(void) {
    uint64_t a = random_state[0], b = random_state[1], sum_of_both = a + b;
    b ^= a;
    random_state[0] = ((a << 24) | (a >> 40)) ^ b ^ (b << 16);
    random_state[1] = (b << 37) | (b >> 27);
    return sum_of_both;
}

uint64_t below(uint64_t bound) { return (draw() >> 16) % bound; }

void fill_random(unsigned char *to, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (unsigned char)(draw() >> 24);
}

uint64_t wall(void) { return now + (uint64_t)wall_offset; }

static void say(const char *text) { RAW(SYS_write, 2L, text, length(text)); }

static void say_number(long number) {
    char digits[24];
    int at = sizeof digits;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) digits[--at] = '-';
    RAW(SYS_write, 2L, digits + at, (long)(sizeof digits - (size_t)at));
}

static void add(uint64_t value) { sum = (sum ^ value) * 1099511628211u; }

/* A decision or a call: into the sum, and shown if somebody reads along. */
void note(const char *what, long one, long other, long result) {
    add((uint64_t)(self ? self->number : -1));
    add(length(what) | (uint64_t)what[0] << 8 | (uint64_t)one << 16);
    add((uint64_t)result);
    add(now);
    if (!is_traced) return;
    say("~ "), say_number((long)(now / 1000)), say(" ");
    say(self && self->name[0] ? self->name : "main"), say("/"), say_number(self ? self->number : -1);
    say(" "), say(what), say(" "), say_number(one), say(" "), say_number(other), say(" = "), say_number(result), say("\n");
}

void die(const char *what, long number) {
    say("simulation: the machine does not know "), say(what), say(" "), say_number(number), say("\n");
    finish('?', (uint32_t)number);
}

static void put(uint64_t value, int bytes) {
    while (bytes--) out[out_count++] = (unsigned char)(value >> (8 * bytes));
}

static uint64_t take(const unsigned char **from, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *(*from)++;
    return value;
}

/* For the driver's next turn. */
void tell(char kind, uint32_t number, const void *bytes, uint32_t count) {
    if (out_count + count + 64 > CHANNEL) die("so much to tell", count);
    if (out_count == 0) out_count = 20;
    put((unsigned char)kind, 1), put(number, 4), put(count, 4);
    copy(out + out_count, bytes, count);
    out_count += count;
    driver_has_news = 1;
}

static void all(long call, int fd, unsigned char *at, uint32_t count) {
    while (count) {
        long done = RAW(call, (long)fd, at, (long)count);
        if (done <= 0) RAW(SYS_exit_group, 3L);
        at += done, count -= (uint32_t)done;
    }
}

static void send_out(void) {
    if (out_count == 0) out_count = 20;
    uint32_t count = out_count;
    out_count = 0;
    put(count - 4, 4), put(now, 8), put(wall(), 8);
    all(SYS_write, TO_DRIVER, out, count);
    for (uint32_t i = 4; i < count; i++) add(out[i]);
    out_count = 0, driver_has_news = 0;
}

static uint32_t receive(void) {
    all(SYS_read, FROM_DRIVER, in, 4);
    const unsigned char *at = in;
    uint32_t count = (uint32_t)take(&at, 4);
    if (count > CHANNEL) die("a frame so long", count);
    all(SYS_read, FROM_DRIVER, in, count);
    return count;
}

/* The process ends here; the driver learns how, and the sum of all that was. */
void finish(char kind, uint32_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(sum >> (56 - 8 * i));
    tell(kind, number, bytes, 8);
    send_out();
    for (;;) RAW(SYS_exit_group, 0L);
}

static void driver_turn(void) {
    note("driver", 0, 0, out_count);
    send_out();
    uint32_t count = receive();
    const unsigned char *at = in, *end = in + count;
    driver_wakes = take(&at, 8);
    while (at < end) {
        char kind = (char)*at++;
        uint32_t number = (uint32_t)take(&at, 4), bytes = (uint32_t)take(&at, 4);
        const unsigned char *what = at;
        at += bytes;
        switch (kind) {
        case 'K': finish('K', 0);
        case 'P': cut_power();
        case 'T': signal_server(15); break;
        case 'J': wall_offset += (int32_t)number * 1000000LL; break;
        case 'F': arm(what[0], what[1], number); break;
        default: from_driver(kind, number, what, bytes);
        }
    }
}

static int is_ready(struct thread *thread) {
    switch (thread->state) {
    case RUNS: return 1;
    case FUTEX: return thread->woken || now >= thread->deadline;
    case EPOLL: return now >= thread->deadline || epoll_is_ready(thread->epoll);
    case SLEEP: return now >= thread->deadline;
    default: return 0;
    }
}

/* Every thread is as likely as it was drawn some time ago: some are slow for a while. */
static void draw_weights(void) {
    static const uint32_t weights[] = {1, 4, 4, 16, 64};
    for (int i = 0; i < thread_count; i++) threads[i].weight = weights[below(5)];
    driver_weight = weights[below(5)];
}

static struct thread *choose(void) {
    for (;;) {
        if (++calls > CALLS_MAX) say("simulation: it never comes to rest\n"), finish('S', 1);
        if (below(256) == 0) draw_weights();
        uint64_t total = 0, next = driver_wakes;
        int driver = driver_has_news || now >= driver_wakes;
        if (driver) total = driver_weight;
        for (int i = 0; i < thread_count; i++) {
            if (is_ready(&threads[i])) total += threads[i].weight;
            else if (threads[i].deadline < next && threads[i].state != DEAD) next = threads[i].deadline;
        }
        if (total == 0) {
            if (next == NEVER) say("simulation: all wait for each other\n"), finish('S', 0);
            now = next > now ? next : now;
            continue;
        }
        uint64_t at = below(total);
        if (driver && at < driver_weight) {
            driver_turn();
            continue;
        }
        if (driver) at -= driver_weight;
        for (int i = 0; i < thread_count; i++) {
            if (!is_ready(&threads[i])) continue;
            if (at < threads[i].weight) return &threads[i];
            at -= threads[i].weight;
        }
    }
}

static void wake(struct thread *thread) {
    __atomic_store_n(&thread->go, 1, __ATOMIC_SEQ_CST);
    RAW(SYS_futex, &thread->go, (long)FUTEX_WAKE_PRIVATE, 1L);
}

void await_baton(struct thread *thread) {
    while (!__atomic_load_n(&thread->go, __ATOMIC_SEQ_CST)) RAW(SYS_futex, &thread->go, (long)FUTEX_WAIT_PRIVATE, 0L);
    __atomic_store_n(&thread->go, 0, __ATOMIC_SEQ_CST);
    /* What comes next may look at whether the one before has gone. */
    int *gone = reap, tid;
    while (gone && (tid = __atomic_load_n(gone, __ATOMIC_SEQ_CST))) RAW(SYS_futex, gone, (long)FUTEX_WAIT, (long)tid);
    reap = NULL;
}

/* Others may run; it goes on when it is chosen again. */
void hand_over(void) {
    struct thread *me = self, *next = choose();
    if (next != me) {
        note("hands to", next->number, 0, 0);
        wake(next);
        await_baton(me);
    }
    me->state = RUNS, me->deadline = NEVER;
}

void hand_over_sometimes(void) {
    now += 100 + below(900);
    if (below(patience) == 0) hand_over();
}

/* Between two calls a thread is interrupted where it copies memory. */
void copied(void) {
    struct thread *me = self;
    if (!me || me->inside || --copies_left > 0) return;
    me->inside++;
    copies_left = 1 + (int)below(copies);
    now += 100 + below(900);
    hand_over();
    me->inside--;
}

void wait_until(enum state state, uint64_t deadline) {
    self->state = state, self->deadline = deadline;
    hand_over();
}

struct thread *new_thread(void) {
    int at = 0;
    while (at < thread_count && threads[at].state != DEAD) at++;
    if (at == THREADS) die("so many threads", at);
    if (at == thread_count) thread_count++;
    struct thread *thread = &threads[at];
    clear(thread, sizeof *thread);
    thread->number = at, thread->weight = 4, thread->deadline = NEVER;
    return thread;
}

/* A new thread is known, and waits for its first turn. */
void adopt(struct thread *thread) {
    int tid = (int)RAW(SYS_gettid);
    int *at = (int *)__builtin_thread_pointer();
    /* It begins eight bytes; the upper half of an address may be the same number. */
    while (*at != tid) at += 2;
    thread->tid = at;
    self = thread;
}

void end_thread(void) {
    struct thread *me = self;
    me->state = DEAD;
    for (int i = 0; i < thread_count; i++) {
        struct thread *other = &threads[i];
        if (other->state == FUTEX && other->futex == (uint32_t *)me->tid) other->woken = 1;
    }
    struct thread *next = choose();
    note("ends", next->number, 0, 0);
    reap = me->tid;
    wake(next);
    RAW(SYS_exit, 0L);
}

static uint64_t deadline_of(const struct timespec *time, int op) {
    if (!time) return NEVER;
    uint64_t at = (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
    if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT) return now + at;
    if (op & FUTEX_CLOCK_REALTIME) return at - (uint64_t)wall_offset;
    return at;
}

static long wake_some(uint32_t *at, uint32_t count, uint32_t bits) {
    long woken = 0;
    int first = (int)below((uint64_t)thread_count);
    for (int i = 0; i < thread_count && woken < count; i++) {
        struct thread *other = &threads[(first + i) % thread_count];
        if (other->state != FUTEX || other->futex != at || other->woken || !(other->bits & bits)) continue;
        other->woken = 1, woken++;
    }
    return woken;
}

long futex(uint32_t *at, int op, uint32_t value, const void *time, uint32_t *other, uint32_t bits) {
    (void)other;
    switch (op & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
        bits = FUTEX_BITSET_MATCH_ANY; /* fall through */
    case FUTEX_WAIT_BITSET:
        if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) return -EAGAIN;
        self->futex = at, self->bits = bits, self->woken = 0;
        uint64_t deadline = deadline_of(time, op);
        if (is_spurious && below(50) == 0) self->woken = 1;
        wait_until(FUTEX, deadline);
        return self->woken ? 0 : -ETIMEDOUT;
    case FUTEX_WAKE:
        bits = FUTEX_BITSET_MATCH_ANY; /* fall through */
    case FUTEX_WAKE_BITSET: {
        long woken = wake_some(at, value, bits);
        if (woken) hand_over_sometimes();
        return woken;
    }
    default:
        die("the futex operation", op);
        return -ENOSYS;
    }
}

static void *memory(size_t count) {
    return (void *)RAW(SYS_mmap, 0L, (long)count, (long)(PROT_READ | PROT_WRITE),
                       (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
}

/* The first frame of the driver: the seed, the time, what is shown, what ails the disk. */
void begin(void) {
    RAW(SYS_dup3, 0L, (long)FROM_DRIVER, 02000000L);
    RAW(SYS_dup3, 1L, (long)TO_DRIVER, 02000000L);
    RAW(SYS_dup3, 2L, 1L, 0L);
    RAW(SYS_close, 0L);
    RAW(SYS_open, "/dev/null", 0L, 0L);
    out = memory(CHANNEL), in = memory(CHANNEL);
    receive();
    const unsigned char *at = in;
    random_state[0] = take(&at, 8) * 0x9e3779b97f4a7c15u + 1;
    random_state[1] = random_state[0] ^ 0xd1b54a32d192ed03u;
    now = take(&at, 8);
    wall_offset = (int64_t)(take(&at, 8) - now);
    is_traced = (int)take(&at, 1);
    traits = (int)take(&at, 1);
    for (int i = 0; i < 20; i++) draw();
    patience = 1u << below(6);
    copies = 1u << (4 + below(12));
    copies_left = (int)copies;
    is_spurious = below(3) == 0;
    driver_wakes = NEVER;
    adopt(new_thread());
    self->state = RUNS;
}
