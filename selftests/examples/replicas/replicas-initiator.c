// SPDX-License-Identifier: GPL-2.0
/*
 * The initiator of a log with several copies, see replicas-initiator.h.
 *
 * One loop waits for the next event from any target.  Each target has a state; advance() takes it from
 * one state to the next.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <time.h>

#include "remote-log-connection.h"
#include "remote-log-replicas.h"
#include "remote-log.h"
#include "replicas-initiator.h"

/* The initiator has all of the log in memory, as the targets have it: what one lacks comes from there. */
#define LOG_CAPACITY	(16u << 20)
/* What is read or written at once when a target has fallen behind. */
#define CHUNK		(64u << 10)

/* 0.54 s, so that a busy target is not taken for dead: the others go on while that is not sure. */
#define ACK_TIMEOUT	17
#define ATTEMPT_MS	3000	/* to connect; then a new attempt begins */
#define PAUSE_MS	100	/* between attempts */

/* Each takes the target's next completion, but for the first three. */
enum state {
	AWAY,			/* the next attempt to connect is due at t->due */
	CONNECTING,		/* has time until t->due */
	WAITING,		/* for the choice of the log, or for a majority of claims */
	READING_HEADER,
	READING_RECORDS,
	ERASING,		/* the magic of a copy that does not count */
	MAKING,			/* an empty log */
	CLAIMING,
	CUTTING,		/* the tail back to where the copy is the same as the log */
	FEEDING,		/* it gets what it lacks, and then what is appended */
};

/* wr_id of what is no append; of an append it is how many records there are with it. */
#define OTHER		(1ull << 32)

struct target {
	const char *address;
	unsigned int number;		/* 1, 2, ... */
	enum state state;
	long due;			/* ms */
	bool tried;			/* it was read, or an attempt to reach it has failed */
	struct log_connection connection;

	struct log_header *copy;	/* what was read of it */
	size_t copy_size;
	struct ibv_mr *copy_mr;
	__u32 copied;			/* bytes of records */
	bool known;			/* all has been read */
	const char *unfit;		/* why it does not count */

	bool claimed;
	bool epoch_posted, in_line;
	struct log_tail posted;
	unsigned int in_flight;
	__u32 durable;			/* records; stays when the target is gone, for they stay, too */
};

struct log {
	struct rdma_event_channel *channel;
	struct ibv_pd *pd;
	struct log_header *image;	/* the log, as the targets have it, or will */
	struct ibv_mr *image_mr;
	size_t capacity;
	struct target targets[REPLICAS_MAX];
	unsigned int n;
	bool chosen, claimed, recovered;
	__u32 found;			/* records, when it was chosen */
	__u32 acknowledged;
	long begun, done;		/* ms: the first append, the last acknowledged */
	long since;			/* ms: when there was a majority last, or the program began */
	long patience;			/* ms without a majority */

	FILE *text, *sink;
	__u32 records, goal, step;
	__u32 sunk_bytes;		/* of the records that the sink has */
};

static long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

__attribute__((format(printf, 2, 3)))
static void say(const struct target *t, const char *format, ...)
{
	va_list arguments;

	printf("target %u: ", t->number);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

/* How many targets are present, and how many are in line. */
static unsigned int count_present(const struct log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->n; i++)
		n += log->targets[i].state > CONNECTING;
	return n;
}

static unsigned int count_in_line(const struct log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->n; i++)
		n += log->targets[i].state == FEEDING && log->targets[i].in_line;
	return n;
}

/*
 * Connections
 */

static void forget_copy(struct target *t)
{
	if (t->copy_mr)
		ibv_dereg_mr(t->copy_mr);
	free(t->copy);
	t->copy_mr = NULL;
	t->copy = NULL;
	t->known = false;
}

/* Its connection is gone, or there is none yet; try again soon. */
static void hang_up(struct target *t)
{
	if (t->connection.qp)
		rdma_destroy_qp(t->connection.id);
	if (t->connection.id)
		rdma_destroy_id(t->connection.id);
	t->connection.qp = NULL;
	t->connection.id = NULL;
	/* Not before: the device may still write to it. */
	forget_copy(t);
	t->state = AWAY;
	t->tried = true;
	t->due = now_ms() + PAUSE_MS;
}

