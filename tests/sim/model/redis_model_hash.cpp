// Hashes and sets.

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>
#include <limits>

namespace conch::sim::redis {

std::string* hash_data::find(std::string_view field) {
  for (auto& [name, content] : fields) {
    if (name == field) {
      return &content;
    }
  }
  return nullptr;
}

namespace {

// ---- hashes ----

// True if the field is new.
bool put(hash_data& hash, std::string_view field, std::string_view content) {
  if (auto* old = hash.find(field)) {
    *old = content;
    return false;
  }
  hash.fields.emplace_back(field, content);
  return true;
}

bool put_pairs(call& c, std::size_t& added) {
  if (c.size() % 2 != 0) {
    c.wrong_count();
    return false;
  }
  bool wrong = false;
  c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return false;
  }
  auto& hash = c.find_or_add<hash_data>(c[1]);
  for (std::size_t i = 2; i + 1 < c.size(); i += 2) {
    added += put(hash, c[i], c[i + 1]) ? 1U : 0U;
  }
  return true;
}

void hset(call& c) {
  std::size_t added = 0;
  if (put_pairs(c, added)) {
    c.count(added);
  }
}

void hmset(call& c) {
  std::size_t added = 0;
  if (put_pairs(c, added)) {
    c.ok();
  }
}

void hsetnx(call& c) {
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  if (hash != nullptr && hash->find(c[2]) != nullptr) {
    c.integer(0);
    return;
  }
  put(c.find_or_add<hash_data>(c[1]), c[2], c[3]);
  c.integer(1);
}

void hget(call& c) {
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto const* content = hash == nullptr ? nullptr : hash->find(c[2]);
  if (content == nullptr) {
    c.nil();
  } else {
    c.bulk(*content);
  }
}

void hmget(call& c) {
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto& items = c.list(value::kind::array).items;
  for (auto const field : c.argv.subspan(2)) {
    auto const* content = hash == nullptr ? nullptr : hash->find(field);
    items.push_back(content == nullptr ? value::nil() : value::bulk(*content));
  }
}

void hgetall(call& c) {
  bool wrong = false;
  auto const* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto& items = c.list(value::kind::map).items;
  if (hash == nullptr) {
    return;
  }
  for (auto const& [field, content] : hash->fields) {
    items.push_back(value::bulk(field));
    items.push_back(value::bulk(content));
  }
}

void hdel(call& c) {
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  std::size_t removed = 0;
  if (hash != nullptr) {
    for (auto const field : c.argv.subspan(2)) {
      removed += std::erase_if(hash->fields, [&](auto const& item) { return item.first == field; });
    }
    if (hash->fields.empty()) {
      c.remove(c[1]);
    }
  }
  c.count(removed);
}

void hexists(call& c) {
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (!wrong) {
    c.integer(hash != nullptr && hash->find(c[2]) != nullptr ? 1 : 0);
  }
}

void hlen(call& c) {
  bool wrong = false;
  auto const* hash = c.find<hash_data>(c[1], wrong);
  if (!wrong) {
    c.count(hash == nullptr ? 0 : hash->fields.size());
  }
}

void hincrby(call& c) {
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  constexpr auto min = std::numeric_limits<std::int64_t>::min();
  std::int64_t step = 0;
  if (!c.integer_argument(3, step)) {
    return;
  }
  bool wrong = false;
  auto* hash = c.find<hash_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  std::int64_t number = 0;
  auto const* content = hash == nullptr ? nullptr : hash->find(c[2]);
  if (content != nullptr && !to_integer(*content, number)) {
    c.error("ERR hash value is not an integer");
    return;
  }
  if ((step > 0 && number > max - step) || (step < 0 && number < min - step)) {
    c.error("ERR increment or decrement would overflow");
    return;
  }
  number += step;
  put(c.find_or_add<hash_data>(c[1]), c[2], std::to_string(number));
  c.integer(number);
}

// ---- sets ----

using place = std::vector<std::string>::iterator;

place lower_place(set_data& set, std::string_view member) {
  return std::lower_bound(set.members.begin(), set.members.end(), member);
}

bool contains(set_data& set, std::string_view member) {
  auto const at = lower_place(set, member);
  return at != set.members.end() && *at == member;
}

void sadd(call& c) {
  bool wrong = false;
  c.find<set_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto& set = c.find_or_add<set_data>(c[1]);
  std::size_t added = 0;
  for (auto const member : c.argv.subspan(2)) {
    if (contains(set, member)) {
      continue;
    }
    set.members.insert(lower_place(set, member), std::string{member});
    ++added;
  }
  c.count(added);
}

void srem(call& c) {
  bool wrong = false;
  auto* set = c.find<set_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  std::size_t removed = 0;
  if (set != nullptr) {
    for (auto const member : c.argv.subspan(2)) {
      if (!contains(*set, member)) {
        continue;
      }
      set->members.erase(lower_place(*set, member));
      ++removed;
    }
    if (set->members.empty()) {
      c.remove(c[1]);
    }
  }
  c.count(removed);
}

void scard(call& c) {
  bool wrong = false;
  auto const* set = c.find<set_data>(c[1], wrong);
  if (!wrong) {
    c.count(set == nullptr ? 0 : set->members.size());
  }
}

void sismember(call& c) {
  bool wrong = false;
  auto* set = c.find<set_data>(c[1], wrong);
  if (!wrong) {
    c.integer(set != nullptr && contains(*set, c[2]) ? 1 : 0);
  }
}

void smembers(call& c) {
  bool wrong = false;
  auto const* set = c.find<set_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto& items = c.list(value::kind::set).items;
  if (set != nullptr) {
    for (auto const& member : set->members) {
      items.push_back(value::bulk(member));
    }
  }
}

}  // namespace

std::span<command const> hash_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"hset", -4, write | deny_oom, hset},
      {"hmset", -4, write | deny_oom, hmset},
      {"hsetnx", 4, write | deny_oom, hsetnx},
      {"hget", 3, none, hget},
      {"hmget", -3, none, hmget},
      {"hgetall", 2, none, hgetall},
      {"hdel", -3, write, hdel},
      {"hexists", 3, none, hexists},
      {"hlen", 2, none, hlen},
      {"hincrby", 4, write | deny_oom, hincrby},
      {"sadd", -3, write | deny_oom, sadd},
      {"srem", -3, write, srem},
      {"scard", 2, none, scard},
      {"sismember", 3, none, sismember},
      {"smembers", 2, none, smembers},
  };
  return commands;
}

}  // namespace conch::sim::redis
