/* SPDX-License-Identifier: GPL-2.0 */
/* Draws what the power took, by the program `ladder`. */
#ifndef DRAW_H
#define DRAW_H

/* The folder of `ladder`, which qemu-scripts/crash-states names; or NULL: nothing is drawn. */
const char *tools_folder(void);

/*
 * Put the ladder of a state that is kept in @folder there, and print its end.  The power fails after @frame of @recorded, which
 * is a run, or a capture.  What cannot be drawn is no error: the other files are complete.
 */
void draw(const char *folder, unsigned int frame, const char *recorded);

#endif /* DRAW_H */
