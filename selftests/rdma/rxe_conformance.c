// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH and ATOMIC WRITE of rdma_rxe on the wire: a raw RoCEv2 peer (rxe_peer.h) plays the
 * requester against the kernel's responder (rxe_responder*_cases.c) and the responder against
 * the kernel's requester (rxe_requester*_cases.c).  Needs root; makes its own network link and
 * rxe device, and takes them away.
 *
 *	rxe_conformance [OPTION...] [PATTERN...]	run the cases that match, as KTAP
 *	rxe_conformance --list [PATTERN...]		name, rule and purpose of each
 *
 *	--ipv6		between IPv6 addresses, not IPv4
 *	--vlan ID	tagged: 1 to 4094
 *	--mtu BYTES	path MTU: 256, 512, 1024 (without this option), 2048 or 4096
 *	--legacy-icrc	be a peer like Linux 6.2 to 7.3: send FLUSH with their ICRC, take no other.
 *			The kernel has to find that out, on each QP; no switch tells it.
 *	--flushes-refused	what the kernel refuses completes as if it were flushed, as
 *			Linux 6.2 to 7.3 do it
 *	--after CASE	start after this case, say because it took the kernel down
 *	--once		one failure of each PATTERN is enough: skip its other cases
 *
 * KSFT_TIMEOUT_SCALE=N in the environment makes all deadlines N times longer. Exit status: 0 all
 * passed, 1 some failed, 4 the kernel has not got the verbs.
 */
#include <err.h>
#include <getopt.h>
#include <sched.h>

#include "rxe_case_runner.h"

static const struct case_doc *find_doc(const char *fixture, const char *part)
{
	const struct case_doc *const *doc;
	char name[NAME_LEN];

	snprintf(name, sizeof(name), "%s.%s", fixture, part);
	for (doc = __start_case_docs; doc < __stop_case_docs; doc++)
		if (!strcmp((*doc)->name, name))
			return *doc;
	errx(1, "%s lacks its documentation: use CASE() and ROW()", name);
}

static void list_case(struct __fixture_metadata *fixture, struct __fixture_variant_metadata *row,
		      struct __test_metadata *test, const char *name)
{
	const struct case_doc *doc = find_doc(fixture->name, test->name), *row_doc;

	printf("%s\t[%s] %s", name, doc->rule, doc->proves);
	if (row->name[0]) {
		row_doc = find_doc(fixture->name, row->name);
		printf(": [%s] %s", row_doc->rule, row_doc->proves);
	}
	putchar('\n');
}

/* Frames keep their order better, and emulation runs faster, if one CPU does it all. */
static void stay_on_one_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "staying on CPU 0");
}

static unsigned int parse_number(const char *words, unsigned int min, unsigned int max,
				 const char *what)
{
	unsigned long value;
	char *end;

	value = strtoul(words, &end, 10);
	if (!*words || *end || value < min || value > max)
		errx(2, "%s wants a number from %u to %u, not \"%s\"", what, min, max, words);
	return value;
}

static unsigned int path_mtu(const char *words)
{
	unsigned int mtu = parse_number(words, 256, MAX_MTU, "--mtu");

	if (mtu & (mtu - 1))
		errx(2, "--mtu wants 256, 512, 1024, 2048 or 4096, not %u", mtu);
	return mtu;
}

static const char usage[] =
	"usage: rxe_conformance [--list] [--legacy-icrc] [--flushes-refused] [--ipv6]\n"
	"                           [--vlan ID] [--mtu BYTES] [--after CASE] [--once] [PATTERN]...";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "legacy-icrc", no_argument, NULL, 'i' },
		{ "flushes-refused", no_argument, NULL, 'f' },
		{ "after", required_argument, NULL, 'a' },
		{ "once", no_argument, NULL, 'o' },
		{ "ipv6", no_argument, NULL, '6' },
		{ "vlan", required_argument, NULL, 'v' },
		{ "mtu", required_argument, NULL, 'm' },
		{ }
	};
	struct selection selection = { 0 };
	bool list = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'l')
			list = true;
		else if (option == 'i')
			peer_legacy_icrc = true;
		else if (option == 'f')
			rxe_flushes_refused = true;
		else if (option == 'a')
			selection.after = optarg;
		else if (option == 'o')
			selection.once = true;
		else if (option == '6')
			peer_link.ipv6 = true;
		else if (option == 'v')
			peer_link.vlan = parse_number(optarg, 1, 4094, "--vlan");
		else if (option == 'm')
			peer_link.mtu = path_mtu(optarg);
		else
			errx(2, "%s", usage);
	}
	selection.patterns = argv + optind;
	if (list) {
		walk_cases(selection, list_case);
		return 0;
	}
	stay_on_one_cpu();
	run_cases(selection);
}
