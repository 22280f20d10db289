// Strings, and what works on any key: expiry, DEL, TYPE ...

#include "sim/model/redis_model_impl.hpp"

#include <limits>

namespace conch::sim::redis {

namespace {

constexpr auto max_integer = std::numeric_limits<std::int64_t>::max();
constexpr auto min_integer = std::numeric_limits<std::int64_t>::min();

void get(call& c) {
  bool wrong = false;
  auto const* text = c.find<std::string>(c[1], wrong);
  if (text != nullptr) {
    c.bulk(*text);
  } else if (!wrong) {
    c.nil();
  }
}

// Never of the wrong type: such a key has nothing.
void mget(call& c) {
  auto& items = c.list(value::kind::array).items;
  for (auto const key : c.argv.subspan(1)) {
    auto* const found = c.find(key);
    auto const* const text = found == nullptr ? nullptr : std::get_if<std::string>(&found->data);
    items.push_back(text == nullptr ? value::nil() : value::bulk(*text));
  }
}

struct set_options {
  bool only_new = false;
  bool only_old = false;
  bool get = false;
  bool keep_ttl = false;
  std::string_view unit;  // ex, px, exat, pxat
  std::string_view amount;
};

bool parse_set_options(call& c, set_options& options) {
  for (std::size_t i = 3; i < c.size(); ++i) {
    auto const is = [&](std::string_view name) { return equal_ignoring_case(c[i], name); };
    if (is("nx") && !options.only_old) {
      options.only_new = true;
    } else if (is("xx") && !options.only_new) {
      options.only_old = true;
    } else if (is("get")) {
      options.get = true;
    } else if (is("keepttl") && options.unit.empty()) {
      options.keep_ttl = true;
    } else if (!options.keep_ttl && options.unit.empty() && i + 1 < c.size()) {
      for (std::string_view const unit : {"ex", "px", "exat", "pxat"}) {
        if (is(unit)) {
          options.unit = unit;
        }
      }
      if (options.unit.empty()) {
        c.syntax_error();
        return false;
      }
      options.amount = c[++i];
    } else {
      c.syntax_error();
      return false;
    }
  }
  return true;
}

// When SET makes the key expire; false: an error was replied.
bool set_expiry(call& c, set_options const& options, std::int64_t& when) {
  if (!to_integer(options.amount, when)) {
    c.error("ERR value is not an integer or out of range");
    return false;
  }
  bool const seconds = options.unit.starts_with('e');
  bool const relative = !options.unit.ends_with("at");
  if (when <= 0 || (seconds && when > max_integer / 1000)) {
    c.bad_expire_time();
    return false;
  }
  if (seconds) {
    when *= 1000;
  }
  if (relative) {
    if (when > max_integer - c.server.now_ms()) {
      c.bad_expire_time();
      return false;
    }
    when += c.server.now_ms();
  }
  return true;
}

void set(call& c) {
  set_options options;
  if (!parse_set_options(c, options)) {
    return;
  }
  std::int64_t when = entry::no_expiry;
  if (!options.unit.empty() && !set_expiry(c, options, when)) {
    return;
  }
  if (options.get) {
    get(c);
    if (c.reply.is_error()) {
      return;
    }
  }
  entry* place = c.find(c[1]);
  if ((options.only_new && place != nullptr) || (options.only_old && place == nullptr)) {
    if (!options.get) {
      c.nil();
    }
    return;
  }
  if (place == nullptr) {
    database& all = c.server.database_at(c.selected);
    place = &all.emplace(std::string{c[1]}, entry{}).first->second;
  }
  place->data = std::string{c[2]};
  if (!options.keep_ttl) {
    place->expires_at_ms = when;
  }
  if (!options.get) {
    c.ok();
  }
}

void add_to(call& c, std::int64_t step) {
  bool wrong = false;
  auto* text = c.find<std::string>(c[1], wrong);
  if (wrong) {
    return;
  }
  std::int64_t number = 0;
  if (text != nullptr && !to_integer(*text, number)) {
    c.error("ERR value is not an integer or out of range");
    return;
  }
  if ((step > 0 && number > max_integer - step) || (step < 0 && number < min_integer - step)) {
    c.error("ERR increment or decrement would overflow");
    return;
  }
  number += step;
  if (text == nullptr) {
    text = &c.find_or_add<std::string>(c[1]);
  }
  *text = std::to_string(number);
  c.integer(number);
}

void incr(call& c) { add_to(c, 1); }
void decr(call& c) { add_to(c, -1); }

void incrby(call& c) {
  std::int64_t step = 0;
  if (c.integer_argument(2, step)) {
    add_to(c, step);
  }
}

void del(call& c) {
  std::size_t removed = 0;
  for (auto const key : c.argv.subspan(1)) {
    if (c.find(key) != nullptr) {
      c.remove(key);
      ++removed;
    }
  }
  c.count(removed);
}

void exists(call& c) {
  std::size_t present = 0;
  for (auto const key : c.argv.subspan(1)) {
    present += c.find(key) != nullptr ? 1U : 0U;
  }
  c.count(present);
}

void type(call& c) {
  entry const* found = c.find(c[1]);
  c.simple(found == nullptr ? "none" : type_name(*found));
}

// ---- expiry ----

struct expire_options {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
};

bool parse_expire_options(call& c, expire_options& options) {
  for (auto const word : c.argv.subspan(3)) {
    if (equal_ignoring_case(word, "nx")) {
      options.nx = true;
    } else if (equal_ignoring_case(word, "xx")) {
      options.xx = true;
    } else if (equal_ignoring_case(word, "gt")) {
      options.gt = true;
    } else if (equal_ignoring_case(word, "lt")) {
      options.lt = true;
    } else {
      c.error(joined("ERR Unsupported option ", status_line(word)));
      return false;
    }
  }
  if (options.nx && (options.xx || options.gt || options.lt)) {
    c.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (options.gt && options.lt) {
    c.error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

void expire(call& c, std::int64_t base_ms, bool seconds) {
  expire_options options;
  if (!parse_expire_options(c, options)) {
    return;
  }
  std::int64_t when = 0;
  if (!c.integer_argument(2, when)) {
    return;
  }
  if (seconds && (when > max_integer / 1000 || when < min_integer / 1000)) {
    c.bad_expire_time();
    return;
  }
  if (seconds) {
    when *= 1000;
  }
  if (when > max_integer - base_ms) {
    c.bad_expire_time();
    return;
  }
  when += base_ms;

  entry* const found = c.find(c[1]);
  if (found == nullptr) {
    c.integer(0);
    return;
  }
  // A key without an expiry counts as having the greatest time to live.
  auto const current = found->expires_at_ms;
  bool const forever = current == entry::no_expiry;
  if ((options.nx && !forever) || (options.xx && forever) || (options.gt && (forever || when <= current)) ||
      (options.lt && !forever && when >= current)) {
    c.integer(0);
    return;
  }
  // Unlike a key whose time comes, one that is told a time not after now goes at once.
  if (when <= c.server.now_ms()) {
    c.remove(c[1]);
  } else {
    found->expires_at_ms = when;
  }
  c.integer(1);
}

void expire_in_s(call& c) { expire(c, c.server.now_ms(), true); }
void expire_in_ms(call& c) { expire(c, c.server.now_ms(), false); }
void expire_at_s(call& c) { expire(c, 0, true); }
void expire_at_ms(call& c) { expire(c, 0, false); }

void remaining(call& c, bool absolute, bool seconds) {
  entry const* found = c.find(c[1]);
  if (found == nullptr) {
    c.integer(-2);
    return;
  }
  if (found->expires_at_ms == entry::no_expiry) {
    c.integer(-1);
    return;
  }
  auto left = absolute ? found->expires_at_ms : found->expires_at_ms - c.server.now_ms();
  if (left < 0) {
    left = 0;
  }
  if (seconds) {
    // Unsigned: the greatest time there is must not overflow.
    left = static_cast<std::int64_t>((static_cast<std::uint64_t>(left) + 500) / 1000);
  }
  c.integer(left);
}

void ttl(call& c) { remaining(c, false, true); }
void pttl(call& c) { remaining(c, false, false); }
void expiretime(call& c) { remaining(c, true, true); }
void pexpiretime(call& c) { remaining(c, true, false); }

void persist(call& c) {
  entry* const found = c.find(c[1]);
  bool const had = found != nullptr && found->expires_at_ms != entry::no_expiry;
  if (had) {
    found->expires_at_ms = entry::no_expiry;
  }
  c.integer(had ? 1 : 0);
}

}  // namespace

std::span<command const> key_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"get", 2, none, get},
      {"mget", -2, more_keys, mget},
      {"set", -3, write | deny_oom, set},
      {"incr", 2, write | deny_oom, incr},
      {"decr", 2, write | deny_oom, decr},
      {"incrby", 3, write | deny_oom, incrby},
      {"del", -2, write | more_keys, del},
      {"unlink", -2, write | more_keys, del},
      {"exists", -2, more_keys, exists},
      {"type", 2, none, type},
      {"expire", -3, write, expire_in_s},
      {"pexpire", -3, write, expire_in_ms},
      {"expireat", -3, write, expire_at_s},
      {"pexpireat", -3, write, expire_at_ms},
      {"ttl", 2, none, ttl},
      {"pttl", 2, none, pttl},
      {"expiretime", 2, none, expiretime},
      {"pexpiretime", 2, none, pexpiretime},
      {"persist", 2, write, persist},
  };
  return commands;
}

}  // namespace conch::sim::redis
