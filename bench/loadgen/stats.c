#include "loadgen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void samples_add(samples_t *samples, uint64_t value_ns) {
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 1u << 16 : samples->capacity * 2;
        samples->values = realloc(samples->values, samples->capacity * sizeof *samples->values);
        if (samples->values == NULL) die("out of memory");
    }
    samples->values[samples->count++] = value_ns;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static double percentile_us(const samples_t *samples, double share) {
    if (samples->count == 0) return 0.0;
    return (double)samples->values[(size_t)(share * (double)(samples->count - 1))] / 1000.0;
}

void samples_print(samples_t *samples) {
    if (samples->count > 0) qsort(samples->values, samples->count, sizeof *samples->values, compare);
    printf("\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,", percentile_us(samples, 0.5),
           percentile_us(samples, 0.9), percentile_us(samples, 0.99), percentile_us(samples, 1.0));
}

static double generator_cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double process_cpu_s(int pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) die("server process %d is gone", pid);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    char *fields = strrchr(text, ')');
    unsigned long user = 0, kernel = 0;
    const char *format = "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
    if (fields == NULL || sscanf(fields + 2, format, &user, &kernel) != 2) {
        die("cannot read %s", path);
    }
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double servers_cpu_s(const options_t *options) {
    double total = 0.0;
    for (int i = 0; i < options->server_pid_count; i++) total += process_cpu_s(options->server_pids[i]);
    return total;
}

/* Time that a core was not idle, whoever used it, the kernel and the hypervisor's theft included. */
static double core_busy_s(int cpu) {
    char line[512], label[16];
    unsigned long long user, nice, kernel, idle, waiting, irq, soft_irq, stolen;
    double busy_s = 0.0;
    FILE *file = fopen("/proc/stat", "r");
    if (cpu < 0 || file == NULL) die("cannot read the use of core %d", cpu);
    snprintf(label, sizeof label, "cpu%d ", cpu);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, label, strlen(label)) != 0) continue;
        if (sscanf(line + strlen(label), "%llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &kernel, &idle,
                   &waiting, &irq, &soft_irq, &stolen) != 8) {
            die("cannot read /proc/stat");
        }
        busy_s = (double)(user + nice + kernel + irq + soft_irq + stolen) / (double)sysconf(_SC_CLK_TCK);
    }
    fclose(file);
    return busy_s;
}

static double both_cores_busy_s(const options_t *options) {
    if (options->server_pid_count == 0) return 0.0;
    return core_busy_s(options->cpu) + core_busy_s(options->server_cpu);
}

void window_start(window_t *window, const options_t *options) {
    window->busy_cpu_s = -both_cores_busy_s(options);
    window->server_cpu_s = -servers_cpu_s(options);
    window->generator_cpu_s = -generator_cpu_s();
    window->started_ns = now_ns();
}

void window_end(window_t *window, const options_t *options) {
    window->ended_ns = now_ns();
    window->busy_cpu_s += both_cores_busy_s(options);
    window->generator_cpu_s += generator_cpu_s();
    window->server_cpu_s += servers_cpu_s(options);
}

void window_print(const window_t *window) {
    double seconds = (double)(window->ended_ns - window->started_ns) / 1e9;
    double others_s = window->busy_cpu_s - window->generator_cpu_s - window->server_cpu_s;
    printf("\"seconds\":%.4f,\"generator_cpu\":%.3f,\"server_cpu\":%.3f,\"others_cpu\":%.3f,", seconds,
           window->generator_cpu_s / seconds, window->server_cpu_s / seconds,
           others_s > 0.0 ? others_s / seconds : 0.0);
}

uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
