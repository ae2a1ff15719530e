/*
 * A brake for a server: every recv() that returned data is followed by a
 * stretch of useless work of known size. Loaded with LD_PRELOAD.
 *
 * REGTRACK_BRAKE_NS     nanoseconds on the CPU
 * REGTRACK_BRAKE_LOOPS  rounds of an empty loop: the same number of
 *                       instructions each time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

static ssize_t (*next_recv)(int, void *, size_t, int);
static long long brake_ns;
static unsigned long long brake_loops;

__attribute__((constructor)) static void
prepare(void)
{
	const char *ns = getenv("REGTRACK_BRAKE_NS");
	const char *loops = getenv("REGTRACK_BRAKE_LOOPS");

	*(void **) &next_recv = dlsym(RTLD_NEXT, "recv");
	brake_ns = ns ? strtoll(ns, NULL, 10) : 0;
	brake_loops = loops ? strtoull(loops, NULL, 10) : 0;
}

static long long
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void
brake(void)
{
	if (brake_ns > 0)
	{
		long long end = now_ns() + brake_ns;

		while (now_ns() < end)
			;
	}
	for (unsigned long long left = brake_loops; left > 0; left--)
		__asm__ volatile("");	/* or the compiler leaves the loop out */
}

ssize_t
recv(int socket, void *buffer, size_t length, int flags)
{
	ssize_t received = next_recv(socket, buffer, length, flags);

	if (received > 0)
		brake();
	return received;
}

/* What recv() becomes in a server that was compiled with _FORTIFY_SOURCE. */
ssize_t
__recv_chk(int socket, void *buffer, size_t length, size_t size, int flags)
{
	if (length > size)
		abort();
	return recv(socket, buffer, length, flags);
}
