# Reads two files of counts, the baseline first. Prints a table.
# Exit code 1 if a count is more than 3 % higher than the baseline's.
# Counts made with other tools say nothing about a change of this tree: they are only shown.
BEGIN { most = 3 }
FNR == 1 { file++ }
/^#/ || NF == 0 { next }
$1 == "tools" {
  side = $2
  sub(/^tools [a-z]+ /, "")
  tools[file, side] = $0
  next
}
file == 1 { before[$1, $2] = $3; order[++count] = $1 SUBSEP $2; next }
{ now[$1, $2] = $3; if (!(($1, $2) in before)) order[++count] = $1 SUBSEP $2 }
END {
  printf "%-26s %-7s %12s %12s %8s\n", "instructions for one", "of the", "baseline", "now", "change"
  for (i = 1; i <= count; ++i) {
    key = order[i]
    split(key, of, SUBSEP)
    if (!(key in now)) {
      printf "%-26s %-7s %12d %12s  NOT COUNTED\n", of[1], of[2], before[key], "-"
      missing++
    } else if (!(key in before)) {
      printf "%-26s %-7s %12s %12d  NEW\n", of[1], of[2], "-", now[key]
      missing++
    } else {
      change = 100 * (now[key] / before[key] - 1)
      other = tools[1, of[2]] != tools[2, of[2]]
      word = other ? "  other tools" : change > most ? "  MORE" : ""
      printf "%-26s %-7s %12d %12d %+7.1f%%%s\n", of[1], of[2], before[key], now[key], change, word
      if (!other) compared++
      if (!other && change > most) higher++
      if (!other && change < -most) lower++
    }
  }
  for (i = 1; i <= 2; ++i) {
    side = i == 1 ? "client" : "server"
    if (tools[1, side] == tools[2, side]) continue
    printf "\nThe counts of the %s were not compared: the baseline was made with other tools.\n", side
    printf "  baseline: %s\n  here:     %s\n", tools[1, side], tools[2, side]
    again = 1
  }
  if (again) {
    print "To compare a change here, count before and after it:"
    print "  scripts/counts --update        in a clone without the change; then copy its " name " here, and"
    print "  scripts/counts                 here."
    print "Record a new baseline in a commit of its own, when the tools that .ci/run uses change."
  }
  if (higher) {
    printf "\n%d of %d counts are more than %d %% above %s.\n", higher, compared, most, name
    print "Find what costs it (scripts/counts --keep FOLDER, then callgrind_annotate), or record it"
    print "(scripts/counts --update) and say in that commit why it is worth it."
  }
  if (missing) print "\nThe baseline does not have the same counts: scripts/counts --update records them."
  if (lower) printf "\n%d counts are more than %d %% lower: scripts/counts --update keeps them there.\n", lower, most
  if (!higher && !missing) printf "\n%d counts compared, none more than %d %% higher.\n", compared, most
  exit higher || missing ? 1 : 0
}
