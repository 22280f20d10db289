// Commands and scripts for comparing the model with a real server: random ones from a seed, and
// lists of those that chance would rarely make.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::sim {

class generator {
 public:
  using words = std::vector<std::string>;

  generator(std::uint64_t seed, std::size_t connections);

  // A connection and what it sends. Nothing in it expires while a test runs: expiry times are in
  // the past or far away, and no two relative ones are near each other.
  std::pair<std::size_t, words> command();

  // All keys that the commands use.
  static words keys();

 private:
  std::uint64_t next();
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  auto const& pick(List const& list) {
    return list[below(std::size(list))];
  }

  words from_template(std::string_view text);
  std::string filled(std::string_view word);
  std::string key(std::string_view kind);
  words script_command();
  words script_run();

  std::string script();
  std::string statement(int depth);
  std::string expression(int depth);
  std::string table(int depth);
  std::string redis_call(char const* function);

  std::uint64_t state_;
  std::size_t connections_;
  words scripts_;  // some that were run, for EVALSHA
};

// Lua expressions, each to be returned from a script.
std::vector<std::string> const& lua_values();

// Scripts that fail, some after a write to the key "before". KEYS is {"k", "l"}, ARGV {"1", "x"}.
std::vector<std::string> const& failing_scripts();

}  // namespace conch::sim
