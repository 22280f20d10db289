# The table that bench_peers prints, a line for each measurement, to one with a column for each library.
BEGIN { FS = " *\\| *" }
NF < 11 || $2 == "figure" || $2 ~ /^-+$/ { next }
{
  row = $2 " " $3 ", " $7
  if (!(row in seen)) rows[++row_count] = row
  seen[row] = 1
  if (!($4 in known)) libraries[++library_count] = $4
  known[$4] = 1
  cell[row, $4] = $5 ($6 == "" ? "" : "<br>" $6)
  if ($8 != "") floor[row] = $9 " (" $8 ")" ($10 == "" ? "" : "<br>" $10)
}
END {
  printf "| figure, unit | compared with |"
  for (l = 1; l <= library_count; ++l) printf " %s |", libraries[l]
  printf "\n|---|--:|"
  for (l = 1; l <= library_count; ++l) printf "--:|"
  print ""
  for (r = 1; r <= row_count; ++r) {
    printf "| %s | %s |", rows[r], floor[rows[r]]
    for (l = 1; l <= library_count; ++l) printf " %s |", cell[rows[r], libraries[l]]
    print ""
  }
}
