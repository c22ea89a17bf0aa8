// SPDX-License-Identifier: GPL-2.0
/*
 * An MPI window in persistent memory: rank 0 puts records into memory of rank 1, which maps device DAX, and says of each
 * that MPI_Win_flush() has returned.  That makes none of them durable: MPI promises that a record is there, no more.
 *
 *	mpicc -o mpi-window mpi-window.c && mpirun -n 2 ./mpi-window
 */
#include <err.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define SIZE	(2ul << 20)
#define RECORDS	20

static void put(MPI_Win window)
{
	uint64_t record[8], n;
	int i;

	MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
	for (n = 1; n <= RECORDS; n++) {
		for (i = 0; i < 8; i++)
			record[i] = n;
		MPI_Put(record, 8, MPI_UINT64_T, 1, n * sizeof(record), 8, MPI_UINT64_T, window);
		MPI_Win_flush(1, window);
		printf("record %lu is flushed\n", n);
		fflush(stdout);
	}
	MPI_Win_unlock(1, window);
}

int main(int argc, char **argv)
{
	void *memory = NULL;
	MPI_Win window;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 1) {
		memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, open("/dev/dax0.0", O_RDWR), 0);
		if (memory == MAP_FAILED)
			err(1, "/dev/dax0.0");
	}
	MPI_Win_create(memory, memory ? SIZE : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	if (rank == 0)
		put(window);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
