// SPDX-License-Identifier: GPL-2.0
/*
 *	tell-lines DEVICE
 *
 * Copies stdin to stdout, byte for byte.  Each line is first broadcast by the network DEVICE: see told.h.  So
 * where a capture has that frame, the line had been printed, and nobody has read it before the frame was sent.
 * A pipe at stdin holds the bytes until then: record-posts.c waits until it is empty.
 * guest/session runs this in the initiators' guests.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "told.h"

static struct {
	struct told_head head;
	char text[TOLD_MAX];
} frame;
static size_t length;		/* of the line so far; more than TOLD_MAX if it is cut */
static int packet_socket = -1;
static bool cannot_tell;

/* The command goes on all the same; crash-states says that no line was told. */
static void give_up(const char *device)
{
	warn("cannot broadcast lines by %s", device);
	cannot_tell = true;
}

/* The device may not be there when this starts, but it is when the command does. */
static void open_device(const char *device)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device) };
	struct ifreq request = { };
	int one = 1;

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	packet_socket = socket(AF_PACKET, SOCK_RAW, 0);
	/* What delays and drops packets on purpose, such as netem, shall not hold up these. */
	if (packet_socket < 0 || bind(packet_socket, (struct sockaddr *)&address, sizeof(address)) ||
	    ioctl(packet_socket, SIOCGIFHWADDR, &request) ||
	    setsockopt(packet_socket, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)))
		return give_up(device);
	memset(frame.head.to, 0xff, sizeof(frame.head.to));
	memcpy(frame.head.from, request.ifr_hwaddr.sa_data, sizeof(frame.head.from));
	frame.head.ethertype = htons(TOLD_ETHERTYPE);
	memcpy(frame.head.magic, TOLD_MAGIC, sizeof(frame.head.magic));
}

static void tell(const char *device)
{
	size_t told = length < TOLD_MAX ? length : TOLD_MAX;
	ssize_t sent;

	length = 0;
	if (packet_socket < 0 && !cannot_tell)
		open_device(device);
	if (cannot_tell)
		return;
	frame.head.length = htons(told);
	/* The queue of the device may be full for a moment. */
	while ((sent = send(packet_socket, &frame, sizeof(frame.head) + told, 0)) < 0 && errno == ENOBUFS)
		usleep(100);
	if (sent < 0)
		give_up(device);
}

static void tell_lines_of(const char *device, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			tell(device);
		else if (length++ < TOLD_MAX)
			frame.text[length - 1] = bytes[i];
	}
}

/* What comes next, at most @size bytes.  If stdin is a pipe, it still holds them. */
static ssize_t look(const int copy[2], char *bytes, size_t size, bool *held)
{
	ssize_t n = tee(0, copy[1], size, 0);

	*held = n > 0;
	if (n < 0 && errno == EINVAL)
		return read(0, bytes, size);
	return n > 0 ? read(copy[0], bytes, n) : n;
}

static bool pass_on(const char *bytes, size_t n)
{
	ssize_t wrote = 0;

	for (; n && wrote >= 0; bytes += wrote, n -= wrote)
		wrote = write(1, bytes, n);
	return wrote >= 0;
}

int main(int argc, char **argv)
{
	/* The sooner a line is told, the fewer packets come between. */
	const struct sched_param first = { .sched_priority = 1 };
	static char bytes[65536];
	int copy[2];
	bool held;
	ssize_t n;

	if (argc != 2)
		errx(1, "usage: tell-lines DEVICE");
	if (pipe(copy))
		err(1, "pipe");
	sched_setscheduler(0, SCHED_FIFO, &first);
	while ((n = look(copy, bytes, sizeof(bytes), &held)) > 0) {
		tell_lines_of(argv[1], bytes, n);
		if (held && read(0, bytes, n) != n)	/* the same once more */
			err(1, "stdin");
		if (!pass_on(bytes, n))
			err(1, "stdout");
	}
	if (length)
		tell(argv[1]);
	return n < 0;
}
