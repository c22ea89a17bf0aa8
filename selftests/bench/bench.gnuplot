# SPDX-License-Identifier: GPL-2.0
#
# The plots of bench.sh, each as SVG and as PNG, from its *.dat.  Times are ratios, because an
# emulator's time is not real time.  bench.sh sets:
#	kernels	their names, in the order of the columns
#	note	for every title
#	cpu	the unit of CPU

array method = ["a: WRITE, SEND; a daemon answers", "b: WRITE, READ; WRITE, READ", \
	"c: FLUSH, one step at a time", "d: FLUSH, all in one post", "e: d, five in flight"]
array colour = ["#d55e00", "#e69f00", "#56b4e9", "#0072b2", "#009e73"]

# append.dat: the size, then for each method (from 1) these.
typical = 1; per_second = 2; client = 3; target = 4
of(method, what) = column(2 + 4 * (method - 1) + what - 1)
d = 4

heading(text) = note eq "" ? text : text . "\n" . note
name(kernel) = "Linux " . word(kernels, kernel)

set grid ytics linecolor "#cccccc"
set border 3
set tics nomirror
set style fill solid
set boxwidth 0.9
# What failed is 0.
set datafile separator "\t"

do for [type in "svg png"] {
	if (type eq "svg") {
		set terminal svg noenhanced size 900,560 font "sans,15" background "white"
	} else {
		set terminal pngcairo noenhanced size 900,560 font "sans,12" background "white"
	}

	unset logscale
	set xrange [*:*]
	set style data histograms
	set style histogram clustered gap 1
	set key tmargin center horizontal maxcols 2
	set yrange [0:*]
	set xlabel "bytes of a record"
	set ylabel "times that of d"

	# Of e, five of them overlap.
	set output "append-latency." . type
	set title heading("Durable remote append: typical latency, d = 1")
	plot for [m = 1:d] "append.dat" using (of(m, typical) / of(d, typical)):xtic(1) \
		title method[m] linecolor rgb colour[m]

	set output "append-throughput." . type
	set title heading("Durable remote append: appends per second, d = 1")
	plot for [m = 1:5] "append.dat" using (of(m, per_second) / of(d, per_second)):xtic(1) \
		title method[m] linecolor rgb colour[m]

	set output "append-cpu." . type
	set title heading("Durable remote append: CPU of client and target together, d = 1")
	plot for [m = 1:5] "append.dat" using \
		((of(m, client) + of(m, target)) / (of(d, client) + of(d, target))):xtic(1) \
		title method[m] linecolor rgb colour[m]

	unset xlabel
	set ylabel "times that of READ"
	set output "requests-latency." . type
	set title heading("One request of 8 bytes at a time: typical latency, READ = 1")
	plot for [k = 1:words(kernels)] "latency.dat" using (column(1 + k)):xtic(1) title name(k) \
		linecolor rgb colour[5 - k]

	set output "requests-rate." . type
	set title heading("Requests of 8 bytes, many at once: requests per second, READ = 1")
	plot for [k = 1:words(kernels)] "rate.dat" using (column(1 + k)):xtic(1) title name(k) \
		linecolor rgb colour[5 - k]

	set style data linespoints
	set logscale xy
	set xrange [1:2048]
	set xlabel "MiB of the region"
	set output "flush-region." . type
	set title heading("FLUSH of a whole region: typical latency, smallest region = 1")
	set ylabel "times that of the smallest"
	set yrange [0.1:*]
	plot for [k = 1:words(kernels)] "region.dat" using 1:(column(1 + k)):xtic(1) title name(k) \
		linewidth 2 pointtype 7 linecolor rgb colour[5 - k]

	set output "flush-region-cpu." . type
	set title heading("FLUSH of a whole region: CPU of the target")
	set ylabel cpu
	set yrange [1000:*]
	plot for [k = 1:words(kernels)] "region-cpu.dat" using 1:(column(1 + k)):xtic(1) title name(k) \
		linewidth 2 pointtype 7 linecolor rgb colour[5 - k]
}
