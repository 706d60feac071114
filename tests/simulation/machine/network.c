/* Sockets, epoll and eventfd in memory.
 *
 * Owns: every descriptor that is no file. Promises: what the server sends goes to the driver, and what the driver sends
 * comes when it says so; nothing leaves the process. Edges are reported as the kernel does: again with each event. */
#include "machine.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum kind { FREE, EPOLL_SET, EVENT, LISTENER, CONNECTION, PIPE };
enum { OBJECTS = 1024, WATCHES = 2048, WAITING = 64, PIECE = 4 << 20 };

struct object {
    enum kind kind;
    int uses;
    uint64_t count;               /* of an eventfd */
    uint32_t number;              /* of a connection: the driver's */
    unsigned char *bytes;         /* received and not read */
    uint32_t first, end, room;
    int is_finished, is_reset;    /* by the driver */
    uint64_t window;              /* what the driver still takes */
    int peer;                     /* of a pipe */
    uint32_t waiting[WAITING];    /* connections that are not accepted */
    int waits;
};

struct watch {
    int epoll, object, fd, is_armed;
    struct epoll_event event;
};

static struct object objects[OBJECTS];
static struct watch watches[WATCHES];
static int of_fd[FDS];            /* object + 1 */
static int listener = -1;

int is_virtual(int fd) { return fd >= 0 && fd < FDS && of_fd[fd]; }

static int object_of(int fd) {
    if (!is_virtual(fd)) die("the socket", fd);
    return of_fd[fd] - 1;
}

static int new_fd(int object) {
    int fd = (int)RAW(SYS_open, "/dev/null", (long)(O_RDWR | O_CLOEXEC), 0L);
    if (fd < 0 || fd >= FDS) die("so many descriptors", fd);
    of_fd[fd] = object + 1;
    objects[object].uses++;
    return fd;
}

static int new_object(enum kind kind) {
    int at = 0;
    while (at < OBJECTS && objects[at].kind != FREE) at++;
    if (at == OBJECTS) die("so many sockets", at);
    unsigned char *bytes = objects[at].bytes;
    uint32_t room = objects[at].room;
    clear(&objects[at], sizeof objects[at]);
    objects[at].kind = kind, objects[at].bytes = bytes, objects[at].room = room;
    return at;
}

static uint32_t readiness(struct object *object) {
    switch (object->kind) {
    case EVENT: return (object->count ? EPOLLIN : 0) | EPOLLOUT;
    case LISTENER: return object->waits ? EPOLLIN : 0;
    case PIPE: return (object->end > object->first ? EPOLLIN : 0) | EPOLLOUT;
    case CONNECTION: {
        uint32_t ready = object->window ? EPOLLOUT : 0;
        if (object->end > object->first) ready |= EPOLLIN;
        if (object->is_finished) ready |= EPOLLIN | EPOLLRDHUP;
        if (object->is_reset) ready |= EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
        return ready;
    }
    default: return 0;
    }
}

static void happened(int object) {
    for (int i = 0; i < WATCHES; i++) if (watches[i].fd && watches[i].object == object) watches[i].is_armed = 1;
}

static uint32_t due(struct watch *watch) {
    if (!watch->fd || !watch->is_armed) return 0;
    return readiness(&objects[watch->object]) & (watch->event.events | EPOLLHUP | EPOLLERR);
}

int epoll_is_ready(int object) {
    for (int i = 0; i < WATCHES; i++) if (watches[i].epoll == object && due(&watches[i])) return 1;
    return 0;
}

static long wait_for_events(int object, struct epoll_event *to, int room, int ms) {
    if (!epoll_is_ready(object) && ms != 0) {
        self->epoll = object;
        wait_until(EPOLL, ms < 0 ? NEVER : now + (uint64_t)ms * 1000000u);
    }
    int found = 0, first = (int)below(WATCHES);
    for (int i = 0; i < WATCHES && found < room; i++) {
        struct watch *watch = &watches[(first + i) % WATCHES];
        uint32_t events = watch->epoll == object ? due(watch) : 0;
        if (!events) continue;
        to[found].events = events, to[found].data = watch->event.data;
        found++;
        if (watch->event.events & EPOLLET) watch->is_armed = 0;
    }
    return found;
}

