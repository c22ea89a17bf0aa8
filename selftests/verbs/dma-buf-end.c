// SPDX-License-Identifier: GPL-2.0
/*
 * Puts memory of a dma-buf in the place of a case's own, and registers it as such.  So what rxe_conformance and
 * fuzz prove of memory of a program they prove of that, too.  The linker puts these functions in the place of those
 * without __wrap_ (ld's --wrap).
 */
#include <err.h>
#include <sys/mman.h>

#include "dma-buf-memory.h"
#include "rxe_end.h"

/* A dma-buf MR can't have these; that of a case which needs them is no matter here. */
#define NEVER	(IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND)

void __real_rxe_open(struct rxe_end *end, bool pmem);
struct ibv_mr *__real_rxe_reg_mr(struct rxe_end *end, size_t offset, size_t len, unsigned int access);

static __u8 *memory;	/* of the dma-buf */
static int dmabuf = -1;

int dmabuf_of_end(void)
{
	return dmabuf;
}

void __wrap_rxe_open(struct rxe_end *end, bool pmem)
{
	__real_rxe_open(end, pmem);
	if (pmem)
		return;
	dmabuf = dmabuf_make(dmabuf_exporter(), MEMORY_LEN);
	memory = mmap(end->memory, MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, dmabuf, 0);
	if (memory == MAP_FAILED)
		err(1, "mapping the dma-buf of %s", dmabuf_exporter());
}

struct ibv_mr *__wrap_rxe_reg_mr(struct rxe_end *end, size_t offset, size_t len, unsigned int access)
{
	if (end->memory != memory)
		return __real_rxe_reg_mr(end, offset, len, access);
	return ibv_reg_dmabuf_mr(end->pd, offset, len, (uintptr_t)end->memory + offset, dmabuf, access & ~NEVER);
}
