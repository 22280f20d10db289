// Sorted sets: one vector in order, which for the sizes of a waiting line beats any tree.

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>
#include <cmath>

namespace conch::sim::redis {

zset_data::entry const* zset_data::find(std::string_view member) const {
  for (auto const& item : entries) {
    if (item.member == member) {
      return &item;
    }
  }
  return nullptr;
}

void zset_data::insert(double score, std::string_view member) {
  auto const place = std::partition_point(entries.begin(), entries.end(),
                                          [&](entry const& item) { return item.before(score, member); });
  // Small sorted sets are packed in Redis, and packing turns -0 into 0.
  entries.insert(place, entry{score == 0 ? 0.0 : score, std::string{member}});
}

namespace {

void erase(zset_data& zset, zset_data::entry const* item) {
  zset.entries.erase(zset.entries.begin() + (item - zset.entries.data()));
}

// ---- adding ----

struct add_options {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
  bool count_changed = false;
  bool increment = false;

  bool take(std::string_view word) {
    struct option {
      std::string_view name;
      bool add_options::*flag;
    };
    static constexpr option known[] = {{"nx", &add_options::nx},
                                       {"xx", &add_options::xx},
                                       {"gt", &add_options::gt},
                                       {"lt", &add_options::lt},
                                       {"ch", &add_options::count_changed},
                                       {"incr", &add_options::increment}};
    for (auto const& [name, flag] : known) {
      if (equal_ignoring_case(word, name)) {
        this->*flag = true;
        return true;
      }
    }
    return false;
  }
};

enum class outcome : std::uint8_t { nothing, added, updated, unchanged, not_a_number };

// `score` goes in as the wanted score or step and comes out as the member's score.
outcome add_member(zset_data& zset, add_options const& options, double& score, std::string_view member) {
  auto const* const old = zset.find(member);
  if (old == nullptr) {
    if (options.xx) {
      return outcome::nothing;
    }
    zset.insert(score, member);
    return outcome::added;
  }
  if (options.nx) {
    return outcome::nothing;
  }
  if (options.increment) {
    score += old->score;
    if (std::isnan(score)) {
      return outcome::not_a_number;
    }
  }
  if ((options.lt && score >= old->score) || (options.gt && score <= old->score)) {
    return outcome::nothing;
  }
  if (score == old->score) {
    return outcome::unchanged;
  }
  erase(zset, old);
  zset.insert(score, member);
  return outcome::updated;
}

void add_members(call& c, add_options const& options, std::size_t first) {
  std::vector<double> scores;
  for (std::size_t i = first; i < c.size(); i += 2) {
    if (!c.score_argument(i, scores.emplace_back())) {
      return;
    }
  }
  bool wrong = false;
  auto* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  if (zset == nullptr && !options.xx) {
    zset = &c.find_or_add<zset_data>(c[1]);
  }

  std::size_t added = 0;
  std::size_t updated = 0;
  bool done = false;
  double score = 0;
  for (std::size_t i = 0; zset != nullptr && i < scores.size(); ++i) {
    score = scores[i];
    switch (add_member(*zset, options, score, c[first + 2 * i + 1])) {
      case outcome::not_a_number: c.error("ERR resulting score is not a number (NaN)"); return;
      case outcome::added:
        ++added;
        done = true;
        break;
      case outcome::updated:
        ++updated;
        done = true;
        break;
      case outcome::unchanged: done = true; break;
      case outcome::nothing: break;
    }
  }
  if (!options.increment) {
    c.count(options.count_changed ? added + updated : added);
  } else if (done) {
    c.real(score);
  } else {
    c.nil();
  }
}

void zadd(call& c) {
  add_options options;
  std::size_t first = 2;
  while (first < c.size() && options.take(c[first])) {
    ++first;
  }
  auto const words = c.size() - first;
  if (words == 0 || words % 2 != 0) {
    c.syntax_error();
  } else if (options.nx && options.xx) {
    c.error("ERR XX and NX options at the same time are not compatible");
  } else if ((options.nx && (options.gt || options.lt)) || (options.gt && options.lt)) {
    c.error("ERR GT, LT, and/or NX options at the same time are not compatible");
  } else if (options.increment && words > 2) {
    c.error("ERR INCR option supports a single increment-element pair");
  } else {
    add_members(c, options, first);
  }
}

void zincrby(call& c) {
  add_options options;
  options.increment = true;
  add_members(c, options, 2);
}

// ---- ranges ----

struct score_range {
  double min = 0;
  double max = 0;
  bool open_min = false;
  bool open_max = false;

