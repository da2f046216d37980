#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define EVENTS_PER_WAIT 256

static char *read_body(const char *path, size_t *length) {
    *length = 0;
    if (path == NULL) return calloc(1, 1);
    FILE *file = fopen(path, "rb");
    if (file == NULL) die("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *body = malloc(*length + 1);
    if (body == NULL || fread(body, 1, *length, file) != *length) die("cannot read %s", path);
    fclose(file);
    return body;
}

/* Returns where the digits of the stream's name stand, the same place in every request. */
static size_t build_request(connection_t *connection, const options_t *options, const char *method,
                            const char *body, size_t body_length) {
    char head[1024];
    int head_length = snprintf(head, sizeof head,
                               "%s %s%0*d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: %s\r\n"
                               "Content-Length: %zu\r\n\r\n",
                               method, options->path_prefix, STREAM_NAME_DIGITS, 0, options->port,
                               options->content_type, body_length);
    connection->request_length = (size_t)head_length + body_length;
    connection->request = malloc(connection->request_length);
    if (connection->request == NULL) die("out of memory");
    memcpy(connection->request, head, (size_t)head_length);
    memcpy(connection->request + head_length, body, body_length);
    return strlen(method) + 1 + strlen(options->path_prefix);
}

static void name_stream(connection_t *connection, size_t name_at, uint32_t stream) {
    for (int digit = STREAM_NAME_DIGITS - 1; digit >= 0; digit--) {
        connection->request[name_at + (size_t)digit] = (char)('0' + stream % 10);
        stream /= 10;
    }
}

typedef struct {
    const options_t *options;
    int epoll_fd;
    size_t name_at;
    int expected_status;
    bool in_order;
    uint64_t random_state;
    uint64_t issued;
    uint32_t *acknowledged;
    uint32_t *target;
} loop_t;

static void issue(loop_t *loop, connection_t *connection) {
    uint32_t streams = (uint32_t)loop->options->streams;
    uint64_t chosen = loop->in_order ? loop->issued : random_next(&loop->random_state);
    uint32_t stream = (uint32_t)(chosen % streams);
    loop->issued++;
    loop->target[connection->index] = stream;
    name_stream(connection, loop->name_at, stream);
    connection->sent_at_ns = now_ns();
    connection_send(loop->epoll_fd, connection);
}

static bool answered(loop_t *loop, connection_t *connection, uint32_t readiness) {
    if (readiness & EPOLLOUT) connection_flush(loop->epoll_fd, connection);
    if (!(readiness & ~(uint32_t)EPOLLOUT) || !connection_receive(connection, NULL, NULL)) return false;
    int status = connection->response.status;
    if (status != loop->expected_status) {
        die("status %d instead of %d on stream %u", status, loop->expected_status,
            loop->target[connection->index]);
    }
    loop->acknowledged[loop->target[connection->index]]++;
    return true;
}

static connection_t *loop_open(loop_t *loop, const options_t *options, const char *method, int expected_status) {
    size_t body_length = 0;
    char *body = read_body(options->body_file, &body_length);
    *loop = (loop_t){.options = options, .epoll_fd = epoll_new(), .expected_status = expected_status};
    loop->random_state = options->seed;
    loop->acknowledged = calloc((size_t)options->streams, sizeof *loop->acknowledged);
    loop->target = calloc((size_t)options->connections, sizeof *loop->target);
    if (loop->acknowledged == NULL || loop->target == NULL) die("out of memory");
    connection_t *connections = connections_open(loop->epoll_fd, options->port, options->connections);
    for (int i = 0; i < options->connections; i++) {
        loop->name_at = build_request(&connections[i], options, method, body, body_length);
    }
    free(body);
    return connections;
}

static int next_events(const loop_t *loop, struct epoll_event *events) {
    int count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_WAIT, 30000);
    if (count == 0) die("no answer for 30 s");
    return count < 0 ? 0 : count;
}

static void print_sample(const loop_t *loop) {
    uint32_t streams = (uint32_t)loop->options->streams;
    uint32_t step = streams > 40 ? streams / 40 : 1;
    printf("\"sample\":[");
    for (uint32_t stream = 0; stream < streams; stream += step) {
        printf("%s[%u,%u]", stream > 0 ? "," : "", stream, loop->acknowledged[stream]);
    }
    printf("]}\n");
}

void run_append(const options_t *options) {
    loop_t loop;
    connection_t *connections = loop_open(&loop, options, "POST", 204);
    samples_t latencies = {0};
    window_t window = {0};
    uint64_t begun_ns = now_ns(), warm_ns = begun_ns + (uint64_t)(options->warmup_seconds * 1e9);
    uint64_t stop_ns = warm_ns + (uint64_t)(options->seconds * 1e9);
    for (int i = 0; i < options->connections; i++) issue(&loop, &connections[i]);
    int in_flight = options->connections;
    struct epoll_event events[EVENTS_PER_WAIT];
    while (in_flight > 0) {
        int count = next_events(&loop, events);
        for (int i = 0; i < count; i++) {
            connection_t *connection = events[i].data.ptr;
            if (!answered(&loop, connection, events[i].events)) continue;
            uint64_t now = now_ns();
            if (window.started_ns == 0 && now >= warm_ns) window_start(&window, options);
            if (window.started_ns != 0 && window.ended_ns == 0) {
                if (connection->sent_at_ns >= begun_ns) samples_add(&latencies, now - connection->sent_at_ns);
                if (now >= stop_ns && latencies.count >= options->min_requests) window_end(&window, options);
            }
            if (window.ended_ns == 0) {
                issue(&loop, connection);
            } else {
                in_flight--;
            }
        }
    }
    printf("{\"requests\":%zu,", latencies.count);
    window_print(&window);
    samples_print(&latencies);
    print_sample(&loop);
}

static void run_once_each(const options_t *options, const char *method, int expected_status, uint64_t requests) {
    loop_t loop;
    connection_t *connections = loop_open(&loop, options, method, expected_status);
    loop.in_order = true;
    uint64_t begun_ns = now_ns();
    int in_flight = 0;
    for (; in_flight < options->connections && loop.issued < requests; in_flight++) {
        issue(&loop, &connections[in_flight]);
    }
    struct epoll_event events[EVENTS_PER_WAIT];
    while (in_flight > 0) {
        int count = next_events(&loop, events);
        for (int i = 0; i < count; i++) {
            if (!answered(&loop, events[i].data.ptr, events[i].events)) continue;
            if (loop.issued < requests) {
                issue(&loop, events[i].data.ptr);
            } else {
                in_flight--;
            }
        }
    }
    double seconds = (double)(now_ns() - begun_ns) / 1e9;
    printf("{\"requests\":%llu,\"seconds\":%.4f}\n", (unsigned long long)requests, seconds);
}

void run_create(const options_t *options) {
    run_once_each(options, "PUT", 201, (uint64_t)options->streams);
}

void run_fill(const options_t *options) {
    run_once_each(options, "POST", 204, options->min_requests);
}
