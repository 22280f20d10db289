#include "sim/judges/script_calls.hpp"

#include "servers/redis/scripts.hpp"
#include "sim/mutants/mutants.hpp"
#include "sim/worlds/words.hpp"

namespace conch::sim {

bool is_gathered(std::span<std::string_view const> argv) { return script_name(argv[1]) == "gathered"; }

namespace {

/// With what a mutex' acquire or release leaves out when it is none, or the usual.
script_call_words spelled_out(std::span<std::string_view const> argv) {
  script_call_words call{argv.begin(), argv.end()};
  std::size_t const id_only = 3 + 3 + 1, with_times = id_only + 4;
  bool const acquire = script_name(argv[1]) == "acquire", release = script_name(argv[1]) == "release";
  if (call.size() > with_times || !(acquire || release)) return call;
  if (call.size() == id_only) call.insert(call.end(), {acquire ? "wait" : "0", "30000", "3000", "630000"});
  if (acquire) call.insert(call.end(), {"0", "0"});
  else call.emplace_back("");
  return call;
}

}  // namespace

std::vector<script_call_words> calls_in(std::span<std::string_view const> argv) {
  if (!is_gathered(argv)) return {spelled_out(argv)};
  auto const keys = static_cast<std::size_t>(number(argv[2]));
  auto const rest = argv.subspan(3 + keys);
  auto const acquires = static_cast<std::size_t>(number(rest[0])), count = keys / 3;
  bool const votes = rest[5] == "1";
  bool const each_its_lease = rest[1] == "next", ids_alone = rest.size() == 7 + count;
  std::string_view const mode = rest[1], lease = rest[2], claim = rest[3], retention = rest[4], shard = rest[6];
  std::vector<script_call_words> calls;
  std::size_t argument = 7;
  for (std::size_t i = 0; i < count; ++i) {
    bool const acquire = i < acquires;
    std::size_t const of_kind = acquire ? acquires : count - acquires,
                      first = 3 + (acquire ? i : 3 * acquires + i - acquires);
    script_call_words call{"EVALSHA",
                           redis::find_script(acquire ? "acquire" : "release").sha1,
                           "3",
                           argv[first],
                           argv[first + of_kind],
                           argv[first + 2 * of_kind],
                           rest[argument],
                           acquire ? mode : "0",
                           each_its_lease ? rest[argument + 3] : lease,
                           claim,
                           retention};
    if (ids_alone) call = spelled_out(call);
    std::size_t const own = ids_alone ? 1 : votes ? 4 : acquire ? 3 : 2;
    for (std::size_t k = 1; k < own; ++k) call.push_back(rest[argument + k]);
    argument += own + (each_its_lease ? 1 : 0);
    if (!shard.empty()) {
      if (acquire) call.insert(call.end(), {"", shard});
      else call.insert(call.end(), {"", "", shard});
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

value const& answer_to(value const& reply, std::size_t index, bool gathered) {
  return !gathered || reply.is_error() ? reply : reply.items.at(index);
}

}  // namespace conch::sim