  bool above_min(double score) const { return open_min ? score > min : score >= min; }
  bool below_max(double score) const { return open_max ? score < max : score <= max; }
};

bool parse_bound(std::string_view text, double& bound, bool& open) {
  open = text.starts_with('(');
  if (open) {
    text.remove_prefix(1);
  }
  if (whole_number(text, bound)) {
    return true;
  }
  // Unlike other numbers a bound goes straight to strtod, which takes spaces and nothing at all.
  std::string const terminated{text};
  char* end = nullptr;
  bound = std::strtod(terminated.c_str(), &end);
  return *end == '\0' && !std::isnan(bound);
}

bool parse_range(call& c, std::string_view min, std::string_view max, score_range& range) {
  if (parse_bound(min, range.min, range.open_min) && parse_bound(max, range.max, range.open_max)) {
    return true;
  }
  c.error("ERR min or max is not a float");
  return false;
}

struct span_of_entries {
  std::size_t first = 0;
  std::size_t end = 0;  // first == end: nothing
};

span_of_entries by_score(zset_data const& zset, score_range const& range) {
  auto const& all = zset.entries;
  auto const first =
      std::partition_point(all.begin(), all.end(), [&](auto const& item) { return !range.above_min(item.score); });
  auto const end =
      std::partition_point(first, all.end(), [&](auto const& item) { return range.below_max(item.score); });
  return {static_cast<std::size_t>(first - all.begin()), static_cast<std::size_t>(end - all.begin())};
}

span_of_entries by_index(std::size_t size, std::int64_t start, std::int64_t stop) {
  auto const length = static_cast<std::int64_t>(size);
  if (start < 0) {
    start = std::max<std::int64_t>(0, start + length);
  }
  if (stop < 0) {
    stop += length;
  }
  stop = std::min(stop, length - 1);
  if (start > stop || start >= length) {
    return {};
  }
  return {static_cast<std::size_t>(start), static_cast<std::size_t>(stop) + 1};
}

void append_entry(call& c, zset_data::entry const& item, bool with_score, bool nested) {
  auto& items = c.reply.items;
  if (!with_score) {
    items.push_back(value::bulk(item.member));
  } else if (nested) {
    items.push_back(value::list(value::kind::array, {value::bulk(item.member), value::real(item.score)}));
  } else {
    items.push_back(value::bulk(item.member));
    items.push_back(value::real(item.score));
  }
}

struct range_options {
  bool by_score = false;
  bool reverse = false;
  bool with_scores = false;
  std::int64_t offset = 0;
  std::int64_t limit = -1;
};

// `fixed`: the command's name has decided on by_score and reverse.
bool parse_range_options(call& c, range_options& options, bool fixed) {
  for (std::size_t i = 4; i < c.size(); ++i) {
    if (equal_ignoring_case(c[i], "withscores")) {
      options.with_scores = true;
    } else if (equal_ignoring_case(c[i], "limit") && i + 2 < c.size()) {
      if (!c.integer_argument(i + 1, options.offset) || !c.integer_argument(i + 2, options.limit)) {
        return false;
      }
      i += 2;
    } else if (!fixed && equal_ignoring_case(c[i], "rev")) {
      options.reverse = true;
    } else if (!fixed && equal_ignoring_case(c[i], "byscore")) {
      options.by_score = true;
    } else if (!fixed && equal_ignoring_case(c[i], "bylex")) {
      c.error("ERR model: ZRANGE BYLEX is not modelled");
      return false;
    } else {
      c.syntax_error();
      return false;
    }
  }
  // To Redis a limit of -1 is none at all.
  if (!options.by_score && options.limit == -1) {
    options.offset = 0;
  }
  if (!options.by_score && options.limit != -1) {
    c.error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
    return false;
  }
  return true;
}

void reply_range(call& c, zset_data const& zset, span_of_entries range, range_options const& options) {
  auto skip = options.offset;
  auto left = options.limit;
  if (skip < 0) {
    return;  // Redis counts it down to a zero that never comes
  }
  for (auto i = range.first; i < range.end; ++i) {
    if (skip > 0) {
      --skip;
      continue;
    }
    if (left == 0) {
      return;
    }
    if (left > 0) {
      --left;
    }
    auto const at = options.reverse ? range.end - 1 - (i - range.first) : i;
    append_entry(c, zset.entries[at], options.with_scores, c.protocol >= 3);
  }
}

void range_command(call& c, range_options options, bool fixed) {
  if (!parse_range_options(c, options, fixed)) {
    return;
  }
  score_range scores;
  std::int64_t start = 0;
  std::int64_t stop = 0;
  if (options.by_score) {
    auto const min = options.reverse ? c[3] : c[2];
    auto const max = options.reverse ? c[2] : c[3];
    if (!parse_range(c, min, max, scores)) {
      return;
    }
  } else if (!c.integer_argument(2, start) || !c.integer_argument(3, stop)) {
    return;
  }
  bool wrong = false;
  auto const* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  c.list(value::kind::array);
  if (zset == nullptr) {
    return;
  }
  if (options.by_score) {
    reply_range(c, *zset, by_score(*zset, scores), options);
    return;
  }
  auto range = by_index(zset->entries.size(), start, stop);
  if (options.reverse && range.first != range.end) {
    range = {zset->entries.size() - range.end, zset->entries.size() - range.first};
  }
  reply_range(c, *zset, range, options);
}

void zrange(call& c) { range_command(c, {}, false); }

void zrevrange(call& c) {
  range_options options;
  options.reverse = true;
  range_command(c, options, true);
}

void zrangebyscore(call& c) {
  range_options options;
  options.by_score = true;
  range_command(c, options, true);
}

void zrevrangebyscore(call& c) {
  range_options options;
  options.by_score = true;
  options.reverse = true;
  range_command(c, options, true);
}

void zcount(call& c) {
  score_range range;
  if (!parse_range(c, c[2], c[3], range)) {
    return;
  }
  bool wrong = false;
  auto const* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto const found = zset == nullptr ? span_of_entries{} : by_score(*zset, range);
  c.count(found.end > found.first ? found.end - found.first : 0);
}

// ---- looking up ----

void zscore(call& c) {
  bool wrong = false;
  auto const* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto const* item = zset == nullptr ? nullptr : zset->find(c[2]);
  if (item == nullptr) {
    c.nil();
  } else {
    c.real(item->score);
  }
}

void rank(call& c, bool reverse) {
  bool wrong = false;
  auto const* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  auto const* item = zset == nullptr ? nullptr : zset->find(c[2]);
  if (item == nullptr) {
    c.nil();
    return;
  }
  auto const index = static_cast<std::size_t>(item - zset->entries.data());
  c.count(reverse ? zset->entries.size() - 1 - index : index);
}

void zrank(call& c) { rank(c, false); }
void zrevrank(call& c) { rank(c, true); }

void zcard(call& c) {
  bool wrong = false;
  auto const* zset = c.find<zset_data>(c[1], wrong);
  if (!wrong) {
    c.count(zset == nullptr ? 0 : zset->entries.size());
  }
}

// ---- removing ----

void zrem(call& c) {
  bool wrong = false;
  auto* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  std::size_t removed = 0;
  if (zset != nullptr) {
    for (auto const member : c.argv.subspan(2)) {
      if (auto const* item = zset->find(member)) {
        erase(*zset, item);
        ++removed;
      }
    }
    if (zset->entries.empty()) {
      c.remove(c[1]);
    }
  }
  c.count(removed);
}

void remove_range(call& c, zset_data& zset, span_of_entries range) {
  if (range.end <= range.first) {
    c.integer(0);
    return;
  }
  auto const begin = zset.entries.begin();
  zset.entries.erase(begin + static_cast<std::ptrdiff_t>(range.first), begin + static_cast<std::ptrdiff_t>(range.end));
  if (zset.entries.empty()) {
    c.remove(c[1]);
  }
  c.count(range.end - range.first);
}

void zremrangebyscore(call& c) {
  score_range range;
  if (!parse_range(c, c[2], c[3], range)) {
    return;
  }
  bool wrong = false;
  auto* zset = c.find<zset_data>(c[1], wrong);
  if (zset != nullptr) {
    remove_range(c, *zset, by_score(*zset, range));
  } else if (!wrong) {
    c.integer(0);
  }
}

void zremrangebyrank(call& c) {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  if (!c.integer_argument(2, start) || !c.integer_argument(3, stop)) {
    return;
  }
  bool wrong = false;
  auto* zset = c.find<zset_data>(c[1], wrong);
  if (zset != nullptr) {
    remove_range(c, *zset, by_index(zset->entries.size(), start, stop));
  } else if (!wrong) {
    c.integer(0);
  }
}

void pop(call& c, bool greatest) {
  if (c.size() > 3) {
    c.syntax_error();
    return;
  }
  std::int64_t count = 1;
  bool const counted = c.size() == 3;
  if (counted && (!to_integer(c[2], count) || count < 0)) {
    c.error("ERR value is out of range, must be positive");
    return;
  }
  bool wrong = false;
  auto* zset = c.find<zset_data>(c[1], wrong);
  if (wrong) {
    return;
  }
  c.list(value::kind::array);
  for (; zset != nullptr && count > 0 && !zset->entries.empty(); --count) {
    auto const& item = greatest ? zset->entries.back() : zset->entries.front();
    // A single member asked for without a count comes flat in RESP3 too.
    append_entry(c, item, true, counted && c.protocol >= 3);
    erase(*zset, &item);
  }
  if (zset != nullptr && zset->entries.empty()) {
    c.remove(c[1]);
  }
}

void zpopmin(call& c) { pop(c, false); }
void zpopmax(call& c) { pop(c, true); }

}  // namespace

std::span<command const> zset_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"zadd", -4, write | deny_oom, zadd},
      {"zincrby", 4, write | deny_oom, zincrby},
      {"zrange", -4, none, zrange},
      {"zrevrange", -4, none, zrevrange},
      {"zrangebyscore", -4, none, zrangebyscore},
      {"zrevrangebyscore", -4, none, zrevrangebyscore},
      {"zcount", 4, none, zcount},
      {"zscore", 3, none, zscore},
      {"zrank", 3, none, zrank},
      {"zrevrank", 3, none, zrevrank},
      {"zcard", 2, none, zcard},
      {"zrem", -3, write, zrem},
      {"zremrangebyscore", 4, write, zremrangebyscore},
      {"zremrangebyrank", 4, write, zremrangebyrank},
      {"zpopmin", -2, write, zpopmin},
      {"zpopmax", -2, write, zpopmax},
  };
  return commands;
}

}  // namespace conch::sim::redis
