#ifndef LOADGEN_H
#define LOADGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_SERVER_PIDS 32
#define STREAM_NAME_DIGITS 6
#define RECV_BUFFER_BYTES (256 * 1024)

typedef struct {
    int port;
    int cpu;
    int server_cpu;
    int connections;
    int streams;
    int rate_per_s;
    int server_pids[MAX_SERVER_PIDS];
    int server_pid_count;
    double seconds;
    double warmup_seconds;
    uint64_t min_requests;
    uint64_t bytes;
    uint64_t seed;
    const char *path_prefix;
    const char *content_type;
    const char *body_file;
    const char *live_mode;
} options_t;

/* http.c: one response, fed piecewise */
typedef enum {
    PHASE_HEAD,
    PHASE_LENGTH,
    PHASE_UNTIL_CLOSE,
    PHASE_CHUNK_SIZE,
    PHASE_CHUNK_DATA,
    PHASE_CHUNK_END,
    PHASE_TRAILER,
    PHASE_DONE
} phase_t;

typedef struct {
    phase_t phase;
    int status;
    bool chunked;
    bool has_length;
    bool closes;
    bool up_to_date;
    uint64_t remaining;
    uint64_t body_bytes;
    char next_offset[96];
    char cursor[48];
    char line[4096];
    size_t line_length;
} response_t;

typedef void (*body_fn)(void *context, const char *bytes, size_t length);

void response_reset(response_t *response);
size_t response_feed(response_t *response, const char *bytes, size_t length, body_fn on_body, void *context);

/* net.c: connections that keep one request in flight */
typedef struct {
    int fd;
    uint32_t index;
    uint64_t sent_at_ns;
    char *request;
    size_t request_length;
    size_t request_sent;
    bool wants_write;
    response_t response;
    void *user;
} connection_t;

void pin_to_cpu(int cpu);
uint64_t now_ns(void);
int epoll_new(void);
connection_t *connections_open(int epoll_fd, int port, int count);
void connection_send(int epoll_fd, connection_t *connection);
void connection_flush(int epoll_fd, connection_t *connection);
bool connection_receive(connection_t *connection, body_fn on_body, void *context);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* stats.c: latencies and CPU use within the measured window */
typedef struct {
    uint64_t *values;
    size_t count;
    size_t capacity;
} samples_t;

typedef struct {
    uint64_t started_ns;
    uint64_t ended_ns;
    double generator_cpu_s;
    double server_cpu_s;
    double busy_cpu_s;
} window_t;

void samples_add(samples_t *samples, uint64_t value_ns);
void samples_print(samples_t *samples);
void window_start(window_t *window, const options_t *options);
void window_end(window_t *window, const options_t *options);
void window_print(const window_t *window);
uint64_t random_next(uint64_t *state);

/* one function per mode */
void run_append(const options_t *options);
void run_create(const options_t *options);
void run_fill(const options_t *options);
void run_read(const options_t *options);
void run_live(const options_t *options);
void run_echo(const options_t *options);

#endif
