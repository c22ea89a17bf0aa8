/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the cases of rxe_conformance are written with: the harness, and a line of documentation
 * for each.
 */
#ifndef RXE_CASES_H
#define RXE_CASES_H

#include <endian.h>
#include <err.h>
#include <kselftest_harness.h>

#include "rxe_peer.h"
#include "rxe_end.h"

/* The FETH: a placement, or both of them, and REGION if it is not a range. */
#define GLOBAL		ROCE_FETH_PLT_GLOBAL
#define PERSISTENT	ROCE_FETH_PLT_PERSISTENT
#define REGION		ROCE_FETH_SEL_MR

/*
 * Each case is a test of a fixture, multiplied by the fixture's rows if it has any.  Tests and rows
 * say what they prove and which rule of the protocol demands it; `rxe_conformance --list`
 * prints that.  The number before a rule tells where it belongs: 1 wire format, 2 user API, 3
 * order, credits and completion, 4 duplicates and retransmission, 5 rights, ranges and answers to
 * bad requests.
 */
struct case_doc {
	const char *name;	/* FIXTURE.TEST or FIXTURE.ROW */
	const char *rule;
	const char *proves;
};

/* The linker's names for the ends of all documentation; weak, for a program without cases. */
extern const struct case_doc *const __start_case_docs[] __attribute__((weak));
extern const struct case_doc *const __stop_case_docs[] __attribute__((weak));

#define CASE_DOC(fixture, part, rule_, proves_)						\
	static const struct case_doc doc_##fixture##_##part = {				\
		.name = #fixture "." #part, .rule = rule_, .proves = proves_,		\
	};										\
	static const struct case_doc *const doc_ptr_##fixture##_##part			\
		__attribute__((used, section("case_docs"))) = &doc_##fixture##_##part

#define CASE(fixture, test, rule, proves)						\
	CASE_DOC(fixture, test, rule, proves);						\
	TEST_F(fixture, test)

#define ROW(fixture, row, rule, proves)							\
	CASE_DOC(fixture, row, rule, proves);						\
	FIXTURE_VARIANT_ADD(fixture, row)

/* The harness defines the head of its list of fixtures in every file: let it be one for all. */
#pragma weak _fixture_global

/* The harness was another one before it had this. */
#ifdef FIXTURE_TEARDOWN_PARENT
#define EXIT_SKIPPED	KSFT_SKIP
#define HAS_PASSED()	__test_passed(_metadata)
#else
#define EXIT_SKIPPED	255
#define HAS_PASSED()	(_metadata->passed)
#endif

/* Until 6.12, when it had no is_signed_var() yet, it defined these in every file, too. */
#ifndef is_signed_var
#pragma weak __active_test
#pragma weak __run_test
#pragma weak __wait_for_test
#endif

/* A SKIP within the harness' setup would let the test run. */
#define SKIP_CASE(reason)	SKIP(_exit(EXIT_SKIPPED), reason)

/*
 * For what the series for Linux 6.1 does and no standard asks for. Its counters tell whether it is
 * there; other kernels are right without it.
 */
#define NEED_SERIES(reason)									\
	do {											\
		if (!rxe_has_counter("flush_sent"))						\
			SKIP_CASE(reason);							\
	} while (0)
#define NEED_COUNTERS()		NEED_SERIES("this kernel does not count FLUSH and ATOMIC WRITE")
#define NEED_SAVED_ACKS()	NEED_SERIES("this kernel asks for an ACK of each WRITE")
#define NEED_OUR_ANSWER()	\
	NEED_SERIES("the standard leaves it open, and this kernel answers otherwise")

/* What the peer wants, to be compared with: */
const char *wanted_words(const struct packet *want, char words[WORDS_LEN]);

/* what it got. */
const char *words_or_nothing(const struct frame *frame, bool got, char words[WORDS_LEN]);

/*
 * The next frame from the kernel is @want, every byte of it, with this ICRC; a credit count may be
 * anything.
 */
void expect_packet_with(struct __test_metadata *_metadata, const struct packet *want,
			enum icrc icrc);

void expect_packet(struct __test_metadata *_metadata, const struct packet *want);

/* Damage that makes a receiver ignore any packet. */

void spoil_icrc(struct frame *frame);
void spoil_source(struct frame *frame);
void spoil_pkey(struct frame *frame);
void spoil_version(struct frame *frame);

#endif /* RXE_CASES_H */
