// lua/*.lua by tables: what lies there, a call, and what must come of it, from docs/protocol.md. The differential tests
// compare the scripts with src/rules, and would not notice a mistake that both make.
//
// Keys are L, L:q, L:f (and M, N). {now} is the server's time in µs, {clock} the same as fences count it; {now+5} and
// the like. A client is called a, b ...: its id in a key or push is "a.1".

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "resp/decoder.hpp"
#include "servers/redis/codec.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/messages.hpp"

namespace conch::sim {

using namespace engine;
using namespace protocol;
using ms = std::chrono::milliseconds;

constexpr std::int64_t clock_us = 1'000'000'000'000;
constexpr std::int64_t now_us = fence_epoch_us + clock_us;
constexpr ms lease{30'000}, claim{3'000}, retention{600'000};

inline std::string expanded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::int64_t base = 0;
    std::size_t word = 0;
    if (text.substr(i).starts_with("{now")) base = now_us, word = 4;
    if (text.substr(i).starts_with("{clock")) base = clock_us, word = 6;
    if (word == 0) {
      out += text[i];
      continue;
    }
    std::size_t const end = text.find('}', i);
    std::string const rest{text.substr(i + word, end - i - word)};
    out += std::to_string(base + (rest.empty() ? 0 : std::stoll(rest)));
    i = end;
  }
  return out;
}

inline std::string full_key(std::string const& word) {
  bool const is_key =
      !word.empty() && (word[0] == 'L' || word[0] == 'M' || word[0] == 'N') && (word.size() == 1 || word[1] == ':');
  return is_key ? "conch:{" + word.substr(0, 1) + "}" + word.substr(1) : word;
}

inline std::string short_key(std::string const& key) { return key.substr(7, 1) + key.substr(9); }

/// Words, of which one in quotes may have spaces.
inline std::vector<std::string> words_of(std::string const& line) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ' ') {
      ++i;
      continue;
    }
    bool const quoted = line[i] == '\'';
    std::size_t const from = quoted ? i + 1 : i;
    std::size_t const end = std::min(line.find(quoted ? '\'' : ' ', from), line.size());
    words.push_back(full_key(line.substr(from, end - from)));
    i = end + 1;
  }
  return words;
}

inline std::string shown(value const& v) {
  switch (v.type) {
    case value::kind::nil: return "nil";
    case value::kind::integer: return std::to_string(v.integer);
    case value::kind::error: return "error " + v.text.substr(0, v.text.find(' '));
    case value::kind::array: {
      std::string out = "[";
      for (value const& item : v.items) out += (out.size() > 1 ? " " : "") + shown(item);
      return out + "]";
    }
    case value::kind::map: {
      std::vector<std::string> fields;
      for (std::size_t i = 0; i + 1 < v.items.size(); i += 2)
        fields.push_back(v.items[i].text + "=" + v.items[i + 1].text);
      std::sort(fields.begin(), fields.end());
      std::string out = "{";
      for (std::string const& field : fields) out += (out.size() > 1 ? ", " : "") + field;
      return out + "}";
    }
    default: return v.text;
  }
}

struct row {
  char const* says;
  std::string given;      // commands, one to a line
  std::string listening;  // clients, one letter each
  command call;           // by client a
  std::string answer;
  std::string left;         // KEY=VALUE (TTL in ms), by key, one to a line
  std::string pushes = "";  // receiver: what, one to a line
};

class server_of_row {
 public:
  server_of_row() : admin_{connect()} {}

  void give(std::string const& lines) {
    for (std::size_t at = 0; at < lines.size();) {
      std::size_t const end = std::min(lines.find('\n', at), lines.size());
      std::vector<std::string> const words = words_of(expanded(lines.substr(at, end - at)));
      at = end + 1;
      if (words.empty()) continue;
      if (words[0] == "FULL" || words[0] == "STRICT") {  // what the server is like from here on
        if (words[0] == "FULL") model_.set_out_of_memory(true);
        else model_.demand_declared_keys();
        continue;
      }
      std::vector<std::string_view> const argv(words.begin(), words.end());
      value const reply = model_.execute(admin_, argv);
      EXPECT_FALSE(reply.is_error()) << reply.text;
    }
  }

  void listen(std::string const& clients) {
    for (char const client : clients) {
      auto const id = connect();
      listeners_.push_back({id, client});
      std::string const channel = std::string{"conch:"} + client;
      std::string_view const argv[] = {"SUBSCRIBE", channel};
      model_.execute(id, argv);
    }
    model_.take_pushes();
  }

  std::string call(command const& c) {
    command with_source = c;
    std::visit(
        [](auto& one) {
          if constexpr (requires { one.with_source; }) one.with_source = true;
        },
        with_source);
    std::string bytes;
    redis::encode(with_source, "a", bytes);
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    std::vector<std::string_view> words;
    for (auto const& node : message.subspan(1)) words.push_back(node.text);
    std::string const source{mutated_script(words[1])};
    words[1] = source;
    return shown(model_.execute(admin_, words));
  }

