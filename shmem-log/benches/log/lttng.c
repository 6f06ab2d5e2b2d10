/* What LTTng-UST takes for an event as large as a record, into its per-core rings: `lttng COUNT CORE` prints ns per event. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t words[16];

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	uint64_t events = strtoull(arguments[1], NULL, 10);
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(arguments[2]), &set);
	sched_setaffinity(0, sizeof set, &set);
	if (!lttng_ust_tracepoint_enabled(bench, access))
		return 3;
	double best = 1e9;
	for (int round = 0; round < 5; round++) {
		double start = now();
		for (uint64_t i = 0; i < events; i++) {
			words[i & 15] = i;
			lttng_ust_tracepoint(bench, access, i & 15, i, 1, i);
		}
		double time = (now() - start) / events;
		if (time < best)
			best = time;
	}
	printf("%.3f\n", best);
	return 0;
}
