/* The border between the server and the system.
 *
 * Owns: that no call passes unseen. A filter (seccomp) turns every system call of the process into a signal, whether it
 * comes from libc, from a library that calls the kernel itself, or from inside of libc; what answers it is below. Calls
 * that only concern memory pass. Time is read without the kernel, so these functions of libc are replaced. */
#include "machine.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <dlfcn.h>

/* The one place that the filter lets through. */
__asm__(".text\n.globl raw\n.hidden raw\n.hidden raw_end\n.globl raw_end\nraw:\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\nmov 8(%rsp),%r9\n"
        "syscall\nraw_end:\nret\n");
extern char raw_end[] __attribute__((visibility("hidden")));

static void (*terminate)(int, siginfo_t *, void *);

static long tell_time(int clock, struct timespec *to) {
    if (self && !self->inside) now += 50;
    uint64_t at = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? wall() : now;
    to->tv_sec = (time_t)(at / 1000000000u), to->tv_nsec = (long)(at % 1000000000u);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *to) { return (int)tell_time(clock, to); }

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    (void)zone;
    struct timespec at;
    tell_time(CLOCK_REALTIME, &at);
    to->tv_sec = at.tv_sec, to->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    time_t at = (time_t)(wall() / 1000000000u);
    if (to) *to = at;
    return at;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    copied();
    copy(to, from, count);
    return to;
}

void abort(void) {
    if (self) self->inside++;
    finish('A', 0);
    __builtin_unreachable();
}

struct birth {
    void *(*start)(void *);
    void *argument;
    struct thread *thread;
    int is_known;
};

static void *born(void *argument) {
    struct birth *birth = argument;
    void *(*start)(void *) = birth->start;
    void *its = birth->argument;
    struct thread *me = birth->thread;
    adopt(me);
    __atomic_store_n(&birth->is_known, 1, __ATOMIC_SEQ_CST);
    RAW(SYS_futex, &birth->is_known, 129L, 1L);
    await_baton(me);
    return start(its);
}

int pthread_create(pthread_t *to, const pthread_attr_t *how, void *(*start)(void *), void *argument) {
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!create) create = dlsym(RTLD_NEXT, "pthread_create");
    struct birth birth = {start, argument, new_thread(), 0};
    self->inside++;
    int error = create(to, how, born, &birth);
    if (error) die("why a thread did not start", error);
    while (!__atomic_load_n(&birth.is_known, __ATOMIC_SEQ_CST)) RAW(SYS_futex, &birth.is_known, 128L, 0L);
    birth.thread->state = RUNS;
    note("starts", birth.thread->number, 0, 0);
    self->inside--;
    return 0;
}

/* As the system would: the server's handler runs on the thread that is running. */
void signal_server(int number) {
    siginfo_t info;
    clear(&info, sizeof info);
    info.si_signo = number;
    if (terminate) terminate(number, &info, NULL);
}

static long nap(const struct timespec *how_long, int is_absolute, int clock) {
    uint64_t at = (uint64_t)how_long->tv_sec * 1000000000u + (uint64_t)how_long->tv_nsec;
    if (!is_absolute) at += now;
    else if (clock == CLOCK_REALTIME) at -= (uint64_t)wall_offset;
    wait_until(SLEEP, at);
    return 0;
}

static long mask(ucontext_t *context, long *a) {
    uint64_t *current = (uint64_t *)&context->uc_sigmask, old = *current;
    if (a[1]) {
        uint64_t set = *(uint64_t *)a[1] & ~(1ull << (SIGSYS - 1));
        if (a[0] == SIG_BLOCK) *current |= set;
        else if (a[0] == SIG_UNBLOCK) *current &= ~set;
        else *current = set;
    }
    if (a[2]) *(uint64_t *)a[2] = old;
    return 0;
}

static long action(long *a) {
    if (a[0] == SIGSYS) die("a handler of SIGSYS", 0);
    if (a[0] == SIGSEGV && a[1]) return 0;
    if (a[0] == SIGTERM && a[1]) terminate = *(void (**)(int, siginfo_t *, void *))a[1];
    return RAW(SYS_rt_sigaction, a[0], a[1], a[2], a[3]);
}

static long about_processors(long *a) {
    clear((void *)a[2], (size_t)a[1]);
    *(uint64_t *)a[2] = 3;
    return 8;
}

static long about_process(long nr, long *a) {
    switch (nr) {
    case SYS_getpid: return 1000;
    case SYS_gettid: return 1000 + (self ? self->number : 0);
    case SYS_getppid: return 1;
    case SYS_getuid: case SYS_geteuid: case SYS_getgid: case SYS_getegid: return 0;
    case SYS_sched_getaffinity: return about_processors(a);
    case SYS_getrandom: fill_random((unsigned char *)a[0], (size_t)a[1]); return a[1];
    case SYS_getrusage: clear((void *)a[1], sizeof(struct rusage)); return 0;
    case SYS_sysinfo:
        clear((void *)a[0], sizeof(struct sysinfo));
        ((struct sysinfo *)a[0])->totalram = ((struct sysinfo *)a[0])->freeram = 8ul << 30;
        ((struct sysinfo *)a[0])->mem_unit = 1;
        return 0;
    case SYS_prlimit64:
        if (a[3]) {
            struct rlimit *limit = (void *)a[3];
            limit->rlim_cur = a[1] == RLIMIT_STACK ? 8 << 20 : a[1] == RLIMIT_NOFILE ? 20000 : RLIM_INFINITY;
            limit->rlim_max = limit->rlim_cur;
        }
        return 0;
    case SYS_prctl:
        if (a[0] == PR_SET_NAME && self) copy(self->name, (void *)a[1], 15);
        return a[0] == 0x41555856 || a[0] == PR_SET_VMA ? -EINVAL : RAW(SYS_prctl, a[0], a[1], a[2], a[3], a[4]);
    case SYS_uname: return RAW(SYS_uname, a[0]);
    default: return -ENOSYS;
    }
}

