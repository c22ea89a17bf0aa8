// SPDX-License-Identifier: GPL-2.0
/*
 * Damages the recordings of a run, and runs crash-states on them: whatever they hold, it must end
 * with a result or with a message.
 *
 *	crash-fuzz PROGRAM RUN SEED COUNT
 *
 * PROGRAM is crash-states, best built with sanitizers.  Says at which COUNT of SEED it failed.  The checker
 * is this program, too: it refuses states by their content, so that they are explained and kept.
 */
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../selftests/verbs/prng.h"
#include "../selftests/rdma/rxe_roce.h"
#include "util.h"

#define IP		14	/* after Ethernet */
#define BTH		(IP + 28)
#define MAX_FRAMES	4096
#define MAX_BYTES	10000

struct frame {
	unsigned int length;
	unsigned char bytes[MAX_BYTES];
};

static struct frame *original, *damaged;
static unsigned int frames;

static void read_capture(const char *path)
{
	char why[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const unsigned char *data;
	pcap_t *pcap = pcap_open_offline(path, why);

	if (!pcap)
		errx(1, "%s", why);
	original = xcalloc(MAX_FRAMES, sizeof(*original));
	damaged = xcalloc(MAX_FRAMES, sizeof(*damaged));
	while (frames < MAX_FRAMES && pcap_next_ex(pcap, &header, &data) == 1) {
		if (header->caplen > MAX_BYTES)
			continue;
		original[frames].length = header->caplen;
		memcpy(original[frames++].bytes, data, header->caplen);
	}
	pcap_close(pcap);
	if (!frames)
		errx(1, "%s is empty", path);
}

/* So that the damage is not simply dropped. */
static void mend_icrc(struct frame *frame)
{
	unsigned int length = frame->bytes[IP + 2] << 8 | frame->bytes[IP + 3];

	if (frame->length < BTH + 16 || frame->bytes[12] != 8 || frame->bytes[13] ||
	    length + IP > frame->length || length < 44)
		return;
	roce_icrc_put(frame->bytes + IP, length - 4, roce_icrc(frame->bytes + IP, length - 4));
}

static unsigned int damage(struct prng *prng)
{
	unsigned int n = frames;

	memcpy(damaged, original, frames * sizeof(*damaged));
	for (unsigned int times = 1 + prng_below(prng, 4); times; times--) {
		unsigned int i = prng_below(prng, n), j = prng_below(prng, n), at;
		struct frame *frame = &damaged[i], kept;

		switch (prng_below(prng, 6)) {
		case 0:	/* anything, anywhere */
			frame->bytes[prng_below(prng, frame->length)] = prng_next(prng);
			break;
		case 1:	/* the headers of the transport, with a good ICRC */
		case 2:
			at = BTH + prng_below(prng, 40);
			if (at < frame->length)
				frame->bytes[at] = prng_once_in(prng, 2) ? prng_next(prng) :
						   frame->bytes[at] ^ 1u << prng_below(prng, 8);
			mend_icrc(frame);
			break;
		case 3:	/* lost */
			memmove(frame, frame + 1, (n - i - 1) * sizeof(*frame));
			n -= n > 1;
			break;
		case 4:	/* reordered, or doubled */
			kept = *frame;
			*frame = damaged[j];
			if (prng_once_in(prng, 2))
				damaged[j] = kept;
			break;
		case 5:	/* cut off */
			frame->length = prng_below(prng, frame->length) + 1;
			break;
		}
	}
	return n;
}

static void write_capture(const char *path, unsigned int n, struct prng *prng)
{
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, 65536);
	pcap_dumper_t *dumper = pcap_dump_open(pcap, path);
	long size;

	if (!dumper)
		errx(1, "%s", pcap_geterr(pcap));
	for (unsigned int i = 0; i < n; i++) {
		struct pcap_pkthdr header = {
			.ts.tv_usec = i, .caplen = damaged[i].length, .len = damaged[i].length,
		};

		pcap_dump((unsigned char *)dumper, &header, damaged[i].bytes);
	}
	size = pcap_dump_ftell(dumper);
	pcap_dump_close(dumper);
	pcap_close(pcap);
	if (prng_once_in(prng, 16) && truncate(path, prng_below(prng, size)))
		err(1, "%s", path);
}

