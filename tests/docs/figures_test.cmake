# Every measured figure of the README's table is the one in docs/benchmarks/*.json, which scripts/bench --docs writes.
#
#   cmake -DROOT=FOLDER -P figures_test.cmake
file(READ "${ROOT}/README.md" readme)

# FILE | figure | case | library | how the README writes it, with VALUE for the figure (rounded to a whole number from 10 on)
set(rows
  "results|F4|hand-off, p50|conch|VALUE µs (ZooKeeper"
  "results|F4|hand-off, p50|Redisson 4.7.0, getFairLock|VALUE µs"
  "results|F4|hand-off, p50|rueidislock 1.0.79, KeyMajority 2|VALUE µs"
  "results|F4|hand-off, p50|SET NX PX every 100 ms, go-redis 9.23.0|VALUE µs"
  "results|F5|commands while waiting for two leases, 1000 waiting clients|conch|1,000 clients wait | VALUE |"
  "results|F5|commands while waiting for two leases, 1000 waiting clients|Redisson 4.7.0, getFairLock|| VALUE |"
  "results|F5|commands while waiting for two leases, 1000 waiting clients|rueidislock 1.0.79, KeyMajority 2|| VALUE |"
  "results|F5|commands while waiting for two leases, 1000 waiting clients|SET NX PX every 100 ms, go-redis 9.23.0|| VALUE |"
  "zookeeper|zookeeper-peers|hand-over, p50, 1 server|conch|ZooKeeper: VALUE µs"
  "zookeeper|zookeeper-peers|hand-over, p50, 1 server|Curator 5.9.0|VALUE µs"
  "zookeeper|zookeeper-peers|cut off: the holder is told after the next one has it (below 0: before)|Curator 5.9.0|VALUE s after the next grant")

set(checked 0)
foreach(row IN LISTS rows)
  string(REGEX MATCH "^([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)\\|(.*)$" matched "${row}")
  set(file "${CMAKE_MATCH_1}")
  set(figure "${CMAKE_MATCH_2}")
  set(case "${CMAKE_MATCH_3}")
  set(library "${CMAKE_MATCH_4}")
  set(form "${CMAKE_MATCH_5}")
  file(READ "${ROOT}/docs/benchmarks/${file}.json" json)
  string(FIND "${json}" "{\"figure\": \"${figure}\", \"case\": \"${case}\", " begin)
  set(value "")
  while(NOT begin EQUAL -1)
    string(SUBSTRING "${json}" ${begin} -1 json)
    string(FIND "${json}" "}" end)
    string(SUBSTRING "${json}" 0 ${end} line)
    string(FIND "${line}" "\"peer\": \"${library}\"" is_it)
    if(NOT is_it EQUAL -1)
      string(REGEX MATCH "\"value\": ([0-9.]+)" matched "${line}")
      set(value "${CMAKE_MATCH_1}")
      break()
    endif()
    string(SUBSTRING "${json}" ${end} -1 json)
    string(FIND "${json}" "{\"figure\": \"${figure}\", \"case\": \"${case}\", " begin)
  endwhile()
  if(value STREQUAL "")
    message(SEND_ERROR "docs/benchmarks/${file}.json has no ${figure}, ${case}, of ${library}")
    continue()
  endif()
  if(value MATCHES "^([0-9]+)\\.([0-9])" AND CMAKE_MATCH_1 GREATER 9)
    set(value ${CMAKE_MATCH_1})
    if(CMAKE_MATCH_2 GREATER 4)
      math(EXPR value "${value} + 1")
    endif()
  elseif(value MATCHES "^[0-9]\\.[0-9]")
    string(REGEX REPLACE "^([0-9]\\.[0-9]).*" "\\1" value "${value}")
  endif()
  string(REGEX REPLACE "^([0-9]+)([0-9][0-9][0-9])$" "\\1,\\2" value "${value}")
  string(REPLACE "VALUE" "${value}" form "${form}")
  string(FIND "${readme}" "${form}" found)
  if(found EQUAL -1)
    message(SEND_ERROR "README.md does not say '${form}' (${figure}, ${case}, of ${library})")
  endif()
  math(EXPR checked "${checked} + 1")
endforeach()
list(LENGTH rows expected)
if(NOT checked EQUAL expected)
  message(SEND_ERROR "${checked} of ${expected} figures were checked")
endif()
message(STATUS "${checked} figures of the README")