static void lose(struct log *log, struct target *t, const char *why)
{
	bool was_present = t->state > CONNECTING;

	hang_up(t);
	if (!was_present)
		return;
	say(t, "lost (%s); %u of %u are left", why, count_present(log), log->n);
	if (log->recovered && count_present(log) + 1 == replicas_majority(log->n))
		printf("no majority is left: %u of %u targets; nothing is acknowledged\n", count_present(log),
		       log->n);
}

static void call(struct log *log, struct target *t)
{
	struct rdma_addrinfo *info = log_address(t->address, 0);

	t->state = CONNECTING;
	t->due = now_ms() + ATTEMPT_MS;
	if (rdma_create_id(log->channel, &t->connection.id, t, RDMA_PS_TCP))
		err(1, "rdma_create_id");
	if (rdma_resolve_addr(t->connection.id, NULL, info->ai_dst_addr, ATTEMPT_MS))
		hang_up(t);
	rdma_freeaddrinfo(info);
}

/* One protection domain serves all targets, so that one registration of the log does. */
static void use_device(struct log *log, struct target *t)
{
	struct ibv_context *device = t->connection.id->verbs;

	if (!log->pd) {
		log->pd = ibv_alloc_pd(device);
		if (!log->pd)
			err(1, "ibv_alloc_pd");
		log->image_mr = ibv_reg_mr(log->pd, log->image, LOG_CAPACITY, IBV_ACCESS_LOCAL_WRITE);
		if (!log->image_mr)
			err(1, "ibv_reg_mr");
	}
	if (log->pd->context != device)
		errx(1, "%s is reached by another RDMA device than the first target: use one for all", t->address);
	log_create_qp(&t->connection, log->pd, ACK_TIMEOUT);
	if (ibv_req_notify_cq(t->connection.id->send_cq, 0))
		errx(1, "ibv_req_notify_cq");
}

/*
 * What a target is asked for
 */

static void post_read(struct log *log, struct target *t, size_t offset, size_t length)
{
	struct ibv_qp_ex *qp = t->connection.qp;

	if (t->copy_size < offset + length || !t->copy) {
		/* The header, and later all of it. */
		size_t size = t->copy ? LOG_RECORDS + t->copy->tail.bytes : LOG_RECORDS;

		if (t->copy_mr)
			ibv_dereg_mr(t->copy_mr);
		t->copy = realloc(t->copy, size);
		if (!t->copy)
			err(1, "no memory");
		t->copy_size = size;
		t->copy_mr = ibv_reg_mr(log->pd, t->copy, size, IBV_ACCESS_LOCAL_WRITE);
		if (!t->copy_mr)
			err(1, "ibv_reg_mr");
	}
	ibv_wr_start(qp);
	qp->wr_id = OTHER;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(qp, t->connection.region.rkey, t->connection.region.addr + offset);
	ibv_wr_set_sge(qp, t->copy_mr->lkey, (uintptr_t)t->copy + offset, length);
	if (ibv_wr_complete(qp))
		lose(log, t, "READ cannot be posted");
}

static void read_records(struct log *log, struct target *t)
{
	__u32 left = t->copy->tail.bytes - t->copied;

	post_read(log, t, LOG_RECORDS + t->copied, MIN(left, CHUNK));
	t->copied += MIN(left, CHUNK);
}

static void store(struct log *log, struct target *t, size_t where, __u64 value)
{
	if (log_store(&t->connection, where, &value, OTHER))
		lose(log, t, "ATOMIC WRITE cannot be posted");
}

/* A header of zeros comes from after that of the image, where nothing is; then the magic. */
static void make_empty(struct log *log, struct target *t)
{
	static const __u64 magic = LOG_MAGIC;
	const size_t from = offsetof(struct log_header, claim);

	if (log_publish(&t->connection, from, log->image + 1, sizeof(struct log_header) - from,
			log->image_mr->lkey, offsetof(struct log_header, magic), &magic, OTHER))
		lose(log, t, "the log cannot be made");
}

/* The end of as many records after @tail as are sent at once. */
static struct log_tail chunk_end(const struct log *log, struct log_tail tail)
{
	__u32 begin = tail.bytes;

