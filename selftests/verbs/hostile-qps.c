// SPDX-License-Identifier: GPL-2.0
/*
 * A program that needs no rights changes its QP, or destroys it, while it is in use.  The cases, by subject:
 *
 *	hostile-qps-depth.c	its attributes, while requests come
 *	hostile-qps-memory.c	windows and on-demand regions
 *	hostile-qps-queues.c	queues that are resized, or not created
 *	hostile-qps-failing.c	what happens when it fails
 *	hostile-qps-host.c	memory, log and addresses of the host
 *
 *	hostile-qps [--milliseconds N] [--once] [PATTERN...]
 *
 *	--milliseconds	how long each case goes on, at least; 500 without it
 *	--once		as for rxe_conformance
 *	PATTERN		only cases whose names match, as in rxe_conformance
 *
 * Root makes the link, as in rxe_conformance; then each case goes on as nobody.
 */
#include <err.h>
#include <getopt.h>
#include <grp.h>
#include <sched.h>

#include "hostile-qps.h"
#include "rxe_case_runner.h"

#define NOBODY		65534

unsigned int milliseconds = 500;

void stay_on_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
		errx(1, "no CPU %d: a race wants two", cpu);
}

void become_nobody(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		err(1, "becoming nobody");
}

void open_as_nobody(struct rig *rig, int cpu)
{
	become_nobody();
	stay_on_cpu(cpu);
	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

void make_pair(struct rxe_end *end, struct rxe_qp pair[2])
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	unsigned int scale;

	config.timeout = 17;	/* half a second */
	for (scale = wait_scale(); scale > 1; scale /= 2)
		config.timeout++;
	config.retries = 2;
	rxe_make_pair(end, &config, pair);
}

static void *send_without_a_pause(void *arg)
{
	struct flood *flood = arg;

	stay_on_cpu(1);
	for (; !flood->stop; flood->sent++)
		send_again(&flood->rq);
	return NULL;
}

void start_flood(struct flood *flood, struct packet rq)
{
	*flood = (struct flood) { .rq = rq };
	if (pthread_create(&flood->thread, NULL, send_without_a_pause, flood))
		errx(1, "no thread");
	while (flood->sent < LEAST)
		;
}

void stop_flood(struct flood *flood)
{
	flood->stop = true;
	pthread_join(flood->thread, NULL);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "milliseconds", required_argument, NULL, 'm' },
		{ "once", no_argument, NULL, 'o' },
		{ }
	};
	struct selection selection = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'm')
			milliseconds = atoi(optarg);
		else if (option == 'o')
			selection.once = true;
		if (option == '?' || !milliseconds)
			errx(2, "usage: hostile-qps [--milliseconds N] [--once] [PATTERN...]");
	}
	selection.patterns = argv + optind;
	run_cases(selection);
}
