/* The event that stands for a logged access: the four words of a record. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng.h"
#if !defined(BENCH_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(
	bench, access,
	LTTNG_UST_TP_ARGS(uint64_t, where, uint64_t, value, uint64_t, site, uint64_t, bbcount),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, where, where)
		lttng_ust_field_integer(uint64_t, value, value)
		lttng_ust_field_integer(uint64_t, site, site)
		lttng_ust_field_integer(uint64_t, bbcount, bbcount)
	)
)
#endif
#include <lttng/tracepoint-event.h>
