/* SPDX-License-Identifier: Apache-2.0 */
/* tests/http/loopback.h - a server on 127.0.0.1 in a thread of the test: it reads a
 * request whole and lets a function of the test answer it. */
#ifndef JB_TESTS_HTTP_LOOPBACK_H
#define JB_TESTS_HTTP_LOOPBACK_H

#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK_HELD 64

typedef struct loopback {
    int fd, port;
    pthread_t thread;
    /* Answer request number n (from 0); 1: leave the connection open and silent. */
    int (*answer)(struct loopback *l, int client, const char *request, int n);
    atomic_int requests;
    int held[LOOPBACK_HELD];
    int held_count;
    char last[1 << 16]; /* the latest request */
} loopback;

static inline void loopback_say(int client, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        ssize_t k = send(client, text, n, MSG_NOSIGNAL);
        if (k <= 0) return;
        text += k;
        n -= (size_t)k;
    }
}

/* Head and body, as many bytes as Content-Length says. */
static inline int loopback_read(int client, char *to, size_t room)
{
    size_t n = 0;
    while (n + 1 < room) {
        ssize_t k = recv(client, to + n, room - 1 - n, 0);
        if (k <= 0) return 0;
        n += (size_t)k;
        to[n] = '\0';
        const char *end = strstr(to, "\r\n\r\n"), *length = strcasestr(to, "Content-Length:");
        if (end && n >= (size_t)(end + 4 - to) + (length && length < end ? strtoul(length + 15, NULL, 10) : 0)) return 1;
    }
    return 0;
}

static inline void *loopback_serve(void *arg)
{
    loopback *l = arg;
    for (int client; (client = accept(l->fd, NULL, NULL)) >= 0;) {
        int hold = 0;
        if (loopback_read(client, l->last, sizeof l->last)) hold = l->answer(l, client, l->last, atomic_fetch_add(&l->requests, 1));
        if (hold && l->held_count < LOOPBACK_HELD) l->held[l->held_count++] = client;
        else close(client);
    }
    return NULL;
}

static inline void loopback_start(loopback *l, int (*answer)(loopback *l, int client, const char *request, int n))
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    memset(l, 0, sizeof *l);
    l->answer = answer;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(l->fd, 0);
    ck_assert_int_eq(bind(l->fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(l->fd, 64), 0);
    ck_assert_int_eq(getsockname(l->fd, (struct sockaddr *)&at, &n), 0);
    l->port = ntohs(at.sin_port);
    ck_assert_int_eq(pthread_create(&l->thread, NULL, loopback_serve, l), 0);
}

static inline void loopback_stop(loopback *l)
{
    shutdown(l->fd, SHUT_RDWR);
    pthread_join(l->thread, NULL);
    close(l->fd);
    for (int i = 0; i < l->held_count; i++) close(l->held[i]);
}

/* A port that nobody listens on. */
static inline int loopback_dead_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    return ntohs(at.sin_port);
}

#endif
