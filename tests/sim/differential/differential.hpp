// A real server and the model side by side: the same connections, the same commands, and what
// every connection then receives, compared in order and to the byte.
//
// Not compared, because no two servers agree on it: connection ids, the time (but it must be
// near), the order in sets and maps, and texts that describe the server (INFO, CLIENT INFO).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sim/differential/raw_redis_client.hpp"
#include "sim/differential/real_redis_server.hpp"
#include "sim/model/redis_model.hpp"

namespace conch::sim {

class differential {
 public:
  using words = std::vector<std::string>;

  explicit differential(std::size_t connections = 3) : pairs_(connections) {
    for (auto& pair : pairs_) {
      connect(pair);
    }
    // Expired keys have to stay until a command touches them, as they do in the model.
    real_only({"DEBUG", "SET-ACTIVE-EXPIRE", "0"});
  }

  redis_model& model() { return model_; }
  std::size_t size() const { return pairs_.size(); }

  // Sends the command on both sides and compares what all connections then receive: pushes,
  // replies, the end of the connection. In the words, @id0@ stands for the CLIENT ID of the first
  // connection and @addr@ for the address that all have. True if nothing differed.
  bool run_same(std::size_t who, words const& argv) {
    if (may_compare_expiries(argv)) std::this_thread::sleep_for(std::chrono::milliseconds{3});
    let_end_what_ends_soon();
    auto const real = run_real(who, argv);
    auto modelled = run_model(who, argv);
    forget_delay(argv, real[who], modelled[who]);
    bool same = true;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto const a = normal_form(i, argv, real[i]);
      auto const b = normal_form(i, argv, modelled[i]);
      if (a == b) {
        continue;
      }
      same = false;
      ADD_FAILURE() << "connection " << i << " after connection " << who << " sent\n  " << printed(argv)
                    << "\n  real:  " << shown(real[i]) << "\n  model: " << shown(modelled[i]);
    }
    for (auto& pair : pairs_) {
      if (pair.closed || !model_.connected(pair.id)) {
        model_.disconnect(pair.id);
        connect(pair);
      }
    }
    return same;
  }

  bool run_same(words const& argv) { return run_same(0, argv); }

  // EVAL, with the keys k1, k2 ... and arguments that scripts may count on.
  bool run_same_script(std::string const& body, words const& keys = {}, words const& more = {}) {
    words argv{"EVAL", body, std::to_string(keys.size())};
    argv.insert(argv.end(), keys.begin(), keys.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return run_same(argv);
  }

  // To bring the server into a state that the model has a call of its own for.
  value real_only(words const& argv) {
    auto const replies = run_real(0, argv);
    return replies[0].empty() ? value{} : replies[0].front();
  }

  // Compares all that the keys hold, and when they expire.
  bool compare_keys(words const& keys) {
    bool same = true;
    for (auto const& key : keys) {
      for (char const* command : {"TYPE", "PTTL", "GET", "HGETALL", "SMEMBERS"}) {
        same = run_same({command, key}) && same;
      }
      same = run_same({"ZRANGE", key, "0", "-1", "WITHSCORES"}) && same;
    }
    return same;
  }

 private:
  struct both_ends {
    std::unique_ptr<raw_redis_client> real;
    redis_model::connection_id id = 0;  // in the model
    std::int64_t real_id = 0;
    int protocol = 2;
    bool closed = false;
  };

  using received = std::vector<value>;  // a closed connection ends with kind `none`

  static std::int64_t now_us() {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }

  // The real server carries the command out a little later, on a busy machine much later. What ends meanwhile would be
  // there in the model only.
  void let_end_what_ends_soon() {
    // the server wrote it down after the model had been told the time
    constexpr std::int64_t soon_ms = 200, later_ms = 50;
    for (bool ends = true; ends;) {
      ends = false;
      model_.set_time_us(now_us());
      for (auto const& key : model_.keys()) {
        if (!key.expires_at_ms || *key.expires_at_ms > now_us() / 1000 + soon_ms) continue;
        std::this_thread::sleep_for(
            std::chrono::milliseconds{std::max<std::int64_t>(1, *key.expires_at_ms + later_ms - now_us() / 1000)});
        ends = true;
      }
    }
  }

  // PEXPIRE with GT or LT after another with the same time: which of them ends later depends on the millisecond in
  // which each side carries them out, if no time lies between them.
  static bool may_compare_expiries(words const& argv) {
    return std::any_of(argv.begin(), argv.end(), [](std::string const& word) {
      return word == "GT" || word == "LT" || word.starts_with("EVAL");
    });
  }

  std::string address() const { return server_.socket_path() + ":0"; }

  void connect(both_ends& fresh) {
    fresh.real = std::make_unique<raw_redis_client>(server_.socket_path());
    fresh.closed = false;
    fresh.protocol = 3;
    std::string_view const hello[] = {"HELLO", "3"};
    std::string_view const client_id[] = {"CLIENT", "ID"};
    fresh.real->add(hello);
    fresh.real->add(client_id);
    fresh.real->flush();
    fresh.real->read();
    auto const id = fresh.real->read();
    if (!id || id->type != value::kind::integer) {
      throw std::runtime_error{"the server did not tell the connection's id"};
    }
    fresh.real_id = id->integer;
    fresh.id = model_.connect(address());
    model_.execute(fresh.id, hello);
  }

  words filled_in(words argv, bool real) const {
    for (auto& word : argv) {
      if (word == "@addr@") {
        word = address();
      }
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (word == "@id" + std::to_string(i) + "@") {
          auto const& pair = pairs_[i];
          word = real ? std::to_string(pair.real_id) : std::to_string(pair.id);
        }
      }
    }
    return argv;
  }

