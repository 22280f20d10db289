# Google Benchmark's JSON to rows of the table (stdout) and of results.json (appended to the file `json`): medians and
# quartiles of the repetitions.
function add(unit, value,   key) {
  key = name SUBSEP unit
  if (!(key in count)) keys[++key_count] = key
  values[key, ++count[key]] = value + 0
}
function quantile(key, share,   n, i, j, v, sorted, place, below) {
  n = count[key]
  for (i = 1; i <= n; ++i) {
    v = values[key, i]
    for (j = i; j > 1 && sorted[j - 1] > v; --j) sorted[j] = sorted[j - 1]
    sorted[j] = v
  }
  place = share * (n - 1)
  below = int(place)
  return sorted[below + 1] + (below + 1 < n ? (sorted[below + 2] - sorted[below + 1]) * (place - below) : 0)
}
function shown(v) { return sprintf(v >= 100 || v == 0 ? "%.0f" : v >= 10 ? "%.1f" : v >= 1 ? "%.2f" : "%.4f", v) }
/^  "benchmarks":/ { inside = 1 }
!inside || !/^      "/ { next }
{
  line = $0
  gsub(/^ *"|,$/, "", line)
  key = substr(line, 1, index(line, "\"") - 1)
  value = substr(line, index(line, "\":") + 3)
  gsub(/^"|"$/, "", value)
}
key == "name" { name = value; counters = skipped = 0; next }
key == "run_type" { skipped = value != "iteration" }
skipped { next }
key == "cpu_time" { cpu_time = value; next }
key == "time_unit" { add(value, cpu_time); counters = 1; next }
key == "bytes_per_second" { add("MB/s", value / 1e6); next }
key == "items_per_second" { add("items/s", value); next }
counters && value ~ /^[-+.0-9eE]+$/ { add(key, value) }
END {
  # They ran in random order.
  for (i = 2; i <= key_count; ++i) {
    for (j = i; j > 1 && keys[j - 1] > keys[j]; --j) { held = keys[j]; keys[j] = keys[j - 1]; keys[j - 1] = held }
  }
  for (k = 1; k <= key_count; ++k) {
    split(keys[k], part, SUBSEP)
    middle = quantile(keys[k], 0.5)
    printf "| %s | %s | %s … %s | %s |\n", part[1], shown(middle), shown(quantile(keys[k], 0.25)),
      shown(quantile(keys[k], 0.75)), part[2]
    printf "{\"figure\": \"micro\", \"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"floor\": null, \"ratio\": null, \"peer\": \"conch\", \"against\": \"\"}\n",
      part[1], middle, part[2] >>json
  }
}