static long control(int epoll, int op, int fd, struct epoll_event *event) {
    int object = object_of(fd), spare = -1;
    for (int i = 0; i < WATCHES; i++) {
        struct watch *watch = &watches[i];
        if (!watch->fd && spare < 0) spare = i;
        if (!watch->fd || watch->epoll != epoll || watch->fd != fd + 1) continue;
        if (op == EPOLL_CTL_DEL) watch->fd = 0;
        else watch->event = *event, watch->is_armed = 1;
        return op == EPOLL_CTL_ADD ? -EEXIST : 0;
    }
    if (op != EPOLL_CTL_ADD) return -ENOENT;
    if (spare < 0) die("so many watches", WATCHES);
    watches[spare] = (struct watch){epoll, object, fd + 1, 1, *event};
    return 0;
}

static void append(struct object *object, const unsigned char *bytes, uint32_t count) {
    if (!object->bytes) {
        object->bytes = (void *)RAW(SYS_mmap, 0L, (long)PIECE, (long)(PROT_READ | PROT_WRITE),
                                    (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
        object->room = PIECE;
    }
    if (object->first == object->end) object->first = object->end = 0;
    if (object->end + count > object->room) {
        copy(object->bytes, object->bytes + object->first, object->end - object->first);
        object->end -= object->first, object->first = 0;
    }
    if (object->end + count > object->room) die("so much in a socket", count);
    copy(object->bytes + object->end, bytes, count);
    object->end += count;
}

static long receive_from(struct object *object, unsigned char *to, size_t room) {
    if (object->kind == EVENT) {
        if (!object->count) return -EAGAIN;
        copy(to, &object->count, 8);
        object->count = 0;
        return 8;
    }
    if (object->is_reset) return -ECONNRESET;
    uint32_t there = object->end - object->first;
    if (!there) return object->is_finished ? 0 : -EAGAIN;
    if (room > there) room = there;
    copy(to, object->bytes + object->first, room);
    object->first += (uint32_t)room;
    return (long)room;
}

static long send_to(int at, const unsigned char *bytes, size_t count) {
    struct object *object = &objects[at];
    if (object->kind == EVENT) {
        uint64_t add;
        copy(&add, bytes, 8);
        object->count += add;
        happened(at);
        return 8;
    }
    if (object->kind == PIPE) {
        append(&objects[object->peer], bytes, (uint32_t)count);
        happened(object->peer);
        return (long)count;
    }
    if (object->is_reset) return -EPIPE;
    if (!object->window) return -EAGAIN;
    if (count > object->window) count = object->window;
    object->window -= count;
    tell('D', object->number, bytes, (uint32_t)count);
    return (long)count;
}

static long send_all(int at, const struct iovec *pieces, size_t count) {
    long sent = 0;
    for (size_t i = 0; i < count; i++) {
        if (!pieces[i].iov_len) continue;
        long one = send_to(at, pieces[i].iov_base, pieces[i].iov_len);
        if (one < 0) return sent ? sent : one;
        sent += one;
        if ((size_t)one < pieces[i].iov_len) break;
    }
    return sent;
}

static long close_fd(int fd) {
    int at = object_of(fd);
    of_fd[fd] = 0;
    RAW(SYS_close, (long)fd);
    for (int i = 0; i < WATCHES; i++) if (watches[i].fd == fd + 1) watches[i].fd = 0;
    if (--objects[at].uses) return 0;
    if (objects[at].kind == CONNECTION) tell('C', objects[at].number, "", 0);
    if (at == listener) listener = -1;
    objects[at].kind = FREE;
    return 0;
}

static long address(struct sockaddr_in *to, socklen_t *room, uint32_t port) {
    to->sin_family = AF_INET;
    to->sin_port = htons((uint16_t)port);
    to->sin_addr.s_addr = htonl(0x7f000001);
    *room = sizeof *to;
    return 0;
}

static long accept_one(int at, long *a) {
    struct object *object = &objects[at];
    if (!object->waits) return -EAGAIN;
    uint32_t number = object->waiting[0];
    for (int i = 1; i < object->waits; i++) object->waiting[i - 1] = object->waiting[i];
    object->waits--;
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i].kind != CONNECTION || objects[i].number != number) continue;
        if (a[1]) address((void *)a[1], (socklen_t *)a[2], 40000 + number);
        return new_fd(i);
    }
    return -ECONNABORTED;
}

static long pair(int *to) {
    int one = new_object(PIPE), other = new_object(PIPE);
    objects[one].peer = other, objects[other].peer = one;
    to[0] = new_fd(one), to[1] = new_fd(other);
    return 0;
}

