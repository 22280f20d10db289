# results.json to lines of FIGURE CASE VALUE UNIT FLOOR RATIO PEER AGAINST, with tabs between; null is empty.
# One object a line, keys in this order: as bench/support/report.cpp writes them.
match($0, /^\{"figure": ".*"\},?$/) {
  line = $0
  sub(/^\{"figure": "/, "", line)
  sub(/"\},?$/, "", line)
  sub(/", "case": "/, "\t", line)
  sub(/", "value": /, "\t", line)
  sub(/, "unit": "/, "\t", line)
  sub(/", "floor": /, "\t", line)
  sub(/, "ratio": /, "\t", line)
  sub(/, "peer": "/, "\t", line)
  sub(/", "against": "/, "\t", line)
  while (sub(/\tnull\t/, "\t\t", line)) {}
  print line
}
