// SPDX-License-Identifier: GPL-2.0
/*
 *	tell-lines DEVICE COMMAND [ARG...]
 *
 * Runs COMMAND and copies what it prints to stdout, byte for byte.  Each line is first broadcast by the network DEVICE: see
 * told.h.  COMMAND's stdout is a file that this program serves by FUSE, so write() returns when the frames of its lines have
 * been sent, whoever calls it, and by whatever descriptor.  In a kernel without CONFIG_FUSE_FS it is a pipe, and a line is
 * told a moment later.  The status is COMMAND's.  guest/session runs this in the initiators' guests.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "told.h"

#define ROOM	65536		/* of a write(), and of a pipe */

static struct {
	struct told_head head;
	char text[TOLD_MAX];
} frame;
static size_t length;		/* of the line so far; more than TOLD_MAX if it is cut */
static int packet_socket = -1;	/* or -1: the command goes on all the same; crash-states says that no line was told */
static int source;		/* what COMMAND prints comes from here: FUSE, or the pipe */
static bool by_fuse;

static void open_device(const char *device)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(device) };
	struct ifreq request = { };
	int one = 1;

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	packet_socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	/* What delays and drops packets on purpose, such as netem, shall not hold up these. */
	if (packet_socket < 0 || bind(packet_socket, (struct sockaddr *)&address, sizeof(address)) ||
	    ioctl(packet_socket, SIOCGIFHWADDR, &request) ||
	    setsockopt(packet_socket, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one))) {
		warn("cannot broadcast lines by %s", device);
		packet_socket = -1;
	}
	memset(frame.head.to, 0xff, sizeof(frame.head.to));
	memcpy(frame.head.from, request.ifr_hwaddr.sa_data, sizeof(frame.head.from));
	frame.head.ethertype = htons(TOLD_ETHERTYPE);
	memcpy(frame.head.magic, TOLD_MAGIC, sizeof(frame.head.magic));
}

static void tell(void)
{
	size_t told = length < TOLD_MAX ? length : TOLD_MAX;
	ssize_t sent = 0;

	length = 0;
	frame.head.length = htons(told | (by_fuse ? TOLD_IN_TIME : 0));
	/* The queue of the device may be full for a moment. */
	while (packet_socket >= 0 && (sent = send(packet_socket, &frame, sizeof(frame.head) + told, 0)) < 0 && errno == ENOBUFS)
		usleep(100);
	if (sent >= 0)
		return;
	warn("cannot broadcast a line");
	packet_socket = -1;
}

static void tell_lines_of(const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			tell();
		else if (length++ < TOLD_MAX)
			frame.text[length - 1] = bytes[i];
	}
}

static void pass_on(const char *bytes, size_t n)
{
	for (ssize_t wrote; n; bytes += wrote, n -= wrote) {
		wrote = write(1, bytes, n);
		if (wrote < 0)
			err(1, "stdout");
	}
}

/******************************************************************************
 * A file of FUSE that has no name, as it alone is the root of a mount that is nowhere
 */