	do {
		tail.bytes += log_record_size(replicas_record(log->image, tail.bytes)->length);
		tail.records++;
	} while (tail.records < log->image->tail.records && tail.bytes - begin < CHUNK);
	return tail;
}

/*
 * Let @t have what it lacks.  That is one record in each post, while it keeps pace; of one that has
 * fallen behind, several records are one append.
 */
static void feed(struct log *log, struct target *t)
{
	while (t->state == FEEDING && t->in_flight < t->connection.max_appends &&
	       t->posted.records < log->image->tail.records) {
		struct log_tail next = chunk_end(log, t->posted);

		if (log_publish(&t->connection, LOG_RECORDS + t->posted.bytes,
				replicas_record(log->image, t->posted.bytes), next.bytes - t->posted.bytes,
				log->image_mr->lkey, offsetof(struct log_header, tail), &next, next.records)) {
			lose(log, t, "an append cannot be posted");
			return;
		}
		t->posted = next;
		t->in_flight++;
	}
	/* With all that was found it is in line; what comes after that may come later. */
	if (t->state == FEEDING && !t->epoch_posted && t->durable >= log->found) {
		t->epoch_posted = true;
		store(log, t, offsetof(struct log_header, epoch), log->image->epoch);
	}
}

/*
 * Recovery
 */

/* Enough copies that count, and each other target had its chance? */
static bool enough_known(struct log *log)
{
	unsigned int fit = 0, known = 0, tried = 0;
	__u32 records = 0;

	for (unsigned int i = 0; i < log->n; i++) {
		struct target *t = &log->targets[i];

		fit += t->known && !t->unfit;
		known += t->known;
		tried += t->tried;
		if (t->known && t->copy->magic == LOG_MAGIC)
			records += t->copy->tail.records;
	}
	if (fit >= replicas_majority(log->n))
		return tried == log->n;
	if (known < log->n)
		return false;
	if (records || fit)
		errx(1, "only %u of %u targets have a copy that counts, and records are there: not recovered",
		     fit, log->n);
	/* All are present, and hold nothing: a new log. */
	for (unsigned int i = 0; i < log->n; i++)
		printf("target %u: a log is made (%s)\n", i + 1, log->targets[i].unfit);
	return true;
}

static void choose(struct log *log)
{
	const struct log_header *copies[REPLICAS_MAX] = { };
	const struct log_header *best;
	__u64 number = 0;

	for (unsigned int i = 0; i < log->n; i++) {
		struct target *t = &log->targets[i];

		if (!t->known)
			continue;
		if (!t->unfit)
			copies[i] = t->copy;
		if (t->copy->magic == LOG_MAGIC)
			number = MAX(number, MAX(t->copy->claim, t->copy->epoch));
	}
	best = replicas_choose(copies, log->n);
	if (best)
		memcpy(log->image, best, LOG_RECORDS + best->tail.bytes);
	log->image->magic = LOG_MAGIC;
	log->image->claim = number + 1;
	log->image->epoch = number + 1;
	log->found = log->image->tail.records;
	log->chosen = true;
}

static void advance(struct log *log, struct target *t);

static void wake(struct log *log)
{
	for (unsigned int i = 0; i < log->n; i++)
		if (log->targets[i].state == WAITING)
			advance(log, &log->targets[i]);
}

/* All of its copy has been read. */
static void judge(struct log *log, struct target *t)
{
	t->known = true;
	t->tried = true;
	t->unfit = replicas_unfit(t->copy, t->copy_size);
	t->state = WAITING;
	if (t->unfit)
		t->in_line = false;
	if (!log->chosen && enough_known(log))
		choose(log);
	if (log->chosen)
		wake(log);
}

/* A majority has to have the claim before anything else changes. */
static void claim_stands(struct log *log, struct target *t)
{
	unsigned int claims = 0;

	t->claimed = true;
	t->state = WAITING;
	for (unsigned int i = 0; i < log->n; i++)
		claims += log->targets[i].claimed;
	if (claims >= replicas_majority(log->n))
		log->claimed = true;
	if (log->claimed)
		wake(log);
}

