#include "sim/differential/differential_generator.hpp"

#include <array>
#include <cstdio>

#include "sim/model/sha1.hpp"

namespace conch::sim {

namespace {

using namespace std::string_literals;

// Words in braces are filled in: {s} {h} {z} {e} a key that mostly holds a string, a hash, a sorted
// set, a set; {k} any key; {v} a value; {n} an integer or nearly; {f} a score; {b} a bound of
// scores; {m} a member or field; {t} a time to live; {T} the same in seconds; {a} a unix time in
// ms. A number in front is the weight.
struct weighted {
  int weight;
  std::string_view text;
};

constexpr weighted key_templates[] = {
    {4, "GET {s}"},
    {6, "SET {s} {v}"},
    {2, "SET {s} {v} NX"},
    {2, "SET {s} {v} XX"},
    {2, "SET {s} {v} PX {t}"},
    {1, "SET {s} {v} EX {T}"},
    {1, "SET {s} {v} PXAT {a}"},
    {1, "SET {s} {v} GET"},
    {1, "SET {s} {v} NX GET"},
    {1, "SET {s} {v} XX GET PX {t}"},
    {1, "SET {s} {v} KEEPTTL"},
    {1, "SET {s} {v} KEEPTTL PX {t}"},
    {1, "SET {s} {v} PX {t} EX {T}"},
    {1, "SET {s} {v} NX XX"},
    {1, "SET {s} {v} PX"},
    {1, "SET {s} {v} get nx px {t}"},
    {3, "DEL {k}"},
    {1, "DEL {k} {k} {k}"},
    {1, "UNLINK {k} {k}"},
    {2, "EXISTS {k} {k}"},
    {2, "MGET {k} {k} {s}"},
    {2, "TYPE {k}"},
    {3, "INCR {s}"},
    {1, "DECR {s}"},
    {3, "INCRBY {s} {n}"},
    {2, "PEXPIRE {k} {t}"},
    {2, "PEXPIRE {k} {t} NX"},
    {2, "PEXPIRE {k} {t} XX"},
    {2, "PEXPIRE {k} {t} GT"},
    {2, "PEXPIRE {k} {t} LT"},
    {1, "PEXPIRE {k} {t} XX GT"},
    {1, "PEXPIRE {k} {t} NX GT"},
    {1, "PEXPIRE {k} {t} GT LT"},
    {1, "PEXPIRE {k} {t} FOO"},
    {1, "EXPIRE {k} {T}"},
    {3, "PEXPIREAT {k} {a}"},
    {1, "PEXPIREAT {k} {a} GT"},
    {1, "PEXPIREAT {k} {a} LT"},
    {1, "EXPIREAT {k} {T}"},
    {2, "PERSIST {k}"},
};

constexpr weighted data_templates[] = {
    {6, "ZADD {z} {f} {m}"},
    {3, "ZADD {z} {f} {m} {f} {m}"},
    {2, "ZADD {z} NX {f} {m}"},
    {2, "ZADD {z} XX {f} {m}"},
    {2, "ZADD {z} GT {f} {m}"},
    {2, "ZADD {z} LT CH {f} {m}"},
    {1, "ZADD {z} XX GT CH {f} {m} {f} {m}"},
    {1, "ZADD {z} NX XX {f} {m}"},
    {1, "ZADD {z} GT LT {f} {m}"},
    {1, "ZADD {z} NX GT {f} {m}"},
    {1, "ZADD {z} INCR {f} {m}"},
    {1, "ZADD {z} NX INCR {f} {m}"},
    {1, "ZADD {z} INCR {f} {m} {f} {m}"},
    {1, "ZADD {z} {f}"},
    {1, "ZINCRBY {z} {f} {m}"},
    {3, "ZPOPMIN {z}"},
    {2, "ZPOPMIN {z} {n}"},
    {1, "ZPOPMAX {z} {n}"},
    {3, "ZRANGE {z} {n} {n}"},
    {3, "ZRANGE {z} {n} {n} WITHSCORES"},
    {1, "ZRANGE {z} {n} {n} REV"},
    {1, "ZRANGE {z} {b} {b} BYSCORE WITHSCORES"},
    {1, "ZRANGE {z} {b} {b} BYSCORE REV LIMIT {n} {n}"},
    {1, "ZRANGE {z} {n} {n} LIMIT {n} {n}"},
    {2, "ZRANGEBYSCORE {z} {b} {b}"},
    {2, "ZRANGEBYSCORE {z} {b} {b} WITHSCORES LIMIT {n} {n}"},
    {1, "ZREVRANGEBYSCORE {z} {b} {b}"},
    {2, "ZREVRANGE {z} {n} {n}"},
    {1, "ZREVRANGE {z} {n} {n} WITHSCORES"},
    {3, "ZREM {z} {m}"},
    {1, "ZREM {z} {m} {m} {m}"},
    {2, "ZSCORE {z} {m}"},
    {2, "ZCARD {z}"},
    {2, "ZRANK {z} {m}"},
    {1, "ZREVRANK {z} {m}"},
    {1, "ZCOUNT {z} {b} {b}"},
    {2, "ZREMRANGEBYSCORE {z} {b} {b}"},
    {1, "ZREMRANGEBYRANK {z} {n} {n}"},
    {5, "HSET {h} {m} {v}"},
    {2, "HSET {h} {m} {v} {m} {v}"},
    {1, "HSET {h} {m} {v} {m}"},
    {1, "HMSET {h} {m} {v} {m} {v}"},
    {1, "HSETNX {h} {m} {v}"},
    {2, "HGET {h} {m}"},
    {2, "HMGET {h} {m} {m}"},
    {2, "HGETALL {h}"},
    {2, "HDEL {h} {m}"},
    {1, "HDEL {h} {m} {m} {m}"},
    {1, "HEXISTS {h} {m}"},
    {1, "HLEN {h}"},
    {2, "HINCRBY {h} {m} {n}"},
    {2, "SADD {e} {m}"},
    {1, "SADD {e} {n} {n} {m}"},
    {1, "SREM {e} {m} {m}"},
    {1, "SCARD {e}"},
    {1, "SISMEMBER {e} {m}"},
};

// Replies of these depend on the moment or on the order of a set: not for use inside scripts.
constexpr weighted moment_templates[] = {
    {4, "PTTL {k}"}, {1, "TTL {k}"},      {2, "PEXPIRETIME {k}"}, {1, "EXPIRETIME {k}"},
    {1, "TIME"},     {2, "SMEMBERS {e}"}, {1, "DBSIZE"},
};

constexpr weighted client_templates[] = {
    {6, "PUBLISH {c} {v}"},
    {2, "SPUBLISH {c} {v}"},
    {3, "SUBSCRIBE {c}"},
    {1, "SUBSCRIBE {c} {c}"},
    {1, "SSUBSCRIBE {c}"},
    {2, "UNSUBSCRIBE {c}"},
    {1, "SUNSUBSCRIBE {c}"},
    {2, "PING"},
    {1, "PING {v}"},
    {1, "CLIENT ID"},
    {1, "CLIENT GETNAME"},
    {1, "CLIENT SETNAME {m}"},
    {1, "CLIENT KILL ID {i} ADDR @addr@"},
    {1, "CLIENT KILL ID {i}"},
    {2, "HELLO 3"},
    {1, "HELLO 2"},
    {1, "HELLO"},
    {1, "SELECT 1"},
    {3, "SELECT 0"},
    {1, "SELECT {n}"},
    {1, "SCRIPT FLUSH"},
    {1, "FLUSHALL"},
    {1, "CONFIG GET maxmemory-policy"},
    {1, "SCRIPT EXISTS {v}"},
    {1, "AUTH {v}"},
};

template <std::size_t N>
constexpr int total_weight(weighted const (&list)[N]) {
  int sum = 0;
  for (auto const& item : list) {
    sum += item.weight;
  }
  return sum;
}

template <std::size_t N>
std::string_view at_weight(weighted const (&list)[N], std::size_t number) {
  auto left = static_cast<int>(number);
  for (auto const& item : list) {
    left -= item.weight;
    if (left < 0) {
      return item.text;
    }
  }
  return list[0].text;
}

std::string lua_quoted(std::string_view text) {
  std::string out = "'";
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '\'' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\%03u", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace

generator::generator(std::uint64_t seed, std::size_t connections) : state_{seed}, connections_{connections} {}

// splitmix64: the same numbers from every standard library.
std::uint64_t generator::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

generator::words generator::keys() { return {"s0", "s1", "h0", "h1", "z0", "z1", "e0", "e1", "x\0\r\n"s}; }

std::string generator::key(std::string_view kind) {
  if (kind == "k" || one_in(8)) {
    return pick(keys());
  }
  return std::string{kind} + (one_in(2) ? "0" : "1");
}

// One word of a template.
std::string generator::filled(std::string_view word) {
  if (!word.starts_with('{')) {
    return std::string{word};
  }
  auto const kind = word.substr(1, 1);
  switch (kind[0]) {
    case 'v': {
      static words const values{"",
                                "0",
                                "1",
                                "-1",
                                "10",
                                "007",
                                "+5",
                                " 3",
                                "3.5",
                                "1e3",
                                "abc",
                                "nan",
                                "inf",
                                "-0",
                                "x y",
                                "a\0b\r\n"s,
                                "9223372036854775807",
                                "-9223372036854775808",
                                "9223372036854775808",
                                "9007199254740993",
                                "5",
                                "42"};
      return pick(values);
    }
    case 'n': {
      static words const odd{"x", "", "1.5", "9223372036854775807", "-9223372036854775808", "01"};
      return one_in(12) ? pick(odd) : std::to_string(static_cast<int>(below(9)) - 3);
    }
    case 'f': {
      static words const odd{"1.5",   "-inf",   "+inf",  "inf", "nan",  "(1",
                             "1e400", "abc",    "",      " 1",  "0x10", "9007199254740993",
                             "-0",    "1e-400", "3.0e5", "0.1", "1e17", "-1e16"};
      return one_in(3) ? pick(odd) : std::to_string(static_cast<int>(below(9)) - 2);
    }
    case 'b': {
      static words const odd{"-inf", "+inf", "(1", "(3", "(-inf", "abc", "(", "", "( 2", "1.5", "nan", "1x"};
      return one_in(2) ? pick(odd) : std::to_string(static_cast<int>(below(9)) - 2);
    }
    case 'm': {
      static words const odd{"", "a\0b"s, "M1", "m", "11"};
      return one_in(6) ? pick(odd) : "m" + std::to_string(below(5));
    }
    case 't': {
      static words const odd{"0", "-1", "x", "9223372036854775807", "-9223372036854775808"};
      return one_in(8) ? pick(odd) : std::to_string(1'000'000 * (1 + below(1'000'000)));
    }
    case 'T': {
      static words const odd{"0", "-1", "x", "9223372036854775", "9223372036854775807"};
      return one_in(8) ? pick(odd) : std::to_string(4'000'000'000 + 1'000 * below(1'000'000));
    }
    case 'a': {
      static words const odd{"0", "-1", "1", "x", "1600000000000", "9223372036854775807"};
      return one_in(3) ? pick(odd) : std::to_string(4'102'444'800'000 + below(1'000'000'000));
    }
    case 'c': return "c" + std::to_string(below(3));
    case 'i': return "@id" + std::to_string(below(connections_)) + "@";
    default: return key(kind);
  }
}

generator::words generator::from_template(std::string_view text) {
  words argv;
  bool const has_time = text.find("{t}") != text.npos || text.find("{T}") != text.npos || text.find("{a}") != text.npos;
  while (!text.empty()) {
    auto const end = text.find(' ');
    argv.push_back(filled(text.substr(0, end)));
    text = end == text.npos ? std::string_view{} : text.substr(end + 1);
  }
  // UNSUBSCRIBE from all leaves the channels in whatever order.
  if (one_in(25) && argv[0].find("UNSUBSCRIBE") == std::string::npos) {
    argv.pop_back();
  }
  if (one_in(25) || argv.empty()) {
    argv.push_back(filled("{v}"));
  }
  // Not where it might make a short time to live out of a long one, or kill by another address.
  if (one_in(25) && !has_time && argv[0] != "CLIENT") {
    argv[below(argv.size())] = filled("{v}");
  }
  if (one_in(10)) {
    for (char& c : argv[0]) {
      c = c >= 'A' && c <= 'Z' && one_in(2) ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return argv;
}

generator::words generator::script_command() {
  static constexpr std::string_view others[] = {
      "PUBLISH {c} {v}", "SPUBLISH {c} {v}", "PING", "SELECT 1",    "SELECT {n}",
      "SUBSCRIBE {c}",   "CLIENT ID",        "EVAL", "NONE {v}",    "CLIENT NONE",
      "HELLO 3",         "PUBLISH {c} {v}",  "TYPE", "SCRIPT FLUSH"};
  switch (below(8)) {
    case 0: return from_template(pick(others));
    case 1:
    case 2: return from_template(at_weight(key_templates, below(total_weight(key_templates))));
    default: return from_template(at_weight(data_templates, below(total_weight(data_templates))));
  }
}

std::pair<std::size_t, generator::words> generator::command() {
  auto const who = below(connections_);
  switch (below(10)) {
    case 0:
    case 1: return {who, from_template(at_weight(key_templates, below(total_weight(key_templates))))};
    case 2:
    case 3:
    case 4: return {who, from_template(at_weight(data_templates, below(total_weight(data_templates))))};
    case 5: {
      auto argv = from_template(at_weight(client_templates, below(total_weight(client_templates))));
      // A subscribed connection of RESP2 may do next to nothing, so only one speaks it.
      if (argv == words{"HELLO", "2"} && who + 1 != connections_) {
        argv[1] = "3";
      }
      return {who, argv};
    }
    case 6: return {who, from_template(at_weight(moment_templates, below(total_weight(moment_templates))))};
    default: return {who, script_run()};
  }
}

generator::words generator::script_run() {
  words argv{"EVAL", "", "2", key("k"), key("z"), filled("{v}"), filled("{n}")};
  if (!scripts_.empty() && one_in(3)) {
    argv[0] = "EVALSHA";
    argv[1] = sha1_hex(pick(scripts_));
    return argv;
  }
  argv[1] = script();
  if (scripts_.size() < 10) {
    scripts_.push_back(argv[1]);
  } else {
    scripts_[below(scripts_.size())] = argv[1];
  }
  return argv;
}

// ---- Lua ----

std::string generator::redis_call(char const* function) {
  std::string out = "redis."s + function + "(";
  bool first = true;
  for (auto const& word : script_command()) {
    if (!first) {
      out += ", ";
    }
    first = false;
    static words const odd{"nil",  "{}",      "true",    "1.5",     "2^53",   "-1",
                           "1e20", "KEYS[1]", "KEYS[2]", "ARGV[1]", "ARGV[2]"};
    bool const numeric =
        !word.empty() && word.find_first_not_of("0123456789") == word.npos && word.size() < 15 && word[0] != '0';
    if (numeric && one_in(2)) {
      out += word;
    } else if (one_in(40)) {
      out += pick(odd);
    } else {
      out += lua_quoted(word);
    }
  }
  return out + ")";
}

std::string generator::table(int depth) {
  std::string out = "{";
  for (auto left = below(4); left > 0; --left) {
    out += expression(depth - 1) + ", ";
  }
  return out + "}";
}

std::string generator::expression(int depth) {
  if (depth <= 0) {
    return pick(lua_values());
  }
  switch (below(14)) {
    case 0:
    case 1: return table(depth);
    case 2:
    case 3:
    case 4: return redis_call("pcall");
    case 5: return redis_call("call");
    case 6: return "{pcall(function() return " + expression(depth - 1) + " end)}";
    case 7: return "{type(" + expression(depth - 1) + "), #" + table(depth) + "}";
    case 8: return "{map = {a = " + expression(depth - 1) + "}}";
    case 9: return "(" + expression(depth - 1) + " == " + expression(depth - 1) + ")";
    case 10: return "KEYS[" + std::to_string(below(4)) + "]";
    case 11: return "ARGV[" + std::to_string(below(4)) + "]";
    case 12: return "tonumber(ARGV[2])";
    default: return pick(lua_values());
  }
}

std::string generator::statement(int depth) {
  switch (below(12)) {
    case 0: return "local v = " + expression(depth) + "\n";
    case 1: return "local e = " + redis_call("pcall") + " if type(e) == 'table' and e.err then return e end\n";
    case 2: return "for i = 1, " + std::to_string(below(3)) + " do " + redis_call("pcall") + " end\n";
    case 3: return one_in(2) ? "redis.setresp(3)\n" : "redis.setresp(2)\n";
    case 4: return one_in(6) ? pick(failing_scripts()) + "\n" : "\n";
    case 5: return "do " + redis_call("call") + " end\n";
    default: return redis_call("pcall") + "\n";
  }
}

std::string generator::script() {
  std::string out;
  for (auto left = below(5); left > 0; --left) {
    out += statement(2);
  }
  return one_in(8) ? out : out + "return " + expression(3);
}

}  // namespace conch::sim