static long answer(long nr, long *a, ucontext_t *context) {
    switch (nr) {
    case SYS_rt_sigprocmask: return mask(context, a);
    case SYS_rt_sigaction: return action(a);
    case SYS_futex: return futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (void *)a[3], (uint32_t *)a[4], (uint32_t)a[5]);
    case SYS_sched_yield: hand_over(); return 0;
    case SYS_nanosleep: return nap((void *)a[0], 0, CLOCK_MONOTONIC);
    case SYS_clock_nanosleep: return nap((void *)a[2], (int)a[1] & TIMER_ABSTIME, (int)a[0]);
    case SYS_clock_gettime: return tell_time((int)a[0], (void *)a[1]);
    case SYS_pause: wait_until(SLEEP, NEVER); return -EINTR;
    case SYS_exit: end_thread(); return 0;
    case SYS_exit_group: finish('X', (uint32_t)a[0]); return 0;
    case SYS_getpid: case SYS_gettid: case SYS_getppid: case SYS_getuid: case SYS_geteuid: case SYS_getgid: case SYS_getegid:
    case SYS_sched_getaffinity: case SYS_getrandom: case SYS_getrusage: case SYS_sysinfo: case SYS_prlimit64: case SYS_prctl:
    case SYS_uname: return about_process(nr, a);
    case SYS_epoll_create1: case SYS_epoll_ctl: case SYS_epoll_wait: case SYS_epoll_pwait: case SYS_eventfd2: case SYS_socket: case SYS_socketpair:
    case SYS_bind: case SYS_listen: case SYS_accept4: case SYS_setsockopt: case SYS_getsockopt: case SYS_getsockname:
    case SYS_getpeername: case SYS_recvfrom: case SYS_sendto: case SYS_sendmsg: case SYS_shutdown: case SYS_poll:
        return network_call(nr, a);
    case SYS_read: case SYS_write: case SYS_writev: case SYS_readv: case SYS_close: case SYS_fcntl: case SYS_ioctl:
        if (is_virtual((int)a[0])) return network_call(nr, a);
    }
    return disk_call(nr, a);
}

static void trapped(int number, siginfo_t *info, void *context) {
    (void)number;
    ucontext_t *at = context;
    greg_t *g = at->uc_mcontext.gregs;
    long a[6] = {g[REG_RDI], g[REG_RSI], g[REG_RDX], g[REG_R10], g[REG_R8], g[REG_R9]};
    if (!self) {
        if (info->si_syscall != SYS_rt_sigprocmask) die("a call of a thread that is not known", info->si_syscall);
        g[REG_RAX] = mask(at, a);
        return;
    }
    self->inside++;
    if (info->si_syscall != SYS_exit) hand_over_sometimes();
    g[REG_RAX] = answer(info->si_syscall, a, at);
    note("call", info->si_syscall, a[0], info->si_syscall == SYS_futex || g[REG_RAX] > -4096 ? g[REG_RAX] : 0);
    self->inside--;
}

/* The processor's counter is the machine's clock. Who does nothing but read it waits for time to pass. */
static void faulted(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)g[REG_RIP];
    static uint64_t last;
    int is_plain = at[0] == 0x0f && at[1] == 0x31, has_processor = at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9;
    if (!is_plain && !has_processor) die("the reason of a fault at", g[REG_RIP] - (long)raw_end);
    now += now - last < 1000 ? 1000000 : 50;
    last = now;
    g[REG_RAX] = (greg_t)(now & 0xffffffff), g[REG_RDX] = (greg_t)(now >> 32);
    if (has_processor) g[REG_RCX] = 0;
    g[REG_RIP] += has_processor ? 3 : 2;
}

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filter(void) {
    uint64_t end = (uint64_t)raw_end;
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)end, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(end >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_rt_sigreturn), ALLOW(SYS_sigaltstack), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise), ALLOW(SYS_mremap), ALLOW(SYS_brk), ALLOW(SYS_msync), ALLOW(SYS_rseq), ALLOW(SYS_set_robust_list),
        ALLOW(SYS_clone3), ALLOW(SYS_clone),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog all = {sizeof program / sizeof *program, program};
    struct sigaction handler;
    clear(&handler, sizeof handler);
    handler.sa_sigaction = trapped;
    handler.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSYS, &handler, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    handler.sa_sigaction = faulted;
    sigaction(SIGSEGV, &handler, NULL);
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) die("why there is no filter", errno);
}

__attribute__((constructor)) static void boot(int count, char **arguments, char **environment) {
    (void)count;
    /* The same addresses in each run. */
    int current = (int)RAW(SYS_personality, 0xffffffffL);
    if (!(current & ADDR_NO_RANDOMIZE)) {
        RAW(SYS_personality, (long)(current | ADDR_NO_RANDOMIZE));
        RAW(SYS_execve, "/proc/self/exe", arguments, environment);
        die("how to start anew", 0);
    }
    char **at = environment;
    while (*at) at++;
    for (Elf64_auxv_t *one = (Elf64_auxv_t *)(at + 1); one->a_type != AT_NULL; one++) {
        if (one->a_type == AT_SYSINFO_EHDR) one->a_type = AT_IGNORE;
        if (one->a_type == AT_RANDOM) clear((void *)one->a_un.a_val, 16);
    }
    RAW(SYS_alarm, 120L);
    begin();
    remember_disk();
    dlsym(RTLD_NEXT, "pthread_create");
    filter();
}
