// SPDX-License-Identifier: GPL-2.0
#include <stddef.h>
#include <string.h>

#include "rules.h"

#define OF_CONSUMER	"/visible"

const struct rules all_rules[] = {
	{ .name = "spec", .flushes = "persistent FLUSHes" },
	{ .name = "strict", .flushes = "persistent FLUSHes", .strict = true },
	{ .name = "ordered", .flushes = "persistent FLUSHes", .in_order = true },
	{ .name = "adr-read", .flushes = "persistent FLUSHes and READs of persistent memory", .read = true },
	{ .name = "eadr", .flushes = "FLUSHes and READs of persistent memory", .read = true, .global = true },
	{ }
};

struct rules *rules_of_consumer(const struct rules *rules)
{
	struct rules *visible = xcalloc(1, sizeof(*visible));

	*visible = *rules;
	visible->name = xasprintf("%s%s", rules->name, OF_CONSUMER);
	visible->flushes = rules->read ? "FLUSHes for global visibility and READs of persistent memory" : "FLUSHes for global visibility";
	visible->visible = true;
	visible->global = true;	/* what the CPU stores */
	return visible;
}

const struct rules *rules_find(const char *name)
{
	size_t length = strcspn(name, "/");

	for (const struct rules *rules = all_rules; rules->name; rules++) {
		if (strncmp(rules->name, name, length) || rules->name[length])
			continue;
		return !name[length] ? rules : strcmp(name + length, OF_CONSUMER) ? NULL : rules_of_consumer(rules);
	}
	return NULL;
}
