#include "loadgen.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void response_reset(response_t *response) {
    response->phase = PHASE_HEAD;
    response->status = 0;
    response->chunked = response->has_length = response->closes = response->up_to_date = false;
    response->remaining = response->body_bytes = 0;
    response->line_length = 0;
    response->next_offset[0] = response->cursor[0] = '\0';
}

static void copy_value(char *target, size_t capacity, const char *value, size_t length) {
    if (length >= capacity) die("a response header is too long: %zu bytes", length);
    memcpy(target, value, length);
    target[length] = '\0';
}

static bool named(const char *line, size_t name_length, const char *name) {
    return strlen(name) == name_length && strncasecmp(line, name, name_length) == 0;
}

static void parse_header(response_t *response, const char *line, size_t length) {
    const char *colon = memchr(line, ':', length);
    if (colon == NULL) die("malformed response header: %.*s", (int)length, line);
    size_t name_length = (size_t)(colon - line);
    const char *value = colon + 1;
    while (value < line + length && *value == ' ') value++;
    size_t value_length = (size_t)(line + length - value);
    if (named(line, name_length, "content-length")) {
        response->has_length = true;
        response->remaining = strtoull(value, NULL, 10);
    } else if (named(line, name_length, "transfer-encoding")) {
        response->chunked = value_length == 7 && strncasecmp(value, "chunked", 7) == 0;
    } else if (named(line, name_length, "stream-next-offset")) {
        copy_value(response->next_offset, sizeof response->next_offset, value, value_length);
    } else if (named(line, name_length, "stream-cursor")) {
        copy_value(response->cursor, sizeof response->cursor, value, value_length);
    } else if (named(line, name_length, "stream-up-to-date")) {
        response->up_to_date = true;
    } else if (named(line, name_length, "connection")) {
        response->closes = value_length == 5 && strncasecmp(value, "close", 5) == 0;
    }
}

static void end_of_head(response_t *response) {
    if (response->status == 204 || response->status == 304) {
        response->phase = PHASE_DONE;
    } else if (response->chunked) {
        response->phase = PHASE_CHUNK_SIZE;
    } else if (response->has_length) {
        response->phase = response->remaining > 0 ? PHASE_LENGTH : PHASE_DONE;
    } else if (response->closes) {
        response->phase = PHASE_UNTIL_CLOSE;
    } else {
        die("a response of status %d has neither a length nor chunks", response->status);
    }
}

static void on_line(response_t *response, const char *line, size_t length) {
    switch (response->phase) {
    case PHASE_HEAD:
        if (response->status == 0) {
            if (length < 12 || memcmp(line, "HTTP/1.1 ", 9) != 0) die("not HTTP/1.1: %.*s", (int)length, line);
            response->status = atoi(line + 9);
        } else if (length > 0) {
            parse_header(response, line, length);
        } else {
            end_of_head(response);
        }
        break;
    case PHASE_CHUNK_SIZE: {
        char *end = NULL;
        response->remaining = strtoull(line, &end, 16);
        if (end == line) die("malformed chunk size");
        response->phase = response->remaining > 0 ? PHASE_CHUNK_DATA : PHASE_TRAILER;
        break;
    }
    case PHASE_CHUNK_END:
        if (length != 0) die("a chunk is longer than it says");
        response->phase = PHASE_CHUNK_SIZE;
        break;
    default:
        if (length == 0) response->phase = PHASE_DONE;
    }
}

static size_t feed_line(response_t *response, const char *bytes, size_t length) {
    const char *newline = memchr(bytes, '\n', length);
    size_t taken = newline != NULL ? (size_t)(newline - bytes) + 1 : length;
    if (response->line_length == 0 && newline != NULL) {
        size_t line_length = taken - 1;
        if (line_length == 0 || bytes[line_length - 1] != '\r') die("a line does not end in CRLF");
        char terminated[sizeof response->line];
        if (line_length >= sizeof terminated) die("a response line is too long");
        memcpy(terminated, bytes, line_length);
        terminated[line_length - 1] = '\0';
        on_line(response, terminated, line_length - 1);
        return taken;
    }
    if (response->line_length + taken >= sizeof response->line) die("a response line is too long");
    memcpy(response->line + response->line_length, bytes, taken);
    response->line_length += taken;
    if (newline != NULL) {
        size_t line_length = response->line_length;
        response->line_length = 0;
        if (line_length < 2 || response->line[line_length - 2] != '\r') die("a line does not end in CRLF");
        response->line[line_length - 2] = '\0';
        on_line(response, response->line, line_length - 2);
    }
    return taken;
}

size_t response_feed(response_t *response, const char *bytes, size_t length, body_fn on_body, void *context) {
    size_t used = 0;
    while (used < length && response->phase != PHASE_DONE) {
        if (response->phase == PHASE_UNTIL_CLOSE) {
            if (on_body != NULL) on_body(context, bytes + used, length - used);
            response->body_bytes += length - used;
            return length;
        }
        if (response->phase != PHASE_LENGTH && response->phase != PHASE_CHUNK_DATA) {
            used += feed_line(response, bytes + used, length - used);
            continue;
        }
        size_t piece = length - used < response->remaining ? length - used : (size_t)response->remaining;
        if (on_body != NULL) on_body(context, bytes + used, piece);
        used += piece;
        response->remaining -= piece;
        response->body_bytes += piece;
        if (response->remaining == 0) {
            response->phase = response->phase == PHASE_LENGTH ? PHASE_DONE : PHASE_CHUNK_END;
        }
    }
    return used;
}
