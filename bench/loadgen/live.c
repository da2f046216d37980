#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS_PER_WAIT 512
#define REQUEST_BYTES 1024
#define APPENDER_COUNT 128
#define SETTLE_SECONDS 1.0
#define DRAIN_SECONDS 30.0

/* Every event carries MARK, 20 digits of send time in monotonic ns, a dash and 8 digits of its number. */
#define MARK "\"sent\":\""
#define MARK_BYTES (sizeof MARK - 1)
#define STAMP_BYTES (MARK_BYTES + 20 + 1 + 8)
#define EVENT_PADDING "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct live live_t;

typedef struct {
    live_t *live;
    bool listening;
    uint64_t received;
    uint64_t number_sum;
    size_t carried;
    char carry[STAMP_BYTES];
} subscriber_t;

struct live {
    const options_t *options;
    int epoll_fd;
    bool by_sse;
    uint64_t received_at_ns;
    uint64_t first_measured;
    uint64_t events_total;
    uint64_t sent;
    uint64_t late;
    uint64_t listening;
    uint64_t deliveries;
    uint64_t responses;
    samples_t latencies;
    samples_t append_latencies;
    connection_t *free_appenders[APPENDER_COUNT];
    int free_count;
};

static uint64_t digits(const char *text, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9') die("a delivered event is damaged: %.*s", (int)STAMP_BYTES, text);
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    return value;
}

static void deliver(subscriber_t *subscriber, const char *stamp) {
    live_t *live = subscriber->live;
    uint64_t sent_at_ns = digits(stamp + MARK_BYTES, 20), number = digits(stamp + MARK_BYTES + 21, 8);
    subscriber->received++;
    subscriber->number_sum += number;
    live->deliveries++;
    if (number >= live->first_measured) samples_add(&live->latencies, live->received_at_ns - sent_at_ns);
}

static size_t scan(subscriber_t *subscriber, const char *bytes, size_t length) {
    size_t at = 0;
    for (;;) {
        const char *found = memmem(bytes + at, length - at, MARK, MARK_BYTES);
        if (found == NULL || (size_t)(bytes + length - found) < STAMP_BYTES) {
            size_t kept_from = length > STAMP_BYTES - 1 ? length - (STAMP_BYTES - 1) : 0;
            return kept_from > at ? kept_from : at;
        }
        deliver(subscriber, found);
        at = (size_t)(found - bytes) + STAMP_BYTES;
    }
}

static void on_live_body(void *context, const char *bytes, size_t length) {
    static char joined[RECV_BUFFER_BYTES + STAMP_BYTES];
    subscriber_t *subscriber = context;
    if (subscriber->carried > 0) {
        memcpy(joined, subscriber->carry, subscriber->carried);
        memcpy(joined + subscriber->carried, bytes, length);
        bytes = joined;
        length += subscriber->carried;
    }
    size_t kept_from = scan(subscriber, bytes, length);
    subscriber->carried = length - kept_from;
    memcpy(subscriber->carry, bytes + kept_from, subscriber->carried);
}

static void subscribe(live_t *live, connection_t *connection, const char *offset, const char *cursor) {
    const options_t *options = live->options;
    bool has_cursor = cursor[0] != '\0';
    int length = snprintf(connection->request, REQUEST_BYTES,
                          "GET %s?%s%s%slive=%s&offset=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
                          options->path_prefix, has_cursor ? "cursor=" : "", cursor, has_cursor ? "&" : "",
                          options->live_mode, offset, options->port);
    connection->request_length = (size_t)length;
    connection_send(live->epoll_fd, connection);
}

static void on_subscriber(live_t *live, connection_t *connection) {
    subscriber_t *subscriber = connection->user;
    response_t *response = &connection->response;
    bool ended = connection_receive(connection, on_live_body, subscriber);
    if (response->phase != PHASE_HEAD && response->status != 200 && response->status != 204) {
        die("status %d on a live read", response->status);
    }
    if (!subscriber->listening && live->by_sse && response->phase != PHASE_HEAD) {
        subscriber->listening = true;
        live->listening++;
    }
    if (!ended) return;
    if (live->by_sse) die("the server ended an SSE response");
    live->responses++;
    subscriber->carried = 0;
    char offset[sizeof response->next_offset], cursor[sizeof response->cursor];
    memcpy(offset, response->next_offset, sizeof offset);
    memcpy(cursor, response->cursor, sizeof cursor);
    if (offset[0] == '\0' || cursor[0] == '\0') die("a long-poll answer lacks Stream-Next-Offset or Stream-Cursor");
    subscribe(live, connection, offset, cursor);
}

static void send_event(live_t *live) {
    connection_t *appender = live->free_appenders[--live->free_count];
    char body[256];
    uint64_t now = now_ns();
    int body_length = snprintf(body, sizeof body, "{" MARK "%020llu-%08llu\",\"padding\":\"" EVENT_PADDING "\"}",
                               (unsigned long long)now, (unsigned long long)live->sent);
    int length = snprintf(appender->request, REQUEST_BYTES,
                          "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                          "Content-Length: %d\r\n\r\n%s",
                          live->options->path_prefix, live->options->port, body_length, body);
    appender->request_length = (size_t)length;
    appender->sent_at_ns = now;
    live->sent++;
    connection_send(live->epoll_fd, appender);
}