static void start_feeding(struct log *log, struct target *t)
{
	if (t->posted.records < t->durable)
		say(t, "has lost records that it had answered for: %u of %u%s%s", t->durable - t->posted.records,
		    t->durable, t->unfit ? ": " : "", t->unfit ? t->unfit : "");
	t->durable = t->posted.records;
	t->in_flight = 0;
	t->state = FEEDING;
	forget_copy(t);
	feed(log, t);
}

/* Move the tail back to where the copy is the same as the log.  It is to be durable before records are. */
static void cut(struct log *log, struct target *t)
{
	t->posted = replicas_common(t->copy, log->image);
	if (t->copy->tail.records > t->posted.records) {
		__u64 tail;

		say(t, "records from %u on are not those of the log", t->posted.records);
		memcpy(&tail, &t->posted, sizeof(tail));
		t->state = CUTTING;
		store(log, t, offsetof(struct log_header, tail), tail);
		return;
	}
	start_feeding(log, t);
}

/* What the target was at is done: to what comes next. */
static void advance(struct log *log, struct target *t)
{
	const struct log_header *header = t->copy;

	switch (t->state) {
	case READING_HEADER:
		t->copied = 0;
		if (header->magic != LOG_MAGIC || !header->epoch || !header->tail.bytes ||
		    header->tail.bytes > log->capacity - LOG_RECORDS) {
			judge(log, t);
			break;
		}
		t->state = READING_RECORDS;
		read_records(log, t);
		break;
	case READING_RECORDS:
		if (t->copied < header->tail.bytes)
			read_records(log, t);
		else
			judge(log, t);
		break;
	case WAITING:
		if (t->claimed) {
			if (log->claimed)
				cut(log, t);
			break;
		}
		if (!t->unfit) {
			t->state = CLAIMING;
			store(log, t, offsetof(struct log_header, claim), log->image->claim);
		} else if (header->magic == LOG_MAGIC) {
			t->state = ERASING;
			store(log, t, offsetof(struct log_header, magic), 0);
		} else {
			t->state = MAKING;
			make_empty(log, t);
		}
		break;
	case ERASING:
		t->state = MAKING;
		make_empty(log, t);
		break;
	case MAKING:
		t->copy->tail = (struct log_tail){ };
		t->state = CLAIMING;
		store(log, t, offsetof(struct log_header, claim), log->image->claim);
		break;
	case CLAIMING:
		claim_stands(log, t);
		break;
	case CUTTING:
		start_feeding(log, t);
		break;
	case FEEDING:
		/* The only thing beside appends. */
		t->in_line = true;
		say(t, "in line with %u records", t->durable);
		break;
	default:
		errx(1, "target %u: a completion in state %d", t->number, t->state);
	}
}

/*
 * What comes
 */

static void greet(struct log *log, struct target *t, const struct rdma_conn_param *got)
{
	log_learn_region(&t->connection, got, t->address);
	log->capacity = MIN(log->capacity, t->connection.region.size);
	if (log->chosen && LOG_RECORDS + (size_t)log->image->tail.bytes > log->capacity)
		errx(1, "%s has no room for the log", t->address);
	t->claimed = false;
	t->epoch_posted = false;
	t->state = READING_HEADER;
	post_read(log, t, 0, sizeof(struct log_header));
}

static void handle_event(struct log *log)
{
	struct rdma_conn_param param = log_conn_param, got = { };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	char data[256];
	struct target *t;

	if (rdma_get_cm_event(log->channel, &event))
		err(1, "rdma_get_cm_event");
	/* It has to be given back before its id can go. */
	t = event->id->context;
	type = event->event;
	if (type == RDMA_CM_EVENT_ESTABLISHED) {
		got = event->param.conn;
		memcpy(data, got.private_data, MIN(got.private_data_len, sizeof(data)));
		got.private_data = data;
	}
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(t->connection.id, ATTEMPT_MS))
			hang_up(t);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		use_device(log, t);
		if (rdma_connect(t->connection.id, &param))
			hang_up(t);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		greet(log, t, &got);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		lose(log, t, "it has closed the connection");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		lose(log, t, rdma_event_str(type));
	}
}

