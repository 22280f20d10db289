// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/fork_safe_mutex.hpp"
#include "protocol/replies.hpp"
#include "protocol/wire.hpp"
#include "rules/lock.hpp"

#include <conch/detail/api.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

namespace conch::memory {

/// The lock server of `memory://NAME`: names, clients and what is forgotten. What a request does to a lock is in
/// src/rules. It has no clock and starts no thread; every call is complete when it returns. Any thread may use it.
class store {
 public:
  /// Receives the pushes to one client.
  class listener {
   public:
    /// Called while the store is locked, by the thread whose command caused the push. It may only queue the push, and
    /// must not call the store. The name is valid during the call only. As on a Redis server, a push that a client's
    /// own command causes comes before the answer to that command.
    virtual void on_push(protocol::push const& p) = 0;

   protected:
    ~listener() = default;
  };

  store() = default;
  store(store const&) = delete;
  store& operator=(store const&) = delete;

  /// The store of that name in this process, made when it is first asked for. It stays until the program ends, as a
  /// server stays when its clients go. The fences, and the locks of a client that was never closed, outlive the client.
  static std::shared_ptr<store> named(std::string_view name);

  /// From now on pushes for `client` go to `l`, which must live until unsubscribe has returned: no call of on_push is
  /// under way after that. A client has one listener: the last one counts. `client` contains no dot.
  CONCH_API void subscribe(std::string client, listener& l);
  CONCH_API void unsubscribe(std::string_view client);

  /// Carries out a command of `client` at the time `now_us`: microseconds since 1970, which may step back as a server's
  /// clock may. Returns the reply that a client of Redis reads from the answer of a script. If that answer may be
  /// WRONGTYPE the reply is optional, and empty for WRONGTYPE. Leases, claims and retention are at least 1 ms. The
  /// commands about connections do nothing here; only prove_publish reports whether `client` is subscribed.
  template <class Command>
  auto carry_out(Command const& c, std::string_view client, std::int64_t now_us) {
    std::lock_guard const lock{mutex_};
    drop_expired(now_us);
    return answer_to(c, client, now_us);
  }

  /// The same with a command of any kind. Calls answered(std::optional{reply}) while the store is still locked, as
  /// on_push is called: it may only queue the reply. A grant that another client's command causes later is then queued
  /// behind this answer, as on a connection.
  template <class F>
  void carry_out(protocol::command const& c, std::string_view client, std::int64_t now_us, F&& answered) {
    std::lock_guard const lock{mutex_};
    drop_expired(now_us);
    std::visit([&](auto const& one) { answered(std::optional{answer_to(one, client, now_us)}); }, c);
  }

  /// The number of names about which anything is remembered: a lock, a line or a last fence. Expired ones go at the
  /// next command.
  std::size_t size() const;

 private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };

  struct known {
    std::string name;
    rules::lock lock;
    std::int64_t looked_at = 0;  // its place in agenda_; 0: none
  };

  /// The clients that a request about one lock reaches.
  struct audience;

  // Empty: WRONGTYPE.
  using acquired = std::optional<protocol::acquire_reply>;
  using released = std::optional<protocol::release_reply>;
  using ordered = std::optional<protocol::order_reply>;

  // One function for each command.
  CONCH_API acquired answer_to(protocol::acquire_command const& c, std::string_view client, std::int64_t now_us);
  CONCH_API protocol::tries_reply answer_to(protocol::acquire_all_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API released answer_to(protocol::release_command const& c, std::string_view client, std::int64_t now_us);
  CONCH_API protocol::renew_reply answer_to(protocol::renew_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API protocol::renew_reply answer_to(protocol::confirm_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API engine::lock_report answer_to(protocol::inspect_command const& c, std::string_view client,
                                          std::int64_t now_us);
  CONCH_API protocol::order_reply answer_to(protocol::force_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API protocol::order_reply answer_to(protocol::request_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API protocol::session_reply answer_to(protocol::requested_command const& c, std::string_view,
                                              std::int64_t) const;
  CONCH_API protocol::watch_reply answer_to(protocol::watch_command const& c, std::string_view client,
                                            std::int64_t now_us);
  CONCH_API protocol::session_reply answer_to(protocol::unwatch_command const& c, std::string_view client,
                                              std::int64_t now_us);
  CONCH_API protocol::session_reply answer_to(protocol::introduce_command const& c, std::string_view,
                                              std::int64_t now_us);
  CONCH_API protocol::identity_reply answer_to(protocol::identify_command const& c, std::string_view,
                                               std::int64_t now_us) const;
  CONCH_API ordered answer_to(protocol::limit_command const& c, std::string_view client, std::int64_t now_us);
  protocol::session_reply answer_to(protocol::prove_publish_command const&, std::string_view client,
                                    std::int64_t) const {
    return {.count = listeners_.contains(client) ? 1 : 0};
  }
  protocol::session_reply answer_to(protocol::kill_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::subscribe_command const&, std::string_view, std::int64_t) const {
    return {};
  }
  protocol::session_reply answer_to(protocol::ping_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::asking_command const&, std::string_view, std::int64_t) const {
    return {};
  }
  protocol::session_reply answer_to(protocol::mark_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::wait_command const&, std::string_view, std::int64_t) const { return {}; }

  /// Calls request(lock, moment).
  template <class Command, class Request>
  auto carry_out_at(known& k, Command const& c, std::string_view client, std::int64_t now_us, Request&& request);

  known* find(std::string_view name) const;
  known& find_or_make(std::string_view name);
  CONCH_API void drop_expired(std::int64_t now_us);
  void put_on_agenda(known& k);

  /// What a client has told about itself, and until when that is kept.
  struct introduction {
    std::string text;
    std::int64_t until_us;
  };

  mutable fork_safe_mutex mutex_;
  std::unordered_map<std::string, listener*, text_hash, std::equal_to<>> listeners_;
  std::unordered_map<std::string_view, std::unique_ptr<known>> names_;  // keys live in what they lead to
  std::unordered_map<std::string, introduction, text_hash, std::equal_to<>> introductions_;  // by client
  std::set<std::pair<std::int64_t, known*>> agenda_;  // when something of a lock expires
};

}  // namespace conch::memory
