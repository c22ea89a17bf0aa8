/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A remote log with copies at several targets: the rules.  There is nothing of RDMA in here.
 *
 * A record is acknowledged when it is durable at a majority of the targets.  Two majorities have a
 * target in common; so each majority has a copy of each acknowledged record.
 *
 * One initiator writes at a time.  The user sees to that, because nothing here keeps out a second one, or one
 * that was believed dead (there is no fencing).
 *
 * Two words in each copy's header tell a new initiator which copy to trust:
 *
 *	claim	the number of the last initiator that has announced itself to this target
 *	epoch	the number of the last initiator that has brought this copy into line with its log
 *
 * A new initiator recovers so:
 *
 *	1. It reads the copies of a majority.  A copy counts if its epoch is not 0, and all that its tail
 *	   covers is whole by the checksums.
 *	2. Its own number is one more than any that it has seen.  It makes that the claim at a majority.
 *	3. Its log is the copy of the highest epoch; of those, the longest.
 *	4. It brings each target into line.  It moves the target's tail back to where the copy differs from
 *	   the log, writes what is missing, moves the tail on, and then makes its number the epoch, each
 *	   step durable before the next one takes effect.
 *	5. With a majority in line, all of its log is acknowledged, and it may append.
 *
 * Why does the log that it takes hold all that was acknowledged?
 *
 *	- Numbers only grow: an initiator that sets an epoch has its claim at a majority, where the next
 *	  one sees it.
 *	- A record that was acknowledged in epoch E is at a majority of targets, whose epoch is E or higher.
 *	  So each majority that is read later has one of them, and the highest epoch in it is E or higher.
 *	- If it is E, the longest copy of epoch E has the record: one of the copies that were read has it,
 *	  and all copies in line with one initiator are beginnings of the same log.
 *	- If it is higher, that copy was brought into line with the log of a later initiator, which has the
 *	  record by this same reasoning.
 *	- A repair that was cut short leaves the old epoch, and a beginning of the old copy or of the newer
 *	  log.  It removes no acknowledged record, because the tail moves back only to where the copy
 *	  differs from a log that has them all.  And if it makes the copy the longest of its epoch, the
 *	  copy is a beginning of that log.
 *
 * The longest copy alone would not do.  One initiator may have sent three records to one target and died;
 * the next, without that target, appends one that counts.  The longer copy is then the wrong one.
 *
 * A target whose memory was replaced, or is damaged, has forgotten what it answered for.  It does not count
 * until it is in line again: its epoch is 0.  A log can be made only when all targets are present and none
 * holds a record.
 */
#ifndef REMOTE_LOG_REPLICAS_H
#define REMOTE_LOG_REPLICAS_H

#include <stdbool.h>
#include <stddef.h>

#include "remote-log.h"

#define REPLICAS_MAX	7

/* How many of @targets are a majority. */
unsigned int replicas_majority(unsigned int targets);

/*
 * The next majority of @targets after @set (0: the first) that is made of the copies in @counting; 0 if there is
 * none.  Bit i of a set stands for copy i.
 */
unsigned int replicas_next_majority(unsigned int set, unsigned int counting, unsigned int targets);

/*
 * Why the copy that begins with @header, in memory of @size bytes, does not count; NULL if it does.
 * Looks at no more than its tail covers.
 */
const char *replicas_unfit(const struct log_header *header, size_t size);

/* Of @n copies (NULL: none) the one to go on with. */
const struct log_header *replicas_choose(const struct log_header *const copies[], unsigned int n);

/* How far a copy, whose records are whole, is the same as @log. */
struct log_tail replicas_common(const struct log_header *copy, const struct log_header *log);

/* How many records a majority has, where each of @targets targets has durable[] of them. */
__u32 replicas_acknowledged(const __u32 durable[], unsigned int targets);

/* Record at @offset of the records. */
static inline const struct log_record *replicas_record(const struct log_header *log, __u32 offset)
{
	return (const void *)((const char *)log + LOG_RECORDS + offset);
}

#endif /* REMOTE_LOG_REPLICAS_H */