static void handle_completion(struct log *log, struct target *t, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		lose(log, t, ibv_wc_status_str(wc->status));
	} else if (wc->wr_id == OTHER) {
		advance(log, t);
	} else {
		t->durable = wc->wr_id;
		t->in_flight--;
	}
	if (t->state == FEEDING)
		feed(log, t);
}

static void handle_completions(struct log *log, struct target *t)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(t->connection.id->send_cq_channel, &cq, &context))
		err(1, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		errx(1, "ibv_req_notify_cq");
	/* The queue goes with the connection. */
	while (t->connection.qp && ibv_poll_cq(t->connection.id->send_cq, 1, &wc) == 1)
		handle_completion(log, t, &wc);
}

/* Wait until something comes, or a target's time is up. */
static void wait_for_news(struct log *log)
{
	struct pollfd fds[REPLICAS_MAX + 1] = { { .fd = log->channel->fd, .events = POLLIN } };
	long now = now_ms(), timeout = 1000;

	for (unsigned int i = 0; i < log->n; i++) {
		struct target *t = &log->targets[i];

		fds[i + 1].fd = t->connection.qp ? t->connection.id->send_cq_channel->fd : -1;
		fds[i + 1].events = POLLIN;
		if (t->state == AWAY || t->state == CONNECTING)
			timeout = MAX(0, MIN(timeout, t->due - now));
	}
	if (poll(fds, log->n + 1, timeout) < 0 && errno != EINTR)
		err(1, "poll");
	for (unsigned int i = 0; i < log->n; i++)
		if (fds[i + 1].revents && log->targets[i].connection.qp)
			handle_completions(log, &log->targets[i]);
	if (fds[0].revents)
		handle_event(log);
}

/* It has lasted too long.  Say what each target is at, so that the user can find the reason. */
__attribute__((noreturn))
static void give_up(const struct log *log)
{
	static const char *const at[] = {
		[AWAY] = "cannot be reached",
		[CONNECTING] = "does not answer",
		[WAITING] = "waits for others",
		[READING_HEADER] = "its header is read",
		[READING_RECORDS] = "its records are read",
		[ERASING] = "its copy is erased",
		[MAKING] = "a log is made",
		[CLAIMING] = "it is claimed",
		[CUTTING] = "its tail is moved back",
		[FEEDING] = "it gets what it lacks",
	};
	unsigned int present = count_present(log);

	for (unsigned int i = 0; i < log->n; i++)
		say(&log->targets[i], "%s", at[log->targets[i].state]);
	if (!log->recovered && present >= replicas_majority(log->n))
		errx(1, "not recovered in %ld s: %u of %u targets are there", log->patience / 1000, present, log->n);
	errx(1, "no majority for %ld s: %u of %u targets; %u records are acknowledged", log->patience / 1000,
	     present, log->n, log->acknowledged);
}

static void call_those_away(struct log *log)
{
	long now = now_ms();

	for (unsigned int i = 0; i < log->n; i++) {
		struct target *t = &log->targets[i];

		if (t->state == CONNECTING && now >= t->due)
			hang_up(t);
		else if (t->state == AWAY && now >= t->due)
			call(log, t);
	}
	if (!log->chosen && enough_known(log)) {
		choose(log);
		wake(log);
	}
	if (log->recovered && count_present(log) >= replicas_majority(log->n))
		log->since = now;
	if (now - log->since > log->patience)
		give_up(log);
}

/*
 * Appends
 */

/* Hand out what is acknowledged. */
static void sink(struct log *log, __u32 acknowledged)
{
	while (log->acknowledged < acknowledged) {
		const struct log_record *record = replicas_record(log->image, log->sunk_bytes);

		fwrite(record->data, record->length, 1, log->sink);
		log->sunk_bytes += log_record_size(record->length);
		log->acknowledged++;
		if (log->recovered && (log->acknowledged - log->found) % log->step == 0)
			printf("%u of %u records acknowledged\n", log->acknowledged, log->goal);
	}
	/* It has to be in the file even if this program is killed. */
	if (fflush(log->sink))
		err(1, "what was acknowledged cannot be written");
}

