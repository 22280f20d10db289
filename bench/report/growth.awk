# Lines of rows.awk to the tables of F13: one for each series, with how it grows.
BEGIN { FS = "\t" }
$1 != "F13" { next }
function column(what) {
  if (what in column_of) return column_of[what]
  header[++columns] = what
  return column_of[what] = columns
}
function shown(v) { return sprintf(v >= 100 || v == 0 ? "%.0f" : v >= 10 ? "%.1f" : v >= 1 ? "%.2f" : "%.3f", v) }
function put(size, what, text) {
  if (!(size in seen)) { seen[size] = 1; sizes[++rows] = size }
  cell[size, column(what)] = text
}
function flush(   r, c, line) {
  if (rows == 0) return
  printf "\n### %s\n\n", toupper(substr(name, 1, 1)) substr(name, 2)
  for (r = 1; r <= shapes; ++r) printf "%s%s", shape[r], r < shapes ? "; " : ".\n"
  line = "| |"
  for (c = 1; c <= columns; ++c) line = line " " header[c] " |"
  print "\n" line
  line = "|--:|"
  for (c = 1; c <= columns; ++c) line = line (header[c] == "" ? "---|" : "--:|")
  print line
  for (r = 1; r <= rows; ++r) {
    line = "| " grouped(sizes[r]) " |"
    for (c = 1; c <= columns; ++c) line = line " " cell[sizes[r], c] " |"
    print line
  }
  delete seen; delete sizes; delete cell; delete column_of; delete header; delete shape
  rows = columns = shapes = ended = 0
}
function grouped(n,   out) {
  for (; length(n) > 3; n = substr(n, 1, length(n) - 3)) out = "," substr(n, length(n) - 2) out
  return n out
}
# The shape comes behind all sizes of a series.
match($2, /: grows with the power \(/) {
  of = substr($2, 1, RSTART - 1)
  how = substr($2, RSTART + RLENGTH)
  sub(/\)$/, "", how)
  shape[++shapes] = (sub(/, by the clock$/, "", of) ? "by the clock " : "Grows with the power ") shown($3) ", " how
  name = of
  ended = 1
  next
}
{
  if (ended) flush()
  size = $2
  sub(/ .*/, "", size)
  rest = substr($2, length(size) + 2)
  if (sub(/: longest turn of the loop$/, "", rest)) put(size, "longest turn, ms", shown($3))
  else if (sub(/: longest script, in the best run$/, "", rest)) put(size, "longest script, ms", shown($3))
  else if (sub(/: by the clock$/, "", rest)) put(size, "by the clock, " $4, shown($3))
  else {
    put(size, $4, shown($3))
    if (match(rest, / \([^()]*\)$/)) put(size, "", substr(rest, RSTART + 2, RLENGTH - 3))
  }
}
END { flush() }
