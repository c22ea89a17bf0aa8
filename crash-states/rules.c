// SPDX-License-Identifier: GPL-2.0
#include <stddef.h>
#include <string.h>

#include "rules.h"

const struct rules all_rules[] = {
	{ .name = "spec", .flushes = "persistent FLUSHes" },
	{ .name = "strict", .flushes = "persistent FLUSHes", .strict = true },
	{ .name = "ordered", .flushes = "persistent FLUSHes", .in_order = true },
	{ .name = "adr-read", .flushes = "persistent FLUSHes and READs of persistent memory", .read = true },
	{ .name = "eadr", .flushes = "FLUSHes and READs of persistent memory", .read = true, .global = true },
	{ }
};

const struct rules *rules_find(const char *name)
{
	for (const struct rules *rules = all_rules; rules->name; rules++)
		if (!strcmp(rules->name, name))
			return rules;
	return NULL;
}