static void acknowledge(struct log *log)
{
	__u32 durable[REPLICAS_MAX] = { };

	for (unsigned int i = 0; i < log->n; i++)
		if (log->targets[i].in_line)
			durable[i] = log->targets[i].durable;
	sink(log, replicas_acknowledged(durable, log->n));
}

/* A majority is in line: what was found is acknowledged, and appends may begin. */
static void end_recovery(struct log *log)
{
	char *line = NULL;
	size_t size = 0;

	sink(log, log->found);
	log->recovered = true;
	log->begun = now_ms();
	log->goal = log->found + log->records;
	for (__u32 i = 0; i < log->found; i++)
		if (getline(&line, &size, log->text) < 0)
			errx(1, "the log holds more records than the text has lines");
	free(line);
	printf("recovered %u records, as initiator %llu; appending %u to %u targets\n", log->found,
	       (unsigned long long)log->image->epoch, log->records, log->n);
}

static void append(struct log *log)
{
	struct log_tail *tail = &log->image->tail;
	static size_t line_size;
	static char *line;
	ssize_t length = getline(&line, &line_size, log->text);

	if (length < 0)
		errx(1, "the text has only %u lines", tail->records);
	if (length > LOG_MAX_DATA)
		errx(1, "line %u is too long: %zd bytes", tail->records + 1, length);
	if (LOG_RECORDS + (size_t)tail->bytes + log_record_size(length) > log->capacity)
		errx(1, "the log is full");
	log_record_make((void *)replicas_record(log->image, tail->bytes), tail->records, line, length);
	tail->bytes += log_record_size(length);
	tail->records++;
	for (unsigned int i = 0; i < log->n; i++)
		feed(log, &log->targets[i]);
}

/* Has each target that is present all of it? */
static bool all_have(const struct log *log)
{
	for (unsigned int i = 0; i < log->n; i++) {
		const struct target *t = &log->targets[i];

		if (t->state > CONNECTING && !(t->in_line && t->durable == log->goal))
			return false;
	}
	return true;
}

static void run(struct log *log)
{
	while (!log->recovered || log->acknowledged < log->goal || !all_have(log)) {
		call_those_away(log);
		wait_for_news(log);
		if (!log->recovered && count_in_line(log) >= replicas_majority(log->n))
			end_recovery(log);
		if (!log->recovered)
			continue;
		acknowledge(log);
		if (log->acknowledged == log->goal && !log->done)
			log->done = now_ms();
		while (log->image->tail.records < log->goal &&
		       log->image->tail.records - log->acknowledged < MAX_APPENDS)
			append(log);
	}
}

static void leave(struct log *log)
{
	for (unsigned int i = 0; i < log->n; i++) {
		if (log->targets[i].state > CONNECTING)
			rdma_disconnect(log->targets[i].connection.id);
		hang_up(&log->targets[i]);
	}
	if (log->pd) {
		ibv_dereg_mr(log->image_mr);
		ibv_dealloc_pd(log->pd);
	}
	rdma_destroy_event_channel(log->channel);
}

static void set_up(struct log *log, const struct replicas_job *job)
{
	log->capacity = LOG_CAPACITY;
	log->image = mmap(NULL, LOG_CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (log->image == MAP_FAILED)
		err(1, "mmap");
	log->channel = rdma_create_event_channel();
	if (!log->channel)
		err(1, "rdma_create_event_channel");
	log->text = fopen(job->text, "r");
	if (!log->text)
		err(1, "%s", job->text);
	log->sink = fopen(job->acknowledged, "w");
	if (!log->sink)
		err(1, "%s", job->acknowledged);
	log->records = job->records;
	log->step = MAX(job->step, 1u);
	log->since = now_ms();
	log->patience = job->patience_ms;
	log->n = job->targets;
	for (unsigned int i = 0; i < log->n; i++) {
		log->targets[i].address = job->addresses[i];
		log->targets[i].number = i + 1;
	}
}

void replicas_append(const struct replicas_job *job)
{
	static struct log log;

	setlinebuf(stdout);
	set_up(&log, job);
	run(&log);
	printf("%u records are acknowledged; %u were appended in %ld ms\n", log.acknowledged, log.records,
	       log.done - log.begun);
	leave(&log);
}
