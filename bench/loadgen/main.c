#include "loadgen.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void set_option(options_t *options, const char *name, const char *value) {
    if (strcmp(name, "--port") == 0) options->port = atoi(value);
    else if (strcmp(name, "--cpu") == 0) options->cpu = atoi(value);
    else if (strcmp(name, "--server-cpu") == 0) options->server_cpu = atoi(value);
    else if (strcmp(name, "--connections") == 0) options->connections = atoi(value);
    else if (strcmp(name, "--streams") == 0) options->streams = atoi(value);
    else if (strcmp(name, "--rate") == 0) options->rate_per_s = atoi(value);
    else if (strcmp(name, "--seconds") == 0) options->seconds = atof(value);
    else if (strcmp(name, "--warmup") == 0) options->warmup_seconds = atof(value);
    else if (strcmp(name, "--min-requests") == 0) options->min_requests = strtoull(value, NULL, 10);
    else if (strcmp(name, "--bytes") == 0) options->bytes = strtoull(value, NULL, 10);
    else if (strcmp(name, "--seed") == 0) options->seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--path-prefix") == 0) options->path_prefix = value;
    else if (strcmp(name, "--content-type") == 0) options->content_type = value;
    else if (strcmp(name, "--body-file") == 0) options->body_file = value;
    else if (strcmp(name, "--live") == 0) options->live_mode = value;
    else if (strcmp(name, "--server-pid") == 0 && options->server_pid_count < MAX_SERVER_PIDS) {
        options->server_pids[options->server_pid_count++] = atoi(value);
    } else die("unknown option %s", name);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(const options_t *);
    } modes[] = {{"append", run_append}, {"create", run_create}, {"fill", run_fill},
                 {"read", run_read},     {"live", run_live},     {"echo", run_echo}};
    options_t options = {.cpu = -1, .server_cpu = -1, .connections = 1, .streams = 1, .rate_per_s = 50, .seconds = 5.0,
                         .path_prefix = "/v1/stream/s", .content_type = "application/octet-stream",
                         .live_mode = "sse", .seed = 1};
    if (argc < 2 || argc % 2 != 0) die("usage: loadgen append|create|fill|read|live|echo [--option value]...");
    for (int i = 2; i < argc; i += 2) set_option(&options, argv[i], argv[i + 1]);
    if (options.connections < 1 || options.streams < 1) die("needs at least one connection and one stream");
    signal(SIGPIPE, SIG_IGN);
    pin_to_cpu(options.cpu);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run(&options);
            return 0;
        }
    }
    die("unknown mode %s", argv[1]);
}
