// SPDX-License-Identifier: GPL-2.0
/* Shared by the two ends of the benchmark, see bench.h. */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define CALIBRATION_US	100000
#define DEADLINE_NS	60000000000ull

struct ibv_wc bench_poll(struct end *end)
{
	__u64 deadline = bench_now() + DEADLINE_NS;
	struct ibv_wc wc;

	while (!ibv_poll_cq(end->cq, 1, &wc))
		if (bench_now() > deadline)
			errx(1, "no completion within 60 s");
	return wc;
}

/* No delay is no netem: not even the work that it makes. */
void bench_delay(unsigned int us)
{
	static unsigned int now;
	char command[100] = "tc qdisc del dev eth0 root";

	if (us == now)
		return;
	if (us)
		snprintf(command, sizeof(command),
			 "tc qdisc replace dev eth0 root netem delay %uus", us);
	if (system(command))
		errx(1, "`%s` failed: has the kernel CONFIG_NET_SCH_NETEM?", command);
	now = us;
}

static bool counts;
static __u64 spins;
static double ns_per_spin;

/*
 * Takes all the time that no other thread wants, and counts it.  (The kernel's own count of idle time
 * has in it what a softirq does on an idle CPU after an interrupt has interrupted that.)
 */
static void *spin(void *unused)
{
	struct sched_param none = {};
	__u64 n = 0;

	if (sched_setscheduler(0, SCHED_IDLE, &none))
		err(1, "SCHED_IDLE");
	while (true)
		__atomic_store_n(&spins, ++n, __ATOMIC_RELAXED);
	return unused;
}

static __u64 spun(void)
{
	return __atomic_load_n(&spins, __ATOMIC_RELAXED);
}

void bench_count_cpu(void)
{
	pthread_t thread;
	__u64 first, start;
	int ret;

	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		errx(1, "only the time of one CPU can be counted: give the guest --cpus 1");
	ret = pthread_create(&thread, NULL, spin, NULL);
	if (ret)
		errx(1, "pthread_create: %s", strerror(ret));
	while (!spun())
		usleep(CALIBRATION_US);
	first = spun();
	start = bench_now();
	usleep(CALIBRATION_US);
	ns_per_spin = (double)(bench_now() - start) / (spun() - first);
	counts = true;
}

__u64 bench_busy(void)
{
	return counts ? bench_now() - (__u64)(spun() * ns_per_spin) : 0;
}

__u64 bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}