  static std::vector<std::string_view> views(words const& argv) { return {argv.begin(), argv.end()}; }

  // A PING behind the command tells where the answers to the command end, on every connection.
  std::vector<received> run_real(std::size_t who, words const& argv) {
    auto const filled = filled_in(argv, true);
    pairs_[who].real->add(views(filled));
    std::string const mark = "mark " + std::to_string(++marks_);
    std::string_view const ping[] = {"PING", mark};
    pairs_[who].real->add(ping);
    pairs_[who].real->flush();
    std::vector<received> result(pairs_.size());
    result[who] = read_until(pairs_[who], mark);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (i != who) {
        pairs_[i].real->add(ping);
        pairs_[i].real->flush();
        result[i] = read_until(pairs_[i], mark);
      }
    }
    return result;
  }

  static received read_until(both_ends& from, std::string const& mark) {
    received result;
    for (;;) {
      auto next = from.real->read();
      if (!next) {
        from.closed = true;
        result.emplace_back();
        return result;
      }
      auto const& last = next->items.empty() ? *next : next->items.back();
      if (last.text == mark) {
        return result;
      }
      result.push_back(std::move(*next));
    }
  }

  std::vector<received> run_model(std::size_t who, words const& argv) {
    auto const filled = filled_in(argv, false);
    value reply = model_.execute(pairs_[who].id, views(filled));
    std::vector<received> result(pairs_.size());
    received later;
    for (auto& [to, message, after_reply] : model_.take_pushes()) {
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (pairs_[i].id == to) {
          (after_reply ? later : result[i]).push_back(std::move(message));
        }
      }
    }
    if (reply.type != value::kind::none) {
      result[who].push_back(std::move(reply));
    }
    result[who].insert(result[who].end(), later.begin(), later.end());
    for (auto const id : model_.take_killed()) {
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (pairs_[i].id == id) {
          result[i].emplace_back();
        }
      }
    }
    return result;
  }

  static bool is(words const& argv, std::size_t i, std::string_view name) {
    return i < argv.size() && std::equal(argv[i].begin(), argv[i].end(), name.begin(), name.end(),
                                         [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  }

  // What to compare, as bytes.
  std::string normal_form(std::size_t who, words const& argv, received messages) {
    std::string bytes;
    for (auto& message : messages) {
      forget_what_differs(who, argv, message);
      sort_unordered(message, pairs_[who].protocol);
      if (message.type == value::kind::none) {
        bytes += "closed";
      }
      append_resp(bytes, message, pairs_[who].protocol);
    }
    return bytes;
  }

  void forget_what_differs(std::size_t who, words const& argv, value& message) {
    if (is(argv, 0, "hello") && message.items.size() > 7) {
      pairs_[who].protocol = static_cast<int>(message.items[5].integer);
      message.items[7] = value::number(0);
    } else if (is(argv, 0, "client") && is(argv, 1, "id") && !message.is_error()) {
      message.integer = 0;
    } else if (is(argv, 0, "smembers") && message.type == value::kind::array) {
      message.type = value::kind::set;  // RESP2 has no type for it
    }
  }

  // A time in a reply may differ by what passes between the two servers' answers.
  static void forget_delay(words const& argv, received const& real, received& modelled) {
    bool const seconds = is(argv, 0, "ttl") || is(argv, 0, "expiretime");
    bool const milliseconds = is(argv, 0, "pttl") || is(argv, 0, "pexpiretime");
    if (real.size() != modelled.size()) {
      return;
    }
    auto const near = [](std::int64_t a, std::int64_t b, std::int64_t most) {
      return a > 0 && b > 0 && std::abs(a - b) <= most;
    };
    for (std::size_t i = 0; i < real.size(); ++i) {
      auto const& a = real[i];
      auto& b = modelled[i];
      if ((seconds && near(a.integer, b.integer, 5)) || (milliseconds && near(a.integer, b.integer, 5000))) {
        b.integer = a.integer;
      } else if (is(argv, 0, "time") && a.items.size() == 2 && b.items.size() == 2 &&
                 near(std::stoll(a.items[0].text), std::stoll(b.items[0].text), 5)) {
        b = a;
      }
    }
  }

  static void sort_unordered(value& message, int protocol) {
    for (auto& item : message.items) {
      sort_unordered(item, protocol);
    }
    auto const bytes = [](value const& item) {
      std::string out;
      append_resp(out, item);
      return out;
    };
    if (message.type == value::kind::set) {
      std::sort(message.items.begin(), message.items.end(),
                [&](value const& a, value const& b) { return bytes(a) < bytes(b); });
    } else if (message.type == value::kind::map && protocol == 3) {
      std::vector<std::pair<value, value>> entries;
      for (std::size_t i = 0; i + 1 < message.items.size(); i += 2) {
        entries.emplace_back(message.items[i], message.items[i + 1]);
      }
      std::sort(entries.begin(), entries.end(),
                [&](auto const& a, auto const& b) { return bytes(a.first) < bytes(b.first); });
      message.items.clear();
      for (auto& [key, content] : entries) {
        message.items.push_back(std::move(key));
        message.items.push_back(std::move(content));
      }
    }
  }

  static std::string printed(words const& argv) {
    std::string text;
    for (auto const& word : argv) {
      text += describe(value::bulk(word)) + ' ';
    }
    return text;
  }

  static std::string shown(received const& messages) {
    std::string text;
    for (auto const& message : messages) {
      text += (message.type == value::kind::none ? "closed" : describe(message)) + "  ";
    }
    return text;
  }

  real_redis_server server_;
  redis_model model_;
  std::vector<both_ends> pairs_;
  std::uint64_t marks_ = 0;
};

}  // namespace conch::sim