static long about_socket(long nr, long *a, int at) {
    switch (nr) {
    case SYS_bind: case SYS_setsockopt: return 0;
    case SYS_getsockopt:
        *(int *)a[3] = a[1] == SOL_SOCKET && a[2] == SO_SNDBUF ? 262144 : 0;
        return 0;
    case SYS_listen: objects[at].kind = LISTENER, listener = at; tell('L', 0, "", 0); return 0;
    case SYS_getsockname: return address((void *)a[1], (void *)a[2], 7070);
    case SYS_getpeername: return address((void *)a[1], (void *)a[2], 40000 + objects[at].number);
    case SYS_shutdown: if (objects[at].kind == CONNECTION && a[1] != SHUT_RD) tell('H', objects[at].number, "", 0); return 0;
    case SYS_fcntl:
        if (a[1] == F_DUPFD_CLOEXEC) return new_fd(at);
        if (a[1] == F_GETFL || a[1] == F_SETFL || a[1] == F_GETFD || a[1] == F_SETFD) return a[1] == F_GETFL ? O_RDWR | O_NONBLOCK : 1;
        break;
    case SYS_ioctl: if (a[1] == FIONBIO) return 0; if (a[1] == TIOCOUTQ || a[1] == FIONREAD) { *(int *)a[2] = 0; return 0; } break;
    }
    die(nr == SYS_ioctl ? "the ioctl of a socket" : "the call on a socket", nr == SYS_ioctl || nr == SYS_fcntl ? a[1] : nr);
    return -ENOSYS;
}

long network_call(long nr, long *a) {
    switch (nr) {
    case SYS_epoll_create1: return new_fd(new_object(EPOLL_SET));
    case SYS_eventfd2: return new_fd(new_object(EVENT));
    case SYS_socket: return new_fd(new_object(CONNECTION));
    case SYS_socketpair: return pair((int *)a[3]);
    case SYS_poll: if (a[2] != 0) die("poll with a time", a[2]); return 0;
    }
    int at = object_of((int)a[0]);
    switch (nr) {
    case SYS_epoll_ctl: return control(at, (int)a[1], (int)a[2], (void *)a[3]);
    case SYS_epoll_wait: case SYS_epoll_pwait: return wait_for_events(at, (void *)a[1], (int)a[2], (int)a[3]);
    case SYS_accept4: return accept_one(at, a);
    case SYS_read: return receive_from(&objects[at], (void *)a[1], (size_t)a[2]);
    case SYS_recvfrom:
        if (a[3] & MSG_PEEK) die("a look at a socket", a[3]);
        return receive_from(&objects[at], (void *)a[1], (size_t)a[2]);
    case SYS_readv: return receive_from(&objects[at], ((struct iovec *)a[1])->iov_base, ((struct iovec *)a[1])->iov_len);
    case SYS_write: case SYS_sendto: return send_to(at, (void *)a[1], (size_t)a[2]);
    case SYS_writev: return send_all(at, (void *)a[1], (size_t)a[2]);
    case SYS_sendmsg: return send_all(at, ((struct msghdr *)a[1])->msg_iov, ((struct msghdr *)a[1])->msg_iovlen);
    case SYS_close: return close_fd((int)a[0]);
    default: return about_socket(nr, a, at);
    }
}

static int connection(uint32_t number) {
    for (int i = 0; i < OBJECTS; i++) if (objects[i].kind == CONNECTION && objects[i].number == number) return i;
    return -1;
}

void from_driver(char kind, uint32_t number, const unsigned char *bytes, uint32_t count) {
    if (kind == 'O') {
        if (listener < 0 || objects[listener].waits == WAITING) {
            tell('C', number, "", 0);
            return;
        }
        int at = new_object(CONNECTION);
        objects[at].number = number, objects[at].window = 262144, objects[at].first = objects[at].end = 0;
        objects[listener].waiting[objects[listener].waits++] = number;
        happened(listener);
        return;
    }
    int at = connection(number);
    if (at < 0) return;
    if (kind == 'D') append(&objects[at], bytes, count);
    else if (kind == 'H') objects[at].is_finished = 1;
    else if (kind == 'R') objects[at].is_reset = 1;
    else if (kind == 'W') for (uint32_t i = 0, more = 0; i < count; i++) { more = more << 8 | bytes[i]; if (i + 1 == count) objects[at].window += more; }
    else die("the driver's word", kind);
    happened(at);
}