/* A descriptor of the mount, or -1. */
static int mount_file(void)
{
	int context = fsopen("fuse", FSOPEN_CLOEXEC);	/* this loads the module, which makes the device */
	char fd[16];

	source = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(fd, sizeof(fd), "%d", source);
	if (context < 0 || source < 0 || fsconfig(context, FSCONFIG_SET_STRING, "fd", fd, 0) ||
	    fsconfig(context, FSCONFIG_SET_STRING, "rootmode", "100666", 0) ||
	    fsconfig(context, FSCONFIG_SET_STRING, "user_id", "0", 0) ||
	    fsconfig(context, FSCONFIG_SET_STRING, "group_id", "0", 0) ||
	    fsconfig(context, FSCONFIG_SET_FLAG, "allow_other", NULL, 0) ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -1;
	return fsmount(context, FSMOUNT_CLOEXEC, 0);
}

/* A request that was given up meanwhile takes no answer. */
static void answer(const struct fuse_in_header *to, int error, void *body, size_t size)
{
	struct fuse_out_header head = { .len = sizeof(head) + size, .error = error, .unique = to->unique };
	struct iovec parts[] = { { &head, sizeof(head) }, { body, size } };

	writev(source, parts, 2);
}

static void take_request(const struct fuse_in_header *request)
{
	const struct fuse_write_in *in = (const void *)(request + 1);
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = ROOM,
	};
	struct fuse_attr_out is = { .attr = { .ino = 1, .mode = S_IFREG | 0666, .nlink = 1, .blksize = 4096 } };
	/* No close() waits for another's write(). */
	struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_NONSEEKABLE | FOPEN_STREAM };
	struct fuse_write_out written = { };

	switch (request->opcode) {
	case FUSE_INIT: return answer(request, 0, &init, sizeof(init));
	case FUSE_GETATTR:
	case FUSE_SETATTR: return answer(request, 0, &is, sizeof(is));
	case FUSE_OPEN: return answer(request, 0, &opened, sizeof(opened));
	case FUSE_RELEASE: return answer(request, 0, NULL, 0);
	case FUSE_IOCTL: return answer(request, -ENOTTY, NULL, 0);
	case FUSE_FORGET: return;
	case FUSE_WRITE:
		written.size = in->size;
		tell_lines_of((const char *)(in + 1), in->size);
		answer(request, 0, &written, sizeof(written));
		return pass_on((const char *)(in + 1), in->size);
	default: answer(request, -ENOSYS, NULL, 0);
	}
}

/******************************************************************************/

/* False if nothing more can come. */
static bool take(void)
{
	static _Alignas(struct fuse_in_header) char bytes[ROOM + 4096];
	ssize_t n = read(source, bytes, by_fuse ? sizeof(bytes) : ROOM);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOENT;
	if (by_fuse) {
		take_request((const void *)bytes);
	} else {
		tell_lines_of(bytes, n);
		pass_on(bytes, n);
	}
	return n > 0;
}

static void __attribute__((noreturn)) run(char **command, int output)
{
	char path[32];

	if (by_fuse) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", output);
		output = open(path, O_WRONLY | O_CLOEXEC);
	}
	if (dup2(output, 1) < 0)
		err(127, "stdout");
	execvp(*command, command);
	err(127, "%s", *command);
}

int main(int argc, char **argv)
{
	static const int for_command[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };	/* whose end ends this, too */
	/* The sooner a line is told, the shorter COMMAND waits. */
	const struct sched_param first = { .sched_priority = 1 };
	struct pollfd from[2] = { };
	int ends[2], output, status;
	pid_t child;

	if (argc < 3)
		errx(1, "usage: tell-lines DEVICE COMMAND [ARG...]");
	open_device(argv[1]);
	output = mount_file();
	by_fuse = output >= 0;
	if (!by_fuse) {
		if (pipe2(ends, O_CLOEXEC))
			err(1, "pipe");
		source = ends[0];
		output = ends[1];
	}
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child)
		run(argv + 2, output);
	close(output);
	for (size_t i = 0; i < sizeof(for_command) / sizeof(*for_command); i++)
		signal(for_command[i], SIG_IGN);
	sched_setscheduler(0, SCHED_FIFO, &first);
	fcntl(source, F_SETFL, O_NONBLOCK);
	from[0] = (struct pollfd){ .fd = source, .events = POLLIN };
	from[1] = (struct pollfd){ .fd = pidfd_open(child, 0), .events = POLLIN };
	if (from[1].fd < 0)
		err(1, "pidfd_open");
	while (!from[1].revents)
		if (poll(from, 2, -1) > 0 && from[0].revents && !take())
			from[0].fd = -1;
	/* The rest, and what it has left in the background, such as a tee, prints its last lines soon. */
	for (int i = 0; i < 100 && from[0].fd >= 0 && poll(from, 1, 50) > 0 && take(); i++)
		;
	if (length)
		tell();
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
