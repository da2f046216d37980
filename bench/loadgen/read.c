#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define EVENTS_PER_WAIT 64
#define REQUEST_BYTES 1024

typedef struct {
    const options_t *options;
    int epoll_fd;
    uint64_t responses;
    samples_t passes;
} reader_t;

typedef struct {
    uint64_t begun_ns;
    uint64_t earlier_bytes;
    uint64_t seen_bytes;
} pass_t;

static void ask(reader_t *reader, connection_t *connection, const char *offset) {
    int length = snprintf(connection->request, REQUEST_BYTES, "GET %s?offset=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
                          reader->options->path_prefix, offset, reader->options->port);
    connection->request_length = (size_t)length;
    ((pass_t *)connection->user)->seen_bytes = 0;
    connection_send(reader->epoll_fd, connection);
}

static void begin_pass(reader_t *reader, connection_t *connection) {
    *(pass_t *)connection->user = (pass_t){.begun_ns = now_ns()};
    ask(reader, connection, "-1");
}

/* Returns whether the reader stands at the tail; otherwise it has asked for what follows. */
static bool follow(reader_t *reader, connection_t *connection) {
    response_t *response = &connection->response;
    pass_t *pass = connection->user;
    reader->responses++;
    pass->earlier_bytes += response->body_bytes;
    if (response->status != 200) die("status %d on a catch-up read", response->status);
    if (response->up_to_date) {
        if (pass->earlier_bytes != reader->options->bytes) {
            die("a catch-up read gave %llu bytes instead of %llu", (unsigned long long)pass->earlier_bytes,
                (unsigned long long)reader->options->bytes);
        }
        samples_add(&reader->passes, now_ns() - pass->begun_ns);
        return true;
    }
    if (response->body_bytes == 0) die("an empty response that is not up to date");
    char offset[sizeof response->next_offset];
    memcpy(offset, response->next_offset, sizeof offset);
    ask(reader, connection, offset);
    return false;
}

void run_read(const options_t *options) {
    reader_t reader = {.options = options, .epoll_fd = epoll_new()};
    connection_t *connections = connections_open(reader.epoll_fd, options->port, options->connections);
    for (int i = 0; i < options->connections; i++) {
        connections[i].request = malloc(REQUEST_BYTES);
        connections[i].user = calloc(1, sizeof(pass_t));
        begin_pass(&reader, &connections[i]);
    }
    window_t window = {0};
    uint64_t warm_ns = now_ns() + (uint64_t)(options->warmup_seconds * 1e9), window_bytes = 0;
    uint64_t stop_ns = warm_ns + (uint64_t)(options->seconds * 1e9);
    int reading = options->connections;
    struct epoll_event events[EVENTS_PER_WAIT];
    while (reading > 0) {
        int count = epoll_wait(reader.epoll_fd, events, EVENTS_PER_WAIT, 30000);
        if (count == 0) die("nothing to read for 30 s");
        for (int i = 0; i < count; i++) {
            connection_t *connection = events[i].data.ptr;
            pass_t *pass = connection->user;
            bool ended = connection_receive(connection, NULL, NULL);
            if (window.ended_ns == 0 && window.started_ns != 0) {
                window_bytes += connection->response.body_bytes - pass->seen_bytes;
            }
            pass->seen_bytes = connection->response.body_bytes;
            uint64_t now = now_ns();
            if (window.started_ns == 0 && now >= warm_ns) window_start(&window, options);
            if (window.started_ns != 0 && window.ended_ns == 0 && now >= stop_ns) window_end(&window, options);
            if (!ended || !follow(&reader, connection)) continue;
            if (window.ended_ns == 0) {
                begin_pass(&reader, connection);
            } else {
                reading--;
            }
        }
    }
    printf("{\"bytes\":%llu,\"passes\":%zu,\"responses\":%llu,", (unsigned long long)window_bytes, reader.passes.count,
           (unsigned long long)reader.responses);
    window_print(&window);
    samples_print(&reader.passes);
    printf("\"stream_bytes\":%llu}\n", (unsigned long long)options->bytes);
}