/* The same text, with a digit or so changed now and then. */
static void write_text(const char *from, const char *to, struct prng *prng)
{
	static char text[65536];
	FILE *file = fopen(from, "r");
	size_t n;

	if (!file)
		err(1, "%s", from);
	n = fread(text, 1, sizeof(text), file);
	fclose(file);
	if (n && prng_once_in(prng, 4))
		text[prng_below(prng, n)] = prng_once_in(prng, 2) ? '0' + prng_below(prng, 10) :
								    prng_next(prng);
	file = fopen(to, "w");
	if (!file || fwrite(text, 1, n, file) != n || fclose(file))
		err(1, "%s", to);
}

static int run(const char *program, const char *folder, const char *log)
{
	char *self = realpath("/proc/self/exe", NULL);
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);

		dup2(fd, 1);
		dup2(fd, 2);
		execl(program, program, "--states", "60", "--limit", "100", "--jobs", "1", folder, "--", self,
		      NULL);
		_exit(98);
	}
	waitpid(pid, &status, 0);
	free(self);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The checker.  The same content has the same answer, and one of 16 is "inconsistent". */
static int check(const char *image)
{
	static unsigned char bytes[65536];
	uint64_t sum = 0;
	size_t n;
	FILE *file = fopen(image, "r");

	if (!file)
		err(2, "%s", image);
	n = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			sum = mix64(sum + (i << 8 | bytes[i]));
	return sum && !(sum % 16);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* With what crash-states has kept in it. */
static void remove_folder(const char *folder)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		err(1, "%s", folder);
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/crash-fuzz.XXXXXX", message[256];
	unsigned int refused = 0, inconsistent = 0, count;
	char *capture, *memory, *cpu, *recorded_cpu, *start, *log;
	int bad = 0;

	if (argc == 1 && getenv("IMAGE"))
		return check(getenv("IMAGE"));
	if (argc != 5)
		errx(1, "usage: crash-fuzz PROGRAM RUN SEED COUNT");
	count = strtoul(argv[4], NULL, 10);
	setenv("ASAN_OPTIONS", "exitcode=99:detect_leaks=0", 1);
	setenv("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99", 1);
	read_capture(xasprintf("%s/server.pcap", argv[2]));
	if (!mkdtemp(folder))
		err(1, "%s", folder);
	capture = xasprintf("%s/server.pcap", folder);
	memory = xasprintf("%s/server.memory", folder);
	cpu = xasprintf("%s/server.cpu", folder);
	recorded_cpu = xasprintf("%s/server.cpu", argv[2]);
	start = xasprintf("%s/server.pmem0.start", folder);
	log = xasprintf("%s/log", folder);
	if (symlink(realpath(xasprintf("%s/server.pmem0.start", argv[2]), NULL), start))
		err(1, "%s", start);
	for (unsigned int i = 0; i < count && !bad; i++) {
		struct prng prng = prng_of_seed(strtoull(argv[3], NULL, 10) + i);
		int status;
		FILE *file;

		write_capture(capture, damage(&prng), &prng);
		write_text(xasprintf("%s/server.memory", argv[2]), memory, &prng);
		if (!access(recorded_cpu, R_OK))
			write_text(recorded_cpu, cpu, &prng);
		status = run(argv[1], folder, log);
		message[0] = 0;
		file = fopen(log, "r");
		while (file && fgets(message, sizeof(message), file) &&
		       !strstr(message, "error"))
			;
		if (file)
			fclose(file);
		refused += status == 2;
		inconsistent += status == 1;
		bad = status != 0 && status != 1 && status != 4 && !(status == 2 && strstr(message, "crash-states: error: "));
		if (bad)
			printf("seed %llu: status %d: %s; all of it is in %s\n",
			       strtoull(argv[3], NULL, 10) + i, status, message, folder);
	}
	if (!bad) {
		printf("%u damaged runs: %u were refused with a message, %u were inconsistent, the others followed\n",
		       count, refused, inconsistent);
		remove_folder(folder);
	}
	return bad;
}
