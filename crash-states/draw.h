/* SPDX-License-Identifier: GPL-2.0 */
/* What other tools know of a run: `ladder` draws what the power took, `source-lines` names lines of the program. */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The folder of the tools, which qemu-scripts/crash-states names; or NULL: nothing is drawn. */
const char *tools_folder(void);

/*
 * Put the ladder of a state that is kept in @folder there, and print its end.  The power fails after @frame of @recorded, which
 * is a run, or a capture.  What cannot be drawn is no error: the other files are complete.
 */
void draw(const char *folder, unsigned int frame, const char *recorded);

/* The end of that as a picture, in which the frames @lost are; false if it cannot be drawn. */
bool draw_picture(unsigned int frame, const char *lost, const char *recorded, FILE *to);

/* "my-log.c:156 append()", the line that has posted the request to the target's QP in the run @folder; NULL: not known. */
const char *source_line(const char *folder, uint32_t qpn, uint32_t psn);

/* The same of addresses, "PROGRAM+OFFSET" each, with NULL at the end: the first that is known. */
char *source_line_at(char *const *sites);

#endif /* DRAW_H */
