/* Cancellation: deferred, at a blocking call, and asynchronous in the middle of computing;
 * cleanup handlers run from the innermost outwards, in every frame. */
#include "check.h"

#include <pthread.h>
#include <time.h>

enum { DEPTH = 10 };

struct log {
    unsigned order[DEPTH], length;
    volatile int ready;
    uint64_t progress;
};

struct frame {
    struct log *log;
    unsigned depth;
};

static void clean(void *argument) {
    struct frame *frame = argument;
    CHECK(frame->log->length < DEPTH);
    frame->log->order[frame->log->length++] = frame->depth;
    busy(frame->depth, 100);
}

static __attribute__((noinline)) void descend(struct log *log, unsigned depth, void (*bottom)(struct log *)) {
    struct frame frame = {log, depth};
    pthread_cleanup_push(clean, &frame);
    if (depth + 1 < DEPTH)
        descend(log, depth + 1, bottom);
    else
        bottom(log);
    pthread_cleanup_pop(0);
}

static void compute(struct log *log) {
    CHECK_EQUAL(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    log->ready = 1;
    for (uint64_t i = 1;; i++)
        log->progress = i * 3 + (log->progress & 1);
}

static void test_cancel(struct log *log) {
    log->ready = 1;
    for (;;) {
        log->progress += busy(log->progress, 300) & 1;
        pthread_testcancel();
    }
}

static void sleep_long(struct log *log) {
    log->ready = 1;
    for (;;)
        nanosleep(&(struct timespec){3600, 0}, NULL);
}

static void *run_compute(void *log) { return descend(log, 0, compute), NULL; }
static void *run_test_cancel(void *log) { return descend(log, 0, test_cancel), NULL; }
static void *run_sleep(void *log) { return descend(log, 0, sleep_long), NULL; }

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    static void *(*const routines[])(void *) = {run_compute, run_test_cancel, run_sleep};
    uint64_t digest = 0;
    for (unsigned i = 0; i < 80 * scale; i++) {
        struct log log = {.length = 0};
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, routines[i % 3], &log), 0);
        while (!log.ready)
            sched_yield();
        digest = mix(digest, busy(i, 30000));
        CHECK_EQUAL(pthread_cancel(thread), 0);
        void *result;
        CHECK_EQUAL(pthread_join(thread, &result), 0);
        CHECK(result == PTHREAD_CANCELED);
        CHECK_EQUAL(log.length, DEPTH);
        for (unsigned k = 0; k < DEPTH; k++)
            CHECK_EQUAL(log.order[k], DEPTH - 1 - k);
    }
    report("cancelled", digest);
}
