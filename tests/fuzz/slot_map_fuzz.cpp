// What nodes of a Cluster say of its slots, from the bytes to the map: answers to CLUSTER SLOTS, and errors that may be
// redirections. Nothing may crash or overflow; what is not understood changes nothing; and each slot is with a node
// that is known, or with none.

#include "resp/decoder.hpp"
#include "servers/redis/topology/slot_map.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

using namespace conch;
using namespace conch::redis;
using namespace std::chrono_literals;

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "slot_map_fuzz: %s\n", what);
  std::abort();
}

void check(slot_map const& map) {
  require(map.nodes() <= slot_map::most_nodes, "more nodes than are remembered");
  for (unsigned slot = 0; slot < slot_count; ++slot) {
    std::size_t const owner = map.owner(slot);
    if (owner == slot_map::unknown_master) continue;
    require(owner < map.nodes(), "a slot is with an unknown node");
    require(map.port(owner) != 0 && map.id(owner).size() >= 8, "a node without a port or an id");
  }
  for (std::size_t n = 0; n < map.nodes(); ++n) {
    auto const some = map.some_slot(n);
    require(!some || map.owner(*some) == n, "a slot of another node");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  resp::decoder in{{.max_depth = 8, .max_elements = 4096, .max_text = 4096, .max_message = 1 << 20}};
  auto const room = in.prepare(size);
  std::copy_n(data, size, room.begin());
  in.commit(size);
  address asked;
  asked.host = "asked";
  std::map<std::string, std::string> const mapped{{"h:1", "outside:2"}};
  slot_map map{{.refresh = 10s, .patience = 3s}, mapped};
  time_point now{1h};
  map.connected(now);
  while (in.next() == resp::decoder::progress::message) {
    auto const& message = in.message();
    if (auto const all = read_slots(message, asked)) {
      std::size_t slots = 0;
      for (named_slots const& one : *all) slots += one.last - one.first + 1;
      require(slots <= slot_count, "a slot that is named twice");
      if (map.update(*all, now)) require(map.is_known(), "a map that is not known");
    } else if (auto const asks = read_ask(message.front().text)) {
      std::size_t const by = map.owner(asks->slot);
      if (by != slot_map::unknown_master) (void)map.named_by_ask(*asks, by);
    } else if (auto const to = read_moved(message.front().text)) {
      std::size_t const before = map.owner(to->slot);
      if (before != slot_map::unknown_master) map.redirected(*to, before, now);
    }
    check(map);
    (void)map.take_changes();
    (void)map.ask_is_due(now);
    now += 100ms;
  }
  return 0;
}
