/* A member of a Corosync closed process group: sends AGREED messages as fast as the daemon takes them.

   Arguments and output: see __init__.py. The extra argument is the name of the group. Messages are in flight until the
   daemon says CS_ERR_TRY_AGAIN; then what has come is dispatched. The daemon itself packs small messages into packets. */

#include <corosync/cpg.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LIFE_S = 300, MEMBERS_MAX = 256, BURST = 64 };

static int own_rank, members, size;
static uint64_t positions[MEMBERS_MAX];
static uint64_t received, wrong, expected;
static size_t joined;
static double end_s, end_cpu_s;

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what, int code) {
    fprintf(stderr, "%s failed with code %d\n", what, code);
    exit(1);
}

static void deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message,
                    size_t length) {
    (void)handle, (void)group, (void)node, (void)pid;
    const unsigned char *payload = message;
    int rank = payload[1];
    if (rank == own_rank) return;
    if (length != (size_t)size || payload[0] != (positions[rank] & 255)) wrong++;
    positions[rank]++;
    if (++received == expected) {
        end_s = now_s();
        end_cpu_s = cpu_s();
    }
}

static void change(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *list, size_t count,
                   const struct cpg_address *left, size_t left_count, const struct cpg_address *came, size_t came_count) {
    (void)handle, (void)group, (void)list, (void)left, (void)left_count, (void)came, (void)came_count;
    joined = count;
}

static void dispatch(cpg_handle_t handle) {
    cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ALL);
    if (error != CS_OK && error != CS_ERR_TRY_AGAIN) fail("cpg_dispatch", error);
}

static void wait_for_some(int fd, int timeout_ms) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    if (poll(&poller, 1, timeout_ms) < 0 && errno != EINTR) fail("poll", errno);
}

static void begin(uint64_t count) {
    memset(positions, 0, sizeof positions);
    received = wrong = 0;
    expected = count * (uint64_t)(members - 1);
}

static void move(cpg_handle_t handle, int fd, uint64_t count) {
    unsigned char *payload = malloc((size_t)size);
    struct iovec part = {.iov_base = payload, .iov_len = (size_t)size};
    uint64_t sent = 0;
    memset(payload, '.', (size_t)size);
    payload[1] = (unsigned char)own_rank;
    while (sent < count || received < expected) {
        int full = sent == count;
        for (int burst = 0; burst < BURST && !full; burst++) {
            payload[0] = (unsigned char)(sent & 255);
            cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
            if (error != CS_OK && error != CS_ERR_TRY_AGAIN) fail("cpg_mcast_joined", error);
            if (error == CS_OK) sent++;
            full = error != CS_OK || sent == count;
        }
        if (full) wait_for_some(fd, sent < count ? 1 : 100);
        dispatch(handle);
    }
    free(payload);
}

/* What comes meanwhile waits in the daemon: nothing is received before the clock runs. */
static void wait_for_go(void) {
    char line[16];
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || strcmp(line, "go\n") != 0) fail("waiting for the driver", 0);
}

int main(int argc, char **argv) {
    cpg_callbacks_t callbacks = {.cpg_deliver_fn = deliver, .cpg_confchg_fn = change};
    struct cpg_name group;
    cpg_handle_t handle;
    cs_error_t error;
    int fd;
    if (argc != 7) fail("reading the arguments", argc);
    alarm(LIFE_S);
    own_rank = atoi(argv[1]);
    members = 1;
    for (const char *at = argv[2]; *at; at++) members += *at == ',';
    size = atoi(argv[3]);
    group.length = (uint32_t)snprintf(group.value, sizeof group.value, "%s", argv[6]);
    if ((error = cpg_initialize(&handle, &callbacks)) != CS_OK) fail("cpg_initialize", error);
    if ((error = cpg_join(handle, &group)) != CS_OK) fail("cpg_join", error);
    if ((error = cpg_fd_get(handle, &fd)) != CS_OK) fail("cpg_fd_get", error);
    while (joined < (size_t)members) {
        wait_for_some(fd, 100);
        dispatch(handle);
    }
    uint64_t warmup = strtoull(argv[4], NULL, 10), count = strtoull(argv[5], NULL, 10);
    begin(warmup);
    wait_for_go();
    move(handle, fd, warmup);
    if (wrong) fail("the order of the warm-up", (int)wrong);
    begin(count);
    wait_for_go();
    double begin_s = now_s(), begin_cpu_s = cpu_s();
    move(handle, fd, count);
    printf("{\"received\": %llu, \"wrong\": %llu, \"seconds\": %.6f, \"cpu_s\": %.6f}\n", (unsigned long long)received,
           (unsigned long long)wrong, end_s - begin_s, end_cpu_s - begin_cpu_s);
    fflush(stdout);
    while (getchar() != EOF) continue;
    cpg_finalize(handle);
    return 0;
}
