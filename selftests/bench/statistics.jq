# SPDX-License-Identifier: GPL-2.0
#
# Statistics that assume nothing of how samples are distributed, but that they are independent: each round of the
# benchmark gives one.  A figure is {value, low, high}; low and high are a confidence interval of 95 % or more, and
# null if there are too few samples for one.

def median: sort | length as $n | if $n == 0 then null else (.[($n - 1) / 2 | floor] + .[$n / 2 | floor]) / 2 end;
def mean: add / length;

# The chance that of $n samples $m are above the quantile $p.
def chance_above($m; $n; $p):
	(1 + $n | lgamma) - (1 + $m | lgamma) - (1 + $n - $m | lgamma) + $m * (1 - $p | log) + ($n - $m) * ($p | log) | exp;

# Which of $n sorted samples, counted from 1, are the interval of the quantile $p: [low, high], or null where there is none.
# Each end is missed with a chance of $miss at most.
def ranks($n; $p; $miss):
	first(foreach range($n + 1) as $m ({chance: 0, high: null};
		.chance += chance_above($m; $n; $p) | if .chance <= $miss then .high = $n - $m else . end;
		select(.chance >= 1 - $miss) | [$n - $m, .high] | select(all(. != null and . > 0)))) // null;
def ranks($n; $p): ranks($n; $p; 0.025);

def figure($miss):
	sort as $sorted | ranks(length; 0.5; $miss) as $ranks |
	{value: median} + if $ranks then {low: $sorted[$ranks[0] - 1], high: $sorted[$ranks[1] - 1]} else {low: null, high: null} end;
def figure: figure(0.025);

# {name: samples} to {name: figure}: so wide that all intervals hold together with 95 %, by Bonferroni's inequality
def figures_together: (0.025 / ([length, 1] | max)) as $miss | map_values(figure($miss));

# null if the samples do not carry it: where its interval has no end, the value would be any of the largest.
def quantile($p):
	sort as $sorted | ranks(length; $p) as $ranks |
	if $ranks then $sorted[(length * $p | ceil) - 1] else null end;

# [[x, ...], [y, ...]]: how many times x is y, in each round by itself, so that what slows down a whole round drops out
def quotients: transpose | map(select(all(. != null) and .[1] != 0) | .[0] / .[1]);
def ratio: quotients | figure;

# [{trips, requests, delay, time}, ...]: the model time = trips * (trip + 2 * delay) + requests * request that has
# the least squares of relative errors: an error of 1 % counts the same at every delay.
def fit:
	map((1 / (.time * .time)) as $weight | (.time - 2 * .delay * .trips) as $rest |
		[.trips * .trips, .trips * .requests, .requests * .requests, .trips * $rest, .requests * $rest] |
		map(. * $weight)) |
	transpose | map(add) as [$tt, $tr, $rr, $ty, $ry] |
	($tt * $rr - $tr * $tr) as $det |
	{trip: (($ty * $rr - $ry * $tr) / $det), request: (($ry * $tt - $ty * $tr) / $det)};
def modelled($model): .trips * ($model.trip + 2 * .delay) + .requests * $model.request;

# --- How a figure is shown: no digit is finer than the interval is wide; its ends have one digit more, rounded outwards

def decimals($n):
	(. * pow(10; $n) | round) as $digits |
	($digits | fabs | tostring | if length <= $n then "0" * ($n + 1 - length) + . else . end) as $text |
	(if $digits < 0 then "-" else "" end) +
	if $n == 0 then $text else $text[:-$n] + "." + $text[-$n:] end;
def place: log10 | floor;
# A number to the place 10^$place, by round, floor or ceil
def to_place($place; way): (. / pow(10; $place) | way) * pow(10; $place) | decimals([-$place, 0] | max);
# 1.30000000001 is 1.3
def nearly(way): . * 1e9 | round / 1e9 | way;

# Without an interval: two digits, after a ~.  With one: what is shown lies within it, if need be by a digit more.
def shown_value:
	if .value == null then "-"
	elif .low == null then "~" + (.value | if . == 0 then "0" else to_place((fabs | place) - 1; round) end)
	elif .low == .high then .value | if . == floor then tostring else decimals(2) end
	else (.high - .low | place) as $place | first(range($place; $place - 9; -1) as $place | . as $figure |
		.value | to_place($place; round) | select(tonumber | . >= $figure.low and . <= $figure.high)) end;
def shown_interval:
	if .low == null then ""
	elif .low == .high then "[\(shown_value), \(shown_value)]"
	else (.high - .low | place - 1) as $place |
		"[\(.low | to_place($place; nearly(floor))), \(.high | to_place($place; nearly(ceil)))]" end;
def shown: shown_value + (shown_interval | if . == "" then . else " " + . end);
