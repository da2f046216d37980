#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char receive_buffer[RECV_BUFFER_BYTES];

_Noreturn void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void pin_to_cpu(int cpu) {
    if (cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) die("cannot pin to CPU %d: %s", cpu, strerror(errno));
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int epoll_new(void) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) die("epoll_create1: %s", strerror(errno));
    return epoll_fd;
}

static void connection_open(int epoll_fd, connection_t *connection, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) die("socket: %s", strerror(errno));
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("cannot connect to port %d: %s", port, strerror(errno));
    }
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->fd, F_SETFL, fcntl(connection->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

connection_t *connections_open(int epoll_fd, int port, int count) {
    connection_t *connections = calloc((size_t)count, sizeof *connections);
    if (connections == NULL) die("out of memory");
    for (int i = 0; i < count; i++) {
        connections[i].index = (uint32_t)i;
        response_reset(&connections[i].response);
        connection_open(epoll_fd, &connections[i], port);
    }
    return connections;
}

static void watch(int epoll_fd, connection_t *connection, bool wants_write) {
    if (connection->wants_write == wants_write) return;
    connection->wants_write = wants_write;
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0u), .data.ptr = connection};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) != 0) die("epoll_ctl: %s", strerror(errno));
}

void connection_flush(int epoll_fd, connection_t *connection) {
    while (connection->request_sent < connection->request_length) {
        ssize_t sent = send(connection->fd, connection->request + connection->request_sent,
                            connection->request_length - connection->request_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(epoll_fd, connection, true);
            return;
        }
        if (sent < 0) die("send: %s", strerror(errno));
        connection->request_sent += (size_t)sent;
    }
    watch(epoll_fd, connection, false);
}

void connection_send(int epoll_fd, connection_t *connection) {
    response_reset(&connection->response);
    connection->request_sent = 0;
    connection_flush(epoll_fd, connection);
}

/* With neither a body function nor chunks the kernel drops the body instead of copying it. */
bool connection_receive(connection_t *connection, body_fn on_body, void *context) {
    response_t *response = &connection->response;
    bool discard = on_body == NULL && response->phase == PHASE_LENGTH;
    size_t want = sizeof receive_buffer;
    if (discard) {
        want = response->remaining < (1u << 30) ? (size_t)response->remaining : (size_t)(1u << 30);
    }
    ssize_t received = recv(connection->fd, discard ? NULL : receive_buffer, want, discard ? MSG_TRUNC : 0);
    if (received < 0 && errno == EAGAIN) return false;
    if (received < 0) die("recv: %s", strerror(errno));
    if (received == 0) die("the server closed a connection (status %d, phase %d)", response->status, response->phase);
    if (discard) {
        response->remaining -= (uint64_t)received;
        response->body_bytes += (uint64_t)received;
        if (response->remaining == 0) response->phase = PHASE_DONE;
    } else if (response_feed(response, receive_buffer, (size_t)received, on_body, context) != (size_t)received) {
        die("bytes after the end of a response of status %d", response->status);
    }
    if (response->phase != PHASE_DONE) return false;
    if (response->closes) die("the server closes a keep-alive connection (status %d)", response->status);
    return true;
}
