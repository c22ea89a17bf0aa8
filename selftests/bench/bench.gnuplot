# SPDX-License-Identifier: GPL-2.0
#
# The plots of bench.sh, each as SVG and as PNG, from its *.dat.  Times are ratios, because an emulator's time is not
# real time.  Points are medians, with intervals of 95 %.  No plot needs its colours: methods differ in the shape of
# their points and in the dashes of their lines.  bench.sh sets:
#	kernels	their names, in the order of the files
#	note	for every title
#	cpu	the unit of CPU
#	a, b	of the model

# A line of a file: label, x, value, low, high.  Blocks are named by their label.
methods = "a p b c d e"
array title[6] = ["a: daemon, sleeping", "p: daemon, polling", "b: WRITE, READ, twice", \
	"c: FLUSH, step by step", "d: FLUSH, all at once", "e: d, five in flight"]
array colour[6] = ["#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#0072b2", "#009e73"]
array shape[6] = [5, 4, 7, 6, 9, 11]
array dash[6] = [1, 2, 4, 5, 1, 3]

# Intervals of two methods shall not hide each other.  On a logarithmic axis
beside(x, method) = x * 1.03 ** (method - 3)

# The model, in us, for a delay in ms
model(trips, requests, delay) = trips * (a + 2000 * delay) + requests * b

heading(text) = note eq "" ? text : text . "\n" . note
name(kernel) = "Linux " . word(kernels, kernel)
file(what, kernel) = sprintf("%s.%d.dat", what, kernel - 1)

set grid ytics linecolor "#cccccc"
set border 3
set tics nomirror
set datafile separator "\t"
set datafile missing "-"
set key tmargin center horizontal maxcols 3
set bars 0.7

do for [type in "svg png"] {
	if (type eq "svg") {
		set terminal svg noenhanced size 900,600 font "sans,15" background "white"
	} else {
		set terminal pngcairo noenhanced size 900,600 font "sans,12" background "white"
	}

	unset logscale
	set yrange [0:*]
	set logscale x 4
	set xlabel "bytes of a record"
	set ylabel "times that of d"
	set xrange [48:90000]
	set xtics (64, 256, "1 Ki" 1024, "4 Ki" 4096, "16 Ki" 16384, "64 Ki" 65536)

	# Five of e overlap.
	set output "append-latency." . type
	set title heading("Durable remote append: typical latency, d = 1")
	plot for [m = 1:5] "append.t_typical.dat" index word(methods, m) using (beside($2, m)):3:4:5 with yerrorlines \
		title title[m] linecolor rgb colour[m] pointtype shape[m] dashtype dash[m] linewidth 1.5

	set output "append-throughput." . type
	set title heading("Durable remote append: time for each append, d = 1")
	plot for [m = 1:6] "append.time.dat" index word(methods, m) using (beside($2, m)):3:4:5 with yerrorlines \
		title title[m] linecolor rgb colour[m] pointtype shape[m] dashtype dash[m] linewidth 1.5

	set output "append-cpu." . type
	set title heading("Durable remote append: CPU of client and target together, d = 1")
	# A daemon that polls takes all of a CPU, however many appends there are.
	plot for [m in "1 3 4 5 6"] "append.cpu.dat" index word(methods, int(m)) using (beside($2, int(m))):3:4:5 with yerrorlines \
		title title[int(m)] linecolor rgb colour[int(m)] pointtype shape[int(m)] dashtype dash[int(m)] linewidth 1.5

	unset logscale
	set xtics auto

	set output "delay." . type
	set title heading("The longer the link: typical latency, d = 1; lines are the model, points measured")
	set xlabel "one-way delay of the link, ms"
	set xrange [-0.1:5.4]
	set yrange [0:*]
	plot for [m = 1:5] "delay.dat" index word(methods, m) using ($2 + 0.03 * (m - 3)):3:4:5 with yerrorbars \
		title title[m] linecolor rgb colour[m] pointtype shape[m] linewidth 1.5, \
		model(2, 4, x) / model(1, 4, x) with lines title "model of b" linecolor rgb colour[3] dashtype dash[3], \
		model(4, 4, x) / model(1, 4, x) with lines title "model of c" linecolor rgb colour[4] dashtype dash[4]

	set output "busy." . type
	set title heading("The busier the target: typical latency, d = 1")
	set xlabel "busy programs for each CPU of the target"
	set xrange [-0.1:4.3]
	set xtics (0, 1, 2, 4)
	set yrange [*:*]
	set logscale y
	plot for [m = 1:5] "busy.dat" index word(methods, m) using ($2 + 0.03 * (m - 3)):3:4:5 with yerrorlines \
		title title[m] linecolor rgb colour[m] pointtype shape[m] dashtype dash[m] linewidth 1.5
	unset logscale

	set output "clients." . type
	set title heading("Many clients at one target: time for each append, d = 1")
	set xlabel "clients"
	set logscale x 2
	set xrange [0.8:20]
	set xtics (1, 4, 16)
	set yrange [0:*]
	plot for [m = 1:5] "clients.dat" index word(methods, m) using (beside($2, m)):3:4:5 with yerrorlines \
		title title[m] linecolor rgb colour[m] pointtype shape[m] dashtype dash[m] linewidth 1.5
	unset logscale
	set xtics auto

	unset xlabel
	set ylabel "times that of READ"
	set xrange [-0.5:3.5]
	set xtics ("WRITE" 0, "READ" 1, "FLUSH" 2, "ATOMIC WRITE" 3)
	set output "requests-latency." . type
	set title heading("One request of 8 bytes at a time: typical latency, READ = 1")
	plot for [k = 1:words(kernels)] file("latency", k) using ($2 + 0.1 * (k - 1)):3:4:5 with yerrorbars title name(k) \
		linecolor rgb colour[6 - k] pointtype shape[k] linewidth 1.5

	set output "requests-rate." . type
	set title heading("Requests of 8 bytes, many at once: time for each, READ = 1")
	plot for [k = 1:words(kernels)] file("rate", k) using ($2 + 0.1 * (k - 1)):3:4:5 with yerrorbars title name(k) \
		linecolor rgb colour[6 - k] pointtype shape[k] linewidth 1.5
	set xtics auto

	set logscale xy
	set xrange [1:2048]
	set xtics (2, 8, 32, 128, 512, 1024)
	set xlabel "MiB of the region"
	set output "flush-region." . type
	set title heading("FLUSH of a whole region: typical latency, smallest region = 1")
	set ylabel "times that of the smallest"
	set yrange [0.1:*]
	plot for [k = 1:words(kernels)] file("region", k) using 2:3:4:5 with yerrorlines title name(k) \
		linecolor rgb colour[6 - k] pointtype shape[k] dashtype dash[k] linewidth 1.5

	set output "flush-region-cpu." . type
	set title heading("FLUSH of a whole region: CPU of the target")
	set ylabel cpu
	set yrange [1000:*]
	# In a run of few rounds no figure may be positive: noise exceeds them.  Without the line gnuplot finds nothing to
	# plot, and fails.
	plot for [k = 1:words(kernels)] file("region-cpu", k) using 2:3:4:5 with yerrorlines title name(k) \
		linecolor rgb colour[6 - k] pointtype shape[k] dashtype dash[k] linewidth 1.5, \
		10000 notitle linecolor rgb "#cccccc"
}
