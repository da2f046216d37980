#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_PER_WAIT 256
#define REQUEST_BYTES (1024 * 1024)

/* The cheapest server that still counts requests: what the generator reaches against it is its ceiling. */
typedef struct {
    int fd;
    uint64_t zeros_left;
    size_t filled;
    char buffer[REQUEST_BYTES];
} client_t;

static int zeros_fd;

static size_t request_length(const char *bytes, size_t filled) {
    const char *end = memmem(bytes, filled, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    size_t head = (size_t)(end - bytes) + 4;
    const char *length = memmem(bytes, head, "Content-Length: ", 16);
    size_t total = head + (length != NULL ? strtoull(length + 16, NULL, 10) : 0);
    return total <= filled ? total : 0;
}

static void watch(int epoll_fd, client_t *client, int operation, uint32_t readiness) {
    struct epoll_event event = {.events = readiness, .data.ptr = client};
    if (epoll_ctl(epoll_fd, operation, client->fd, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

static void push_zeros(int epoll_fd, client_t *client) {
    while (client->zeros_left > 0) {
        off_t from = 0;
        ssize_t sent = sendfile(client->fd, zeros_fd, &from, (size_t)client->zeros_left);
        if (sent <= 0) {
            watch(epoll_fd, client, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        client->zeros_left -= (uint64_t)sent;
    }
    watch(epoll_fd, client, EPOLL_CTL_MOD, EPOLLIN);
}

static void answer(int epoll_fd, client_t *client, const options_t *options) {
    static const char appended[] =
        "HTTP/1.1 204 No Content\r\nStream-Next-Offset: 0000000000000001-0000000000000256\r\n\r\n";
    char head[256];
    if (client->buffer[0] == 'P') {
        if (send(client->fd, appended, sizeof appended - 1, MSG_NOSIGNAL) < 0) die("send: %s", strerror(errno));
        return;
    }
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nStream-Up-To-Date: true\r\nContent-Length: %llu\r\n\r\n",
                          (unsigned long long)options->bytes);
    if (send(client->fd, head, (size_t)length, MSG_NOSIGNAL | MSG_MORE) < 0) die("send: %s", strerror(errno));
    client->zeros_left = options->bytes;
    push_zeros(epoll_fd, client);
}

static void serve(int epoll_fd, client_t *client, const options_t *options) {
    ssize_t received = recv(client->fd, client->buffer + client->filled, sizeof client->buffer - client->filled, 0);
    if (received <= 0) {
        close(client->fd);
        free(client);
        return;
    }
    client->filled += (size_t)received;
    size_t taken = request_length(client->buffer, client->filled);
    if (taken == 0) return;
    answer(epoll_fd, client, options);
    memmove(client->buffer, client->buffer + taken, client->filled - taken);
    client->filled -= taken;
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0) {
        die("cannot listen on port %d: %s", port, strerror(errno));
    }
    return listener;
}

static void make_zeros(uint64_t bytes) {
    static const char block[64 * 1024];
    zeros_fd = memfd_create("zeros", MFD_CLOEXEC);
    for (uint64_t made = 0; made < bytes; made += sizeof block) {
        if (write(zeros_fd, block, sizeof block) != sizeof block) die("memfd: %s", strerror(errno));
    }
}

void run_echo(const options_t *options) {
    make_zeros(options->bytes);
    int epoll_fd = epoll_new(), listener = listen_on(options->port), one = 1;
    struct epoll_event events[EVENTS_PER_WAIT], listening = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &listening);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, -1);
        for (int i = 0; i < count; i++) {
            client_t *client = events[i].data.ptr;
            if (client != NULL && (events[i].events & EPOLLOUT)) push_zeros(epoll_fd, client);
            if (client != NULL && (events[i].events & ~(uint32_t)EPOLLOUT)) serve(epoll_fd, client, options);
            if (client != NULL) continue;
            client = calloc(1, sizeof *client);
            if (client == NULL) die("out of memory");
            client->fd = accept(listener, NULL, NULL);
            setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            fcntl(client->fd, F_SETFL, fcntl(client->fd, F_GETFL) | O_NONBLOCK);
            watch(epoll_fd, client, EPOLL_CTL_ADD, EPOLLIN);
        }
    }
}
