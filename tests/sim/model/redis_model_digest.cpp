// One number for all that a server knows, to compare states. Times of day are in it where something depends on them.
#include "sim/digest.hpp"
#include "sim/model/redis_model_impl.hpp"
#include "sim/model/runs.hpp"

#include <type_traits>

namespace conch::sim {

namespace {

void add(digest& d, std::string const& text) { d.add(text); }

void add(digest& d, redis::hash_data const& hash) {
  for (auto const& [field, content] : hash.fields) {
    d.add(field);
    d.add(content);
  }
}

void add(digest& d, redis::zset_data const& set) {
  for (auto const& one : set.entries) {
    d.add(std::to_string(one.score));
    d.add(one.member);
  }
}

void add(digest& d, redis::set_data const& set) {
  for (auto const& member : set.members) d.add(member);
}

std::uint64_t of_entry(std::string const& key, redis::entry const& what) {
  digest d;
  d.add(key);
  d.add(static_cast<std::uint64_t>(what.data.index()));
  d.add(static_cast<std::uint64_t>(what.expires_at_ms));
  std::visit([&](auto const& data) { add(d, data); }, what.data);
  return d.value();
}

void add(digest& d, redis::connection const& c) {
  d.add(c.id);
  d.add(c.address);
  d.add(c.name);
  d.add(static_cast<std::uint64_t>(c.protocol));
  d.add(static_cast<std::uint64_t>(c.connected_at_us));
  d.add(static_cast<std::uint64_t>(c.waits_for));
  d.add(static_cast<std::uint64_t>(c.asking));
}

void add(digest& d, std::map<int, redis_model::node> const& slots) {
  for (auto const& [slot, where] : slots) {
    d.add(static_cast<std::uint64_t>(slot));
    d.add(where.id);
  }
  d.add(slots.size());
}

/// What this node of a Cluster knows of the others.
void add(digest& d, redis_model::cluster const& c) {
  add(d, c.migrating);
  add(d, c.importing);
  d.add(c.down ? 1 : 0);
  std::span<std::int16_t const> const all{c.owners};
  for (std::size_t first = 0; first < all.size();) {
    std::size_t const size = run_of(all[first], all.subspan(first));
    d.add(static_cast<std::uint64_t>(all[first]));
    d.add(size);
    first += size;
  }
}

}  // namespace

void redis_model::add_to(digest& d) const {
  impl const& s = *impl_;
  for (auto const& all : s.databases) {
    std::uint64_t sum = 0;  // a map has no order
    for (auto const& [key, what] : all) sum += s.expired(what) ? 0 : of_entry(key, what);
    d.add(sum);
  }
  for (auto const& [id, c] : s.connections) add(d, c);
  for (auto const* channels : {&s.channels, &s.shard_channels}) {
    for (auto const& [name, who] : *channels) {
      d.add(name);
      for (auto const id : who) d.add(id);
    }
  }
  if (s.in_cluster) add(d, *s.in_cluster);
  std::uint64_t scripts = 0;
  for (auto const& [sha1, script] : s.scripts) scripts += std::hash<std::string>{}(sha1);
  for (std::uint64_t const n : {scripts, s.run, s.next_id, static_cast<std::uint64_t>(s.offset),
                                static_cast<std::uint64_t>(s.replica), static_cast<std::uint64_t>(s.out_of_memory)}) {
    d.add(n);
  }
}

}  // namespace conch::sim