  std::string left() const {
    std::string out;
    for (auto const& key : model_.keys()) {
      value const content = model_.peek(key.name);
      std::string text;
      if (key.type == "zset") {
        for (value const& item : content.items)
          text += (text.empty() ? "" : " ") + item.items[0].text + "@" + item.items[1].text;
        text = "[" + text + "]";
      } else {
        text = shown(content);
      }
      auto const ends = key.expires_at_ms;
      out += short_key(key.name) + "=" + text + (ends ? " (" + std::to_string(*ends - now_us / 1000) + ")" : "") + "\n";
    }
    return out;
  }

  std::string pushes() {
    std::string out;
    for (auto const& push : model_.take_pushes()) {
      for (auto const& [id, client] : listeners_) {
        if (id == push.to) out += std::string{client} + ": " + push.message.items.back().text + "\n";
      }
    }
    return out;
  }

 private:
  redis_model::connection_id connect() {
    auto const id = model_.connect("10.0.0.1:" + std::to_string(++port_));
    std::string_view const hello[] = {"HELLO", "3"};
    model_.execute(id, hello);
    return id;
  }

  redis_model model_{now_us};
  int port_ = 0;
  redis_model::connection_id admin_;
  std::vector<std::pair<redis_model::connection_id, char>> listeners_;
};

/// What is not as it should be; empty: nothing.
inline std::string difference(row const& r) {
  server_of_row server;
  server.give(r.given);
  server.listen(r.listening);
  std::string const answer = server.call(r.call);
  std::string const left = server.left();
  std::string const pushes = server.pushes();
  std::string out;
  if (answer != expanded(r.answer)) out += "answers " + answer + "\nand not " + expanded(r.answer) + "\n";
  if (left != expanded(r.left)) out += "leaves\n" + left + "and not\n" + expanded(r.left);
  if (pushes != expanded(r.pushes)) out += "pushes\n" + pushes + "and not\n" + expanded(r.pushes);
  return out;
}

// ---- calls ----

inline acquire_command take(std::string_view name, bool wait = true, std::int64_t ticket = 0) {
  return {
      .name = name, .id = 1, .wait = wait, .lease = lease, .claim = claim, .retention = retention, .ticket = ticket};
}

inline acquire_command vote(std::int64_t proposal, bool wait = true) {
  acquire_command c = take("L", wait);
  c.proposal = proposal;
  return c;
}

inline acquire_command late(std::int64_t not_after) {
  acquire_command c = take("L");
  c.not_after_us = not_after;
  return c;
}

inline release_command give_back(grant_id id = 1, bool keep = false, grant_id again = 0) {
  return {.name = "L", .id = id, .keep = keep, .lease = lease, .claim = claim, .retention = retention, .new_id = again};
}

inline release_command give_back_vote(std::int64_t floor, std::int64_t ahead = 0) {
  release_command c = give_back();
  c.floor = floor;
  c.next_fence_floor = ahead;
  return c;
}

/// Within the minimum interval.
inline release_command give_back_later(ms ends_in, std::int64_t floor = 0) {
  release_command c = give_back();
  c.ends_in = ends_in;
  c.floor = floor;
  return c;
}

inline permit const one_of_3{permit_kind::semaphore, 3, 1, 0, "-"};
inline permit const two_of_3{permit_kind::semaphore, 3, 2, 0, "-"};
inline permit const five_of_3{permit_kind::semaphore, 3, 5, 0, "-"};
inline permit const reader{permit_kind::shared, 1'000'000, 1, 0, "-"};
inline permit const writer{permit_kind::shared, 1'000'000, 1'000'000, 0, "-"};
inline permit const segment_of_3{permit_kind::segments, 3, 1, 1, "-"};
inline permit const not_segment_2{permit_kind::segments, 3, 1, 1, ",2,"};
inline permit const of_owner{permit_kind::reentrant, 1'000'000, 1, 0, "6f"};

inline acquire_command take_permit(permit const& wanted, bool wait = true, std::int64_t ticket = 0) {
  acquire_command c = take("L", wait, ticket);
  c.permit = &wanted;
  return c;
}

inline release_command give_permit_back(permit const& had, bool keep = false, std::uint32_t rest = 0) {
  release_command c = give_back(1, keep);
  c.permit = &had;
  c.rest = rest;
  return c;
}

inline force_command force(std::optional<std::int64_t> fence = {}) {
  return {.name = "L", .claim = claim, .retention = retention, .fence = fence};
}

// ---- tables ----

inline void expect_all(std::vector<row> const& rows) {
  use_small_steps(false);  // a simulation before this test, in the same process, may have left them on
  for (row const& r : rows) EXPECT_EQ(difference(r), "") << r.says << "\ngiven\n" << r.given;
}

// ---- what the tables are good for: mistakes of which each must show in a row ----

struct mistake {
  char const* script;  // empty: in all
  char const* from;
  char const* to;
};

inline void expect_each_to_show(std::vector<mistake> const& mistakes, std::vector<row> const& rows) {
  for (auto const& [script, from, to] : mistakes) {
    mutant const m{.name = "mistake", .words = "", .rule = "", .script = script, .from = from, .to = to};
    activate(&m);  // throws where the text is not found
    bool const shows = std::any_of(rows.begin(), rows.end(), [](row const& r) { return !difference(r).empty(); });
    activate(nullptr);
    EXPECT_TRUE(shows) << script << ": " << from << "\n-> " << to;
  }
}

}  // namespace conch::sim
