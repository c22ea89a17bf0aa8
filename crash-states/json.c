// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "json.h"

static const char *path_of_file;
static FILE *file;		/* NULL: it is not wanted */
static bool has_findings, is_first;
static LIST(char *) hints, notes;

/* UTF-8 stays; what is none becomes "?", as no JSON may have it. */
static size_t utf8_length(const unsigned char *text)
{
	size_t n = *text < 0x80 ? 1 : *text >= 0xc2 && *text < 0xe0 ? 2 : *text >= 0xe0 && *text < 0xf0 ? 3 :
		   *text >= 0xf0 && *text < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void put_text(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', file);
	while (*at) {
		size_t n = utf8_length(at);

		if (*at == '"' || *at == '\\')
			fprintf(file, "\\%c", *at);
		else if (*at < ' ')
			fprintf(file, "\\u%04x", *at);
		else if (!n)
			fputc('?', file);
		else
			fwrite(at, 1, n, file);
		at += n ? n : 1;
	}
	fputc('"', file);
}

static void put_member(const char *name, const char *text)
{
	fprintf(file, ", \"%s\": ", name);
	put_text(text);
}

static void close_findings(void)
{
	if (has_findings)
		fputs("\n]", file);
	has_findings = false;
}

void json_begin(const char *path)
{
	file = fopen(path, "w");
	if (!file)
		fail_errno("--json %s", path);
	path_of_file = path;
	fputs("{\"format\": 1", file);
}

void json_run(const struct history *history, const char *run)
{
	if (!file)
		return;
	put_member("run", run);
	put_member("model", history->rules->name);
	fprintf(file, ",\n\"frames\": %u, \"connections\": %zu, \"requests\": %zu, \"words\": %u, \"lines_told\": %zu",
		history->capture->frames, history_qps(history),
		history->requests.n - history->capture->cpu.events.n, history->words,
		history->capture->told.n);
}

static void put_count(const char *name, struct count count)
{
	fprintf(file, ", \"%s\": {\"checked\": %zu, \"of\": %zu}", name, count.done, count.all);
}

void json_states(size_t checked, size_t failed, size_t crashed, size_t slow, uint64_t seed, const struct coverage *c)
{
	if (!file)
		return;
	close_findings();
	fprintf(file, ",\n\"seed\": %" PRIu64 ", \"states\": %zu, \"failed\": %zu, \"crashed\": %zu, \"too_slow\": %zu",
		seed, checked, failed, crashed, slow);
	fprintf(file, ",\n\"coverage\": {\"complete\": %s, \"weak\": %s, \"all\": %s, \"cuts\": %zu, \"shapes\": %zu, \"cuts_looked_at\": %zu",
		c->complete ? "true" : "false", c->weak ? "true" : "false", c->all ? "true" : "false", c->cuts, c->shapes, c->looked_at);
	fprintf(file, ", \"out_of_time\": %s", c->out_of_time ? "true" : "false");
	put_count("messages", c->messages);
	put_count("lines", c->lines);
	put_count("words", c->words);
	fprintf(file, ", \"by_chance\": %zu, \"views\": %zu}", c->by_chance, c->views);
	fputs(",\n\"findings\": [", file);
	has_findings = true;
	is_first = true;
}

static void put_words(const struct model *model, const struct state *state)
{
	const struct history *history = model->history;

	fputs(",\n  \"words\": [", file);
	for (size_t i = 0; i < state->held.n; i++) {
		const struct held *held = &state->held.v[i];

		fprintf(file, "%s{\"offset\": %" PRIu64 ", \"holds\": \"0x%016" PRIx64 "\", \"newest\": \"0x%016" PRIx64 "\"}",
			i ? ", " : "", history_offset(history, held->word),
			model_value(history, held->word, held->position),
			model_value(history, held->word, model_top(model, held->word)));
	}
	fputs("]", file);
}

/* Frames of the capture. */
static void put_frames(const struct explanation *e, const struct model *model)
{
	char *frames;
	size_t size;
	FILE *text = open_memstream(&frames, &size);

	explanation_frames(e, model, text);
	fclose(text);
	put_member("lost_frames", frames);
	free(frames);
}

void json_finding(const struct model *model, const struct explanation *e, size_t alike, const char *said,
		  const char *folder, const char *posted)
{
	if (!file)
		return;
	fprintf(file, "%s\n {\"id\": \"%s.%08x\", \"cut\": %u", is_first ? "" : ",",
		moment_text(model->history->capture, e->state.moment), (unsigned int)(e->state.hash >> 32),
		capture_frame(model->history->capture, e->state.moment));
	fprintf(file, ", \"alike\": %zu", alike);
	put_member("kind", culprit_name(e->cause.kind));
	put_member("why", e->why);
	put_member("checker", said);
	put_member("folder", folder);
	if (posted)
		put_member("posted_by", posted);
	put_frames(e, model);
	put_words(model, &e->state);
	fputs("}", file);
	is_first = false;
}

void json_recovery(void)
{
	if (!file)
		return;
	close_findings();
	fputs(",\n\"recovery_findings\": [", file);
	has_findings = true;
	is_first = true;
}

void json_recovery_finding(const char *kind, const char *why, const char *said, const char *folder, const char *posted)
{
	if (!file)
		return;
	fprintf(file, "%s\n {\"kind\": \"%s\"", is_first ? "" : ",", kind);
	put_member("why", why);
	put_member("checker", said);
	put_member("folder", folder);
	if (posted)
		put_member("stored_by", posted);
	fputs("}", file);
	is_first = false;
}

void json_recovery_end(const struct recovery_count *count)
{
	if (!file)
		return;
	close_findings();
	fprintf(file, ",\n\"recovery\": {\"states_passed\": %zu, \"states\": %zu, \"stores\": %zu, \"power_failures\": %zu, \"wrong\": %zu, \"out_of_time\": %s}",
		count->passed, count->traced, count->stores, count->tried, count->wrong, count->out_of_time ? "true" : "false");
}

void json_promises(size_t lines, size_t broken)
{
	if (!file)
		return;
	fprintf(file, ",\n\"promises\": %zu, \"promises_broken\": %zu,\n\"broken\": [", lines, broken);
	has_findings = true;
	is_first = true;
}

void json_promise(const struct told *line, const char *kind, const char *why, const char *posted)
{
	char *text;

	if (!file)
		return;
	text = xasprintf("%.*s", (int)line->length, line->text);
	fprintf(file, "%s\n {\"frame\": %u", is_first ? "" : ",", line->frame);
	put_member("line", text);
	put_member("kind", kind);
	put_member("why", why);
	if (posted)
		put_member("posted_by", posted);
	fputs("}", file);
	is_first = false;
	free(text);
}

void json_counts(unsigned int flushes, unsigned int answered, uint64_t not_covered)
{
	if (file)
		fprintf(file, ",\n\"flushes\": %u, \"flushes_answered\": %u, \"stores_not_covered\": %" PRIu64, flushes, answered,
			not_covered);
}

bool json_takes_hints(void)
{
	return file && hints.n < JSON_HINTS;
}

void json_hint(char *text)
{
	*list_add(&hints) = text;
}

void note(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		fail("no memory");
	va_end(args);
	printf("note: %s\n", text);
	*list_add(&notes) = text;
}

static void put_texts(const char *name, char **text, size_t n)
{
	fprintf(file, ",\n\"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ",\n " : "", file);
		put_text(text[i]);
	}
	fputs("]", file);
}

void json_end(int status)
{
	FILE *ended = file;

	if (!file)
		return;
	close_findings();
	put_texts("hints", hints.v, hints.n);
	put_texts("notes", notes.v, notes.n);
	fprintf(file, ",\n\"status\": %d}\n", status);
	file = NULL;
	if (fclose(ended))
		fail_errno("%s", path_of_file);
}

void json_error(const char *error)
{
	if (!file)
		return;
	close_findings();
	put_member("error", error);
	json_end(STATUS_ERROR);
}