static void on_appender(live_t *live, connection_t *connection) {
    if (!connection_receive(connection, NULL, NULL)) return;
    if (connection->response.status != 204) die("status %d on an append", connection->response.status);
    samples_add(&live->append_latencies, now_ns() - connection->sent_at_ns);
    live->free_appenders[live->free_count++] = connection;
}

static int timer_new(const live_t *live) {
    int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    long interval_ns = 1000000000L / live->options->rate_per_s;
    struct itimerspec ticks = {.it_interval.tv_nsec = interval_ns, .it_value.tv_nsec = interval_ns};
    if (live->options->rate_per_s < 2 || timerfd_settime(timer_fd, 0, &ticks, NULL) != 0) die("bad --rate");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(live->epoll_fd, EPOLL_CTL_ADD, timer_fd, &event);
    return timer_fd;
}

static void on_tick(live_t *live, int timer_fd) {
    uint64_t ticks = 0;
    if (read(timer_fd, &ticks, sizeof ticks) != sizeof ticks) return;
    live->late += ticks - 1;
    for (; ticks > 0 && live->sent < live->events_total; ticks--) {
        if (live->free_count == 0) die("%d appends wait for their answer: the server does not keep up", APPENDER_COUNT);
        send_event(live);
    }
}

/* Handles readiness until `until_ns`, or until everything sent is delivered when `drain` is set. */
static void turn(live_t *live, connection_t *appenders, int timer_fd, uint64_t until_ns, bool drain) {
    struct epoll_event events[EVENTS_PER_WAIT];
    uint64_t expected = live->events_total * (uint64_t)live->options->connections;
    while (now_ns() < until_ns && !(drain && live->deliveries >= expected && live->free_count == APPENDER_COUNT)) {
        int count = epoll_wait(live->epoll_fd, events, EVENTS_PER_WAIT, 20);
        for (int i = 0; i < count; i++) {
            connection_t *connection = events[i].data.ptr;
            live->received_at_ns = now_ns();
            if (connection == NULL) {
                on_tick(live, timer_fd);
            } else if (connection >= appenders && connection < appenders + APPENDER_COUNT) {
                on_appender(live, connection);
            } else {
                on_subscriber(live, connection);
            }
        }
    }
}

static connection_t *open_all(live_t *live, int count) {
    connection_t *connections = connections_open(live->epoll_fd, live->options->port, count);
    for (int i = 0; i < count; i++) connections[i].request = malloc(REQUEST_BYTES);
    return connections;
}

static void check_deliveries(const live_t *live, const connection_t *subscribers) {
    uint64_t number_sum = live->events_total * (live->events_total - 1) / 2;
    for (int i = 0; i < live->options->connections; i++) {
        const subscriber_t *subscriber = subscribers[i].user;
        if (subscriber->received != live->events_total || subscriber->number_sum != number_sum) {
            die("subscriber %d received %llu of %llu events", i, (unsigned long long)subscriber->received,
                (unsigned long long)live->events_total);
        }
    }
}

void run_live(const options_t *options) {
    live_t live = {.options = options, .epoll_fd = epoll_new(), .by_sse = strcmp(options->live_mode, "sse") == 0};
    uint64_t rate = (uint64_t)options->rate_per_s;
    live.first_measured = (uint64_t)(options->warmup_seconds * (double)rate);
    live.events_total = live.first_measured + (uint64_t)(options->seconds * (double)rate);
    connection_t *appenders = open_all(&live, APPENDER_COUNT);
    connection_t *subscribers = open_all(&live, options->connections);
    for (int i = 0; i < APPENDER_COUNT; i++) live.free_appenders[live.free_count++] = &appenders[i];
    for (int i = 0; i < options->connections; i++) {
        subscriber_t *subscriber = calloc(1, sizeof *subscriber);
        subscriber->live = &live;
        subscribers[i].user = subscriber;
        subscribe(&live, &subscribers[i], "-1", "");
    }
    turn(&live, appenders, -1, now_ns() + (uint64_t)(SETTLE_SECONDS * 1e9), false);
    if (live.by_sse && live.listening != (uint64_t)options->connections) die("not every SSE subscriber was answered");
    if (live.deliveries > 0) die("the stream of a live run has to be empty");
    window_t window = {0};
    window_start(&window, options);
    int timer_fd = timer_new(&live);
    uint64_t sending_ns = (uint64_t)((double)live.events_total / (double)rate * 1e9);
    turn(&live, appenders, timer_fd, now_ns() + sending_ns + (uint64_t)(DRAIN_SECONDS * 1e9), true);
    window_end(&window, options);
    check_deliveries(&live, subscribers);
    printf("{\"events\":%llu,\"deliveries\":%llu,\"measured\":%zu,\"responses\":%llu,\"late_ticks\":%llu,",
           (unsigned long long)live.events_total, (unsigned long long)live.deliveries, live.latencies.count,
           (unsigned long long)live.responses, (unsigned long long)live.late);
    window_print(&window);
    samples_print(&live.latencies);
    printf("\"append\":{");
    samples_print(&live.append_latencies);
    printf("\"requests\":%zu}}\n", live.append_latencies.count);
}
