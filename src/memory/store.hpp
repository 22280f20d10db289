// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/replies.hpp"
#include "protocol/wire.hpp"

#include <cstdint>
#include <functional>
#include <map>
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

/// The lock server of `memory://NAME`: it does in this process what lua/*.lua do on a Redis server. It has no clock and starts no thread;
/// every call is complete when it returns. Any thread may use it.
class store {
 public:
  /// Receives the pushes to one client.
  class listener {
   public:
    /// Called while the store is locked, by the thread whose command passed the lock on. It may only queue the grant, and must not call the
    /// store. `g.name` is valid during the call only. As on a Redis server, a push that a client's own command causes comes before the
    /// answer to that command.
    virtual void on_grant(protocol::pushed_grant const& g) = 0;
    /// Called in the same way: the lock was taken away by force.
    virtual void on_revoke(std::string_view name, engine::grant_id id) = 0;
    /// Called in the same way: somebody asks for the lock.
    virtual void on_request(std::string_view name, engine::grant_id id) = 0;
    /// Called in the same way: the lease of the owner of now ends in that time, if it is not renewed.
    virtual void on_end(std::string_view name, engine::grant_id id, std::chrono::milliseconds left) = 0;
    /// Called in the same way: the lock is free. `more`: this store has told only some of those who wait for that.
    virtual void on_freed(std::string_view name, engine::grant_id id, bool more) = 0;

   protected:
    ~listener() = default;
  };

  store() = default;
  store(store const&) = delete;
  store& operator=(store const&) = delete;

  /// The store of that name in this process, made when it is first asked for. It stays until the program ends, as a server stays when its
  /// clients go. The fences, and the locks of a client that was never closed, outlive the client.
  static std::shared_ptr<store> named(std::string_view name);

  /// From now on pushes for `client` go to `l`, which must live until unsubscribe has returned: no call of on_grant is under way after
  /// that. A client has one listener: the last one counts. `client` contains no dot.
  void subscribe(std::string client, listener& l);
  void unsubscribe(std::string_view client);

  /// Carries out a command of `client` at the time `now_us`: microseconds since 1970, which may step back as a server's clock may. Returns
  /// the reply that is read from the script's answer (see lua/*.lua). If that answer may be WRONGTYPE the reply is optional, and empty for
  /// WRONGTYPE. Leases, claims and retention are at least 1 ms. The commands about connections do nothing here; only prove_publish tells
  /// whether `client` is subscribed.
  template <class Command>
  auto carry_out(Command const& c, std::string_view client, std::int64_t now_us) {
    std::lock_guard const lock{mutex_};
    drop_expired(now_us / 1000);
    return answer_to(c, client, now_us);
  }

  /// The same with a command of any kind. Calls answered(std::optional{reply}) while the store is still locked, as on_grant is called: it
  /// may only queue the reply. A grant that another client's command causes later is then queued behind this answer, as on a connection.
  template <class F>
  void carry_out(protocol::command const& c, std::string_view client, std::int64_t now_us, F&& answered) {
    std::lock_guard const lock{mutex_};
    drop_expired(now_us / 1000);
    std::visit([&](auto const& one) { answered(std::optional{answer_to(one, client, now_us)}); }, c);
  }

  /// How much one command looks at, at most (lua/lib/lock.lua, lua/lib/permits.lua).
  struct bounds {
    std::int64_t most_steps = 100;  // heads of the line, or owners whose leases are over
    std::size_t few_owners = 100;   // more owners have their ends in order
  };
  void set_bounds(bounds const& b) { bounds_ = b; }  // for tests, before the first command

  /// The number of names about which anything is remembered: a lock, a line or a last fence. Expired ones go at the next command.
  std::size_t size() const;

 private:
  static constexpr std::int64_t none = -1;

  /// "CLIENT.N", as in the scripts: waiters with equal tickets stand in line in the order of these texts.
  struct grant {
    std::string text;
    engine::grant_id number = 0;
  };

  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };

  struct permit_owner {
    std::int64_t weight = 0, fence = 0;
    bool claimed = false;
    std::int64_t ends_us = 0;
    std::int64_t segment = 0;
  };

  /// The hash of a lock with several owners (lua/lib/permits.lua).
  struct permits_hash {
    engine::permit_kind kind = engine::permit_kind::none;
    std::int64_t limit = 0, used = 0, first_end_us = 0;
    std::string map;
    std::map<std::string, permit_owner, std::less<>> owners;
    bool limit_set = false;
    std::int64_t until = none;
    std::int64_t walked = 0;                              // no waiter with a ticket up to this one wants what is free
    bool indexed = false;                                 // all owners are in `ends`
    std::set<std::pair<std::int64_t, std::string>> ends;  // by a time; the lease does not end before it
    std::map<std::string, std::int64_t, std::less<>> end_of;
    std::int64_t ends_until = none;

    void note_end(std::string const& id, std::int64_t ends_us);
    void forget_end(std::string const& id);
    void forget_ends();
  };

  /// The keys of a lock, each with the millisecond after which it is gone.
  struct entry {
    std::string name;

    grant owner;
    std::int64_t owner_fence = 0;
    bool claimed = false;
    std::int64_t owner_until = none;

    permits_hash permits;  // instead of an owner

    std::map<std::pair<std::int64_t, std::string>, engine::grant_id> line;  // by ticket and text
    std::unordered_map<std::string, std::int64_t, text_hash, std::equal_to<>> tickets;
    std::int64_t line_until = none;

    std::int64_t fence = 0;
    std::int64_t fence_until = none;

    struct request {
      std::string asker;
      std::int64_t at_us = 0;
    };
    std::map<std::int64_t, request> requests;  // by the fence of the owner that is asked to let go
    std::int64_t requests_until = none;

    std::map<std::pair<std::int64_t, std::string>, engine::grant_id> watchers;  // by the time of their asking, and text
    std::int64_t watchers_until = none;
    std::int64_t alert_until = none;  // before that whoever frees the lock tells the watchers

    std::int64_t looked_at = none;  // its place in agenda_

    bool owned() const noexcept { return owner_until != none; }
    bool owned_by(std::string_view client, engine::grant_id id) const noexcept {
      return owned() && owner.number == id && owner.text.starts_with(client) && owner.text.size() == client.size() + 1 + engine::text_size(id);
    }
    std::int64_t next_expiry() const noexcept;
  };

  /// One command that is carried out: what lua/lib/lock.lua keeps in locals.
  struct script_context;
  struct permit_context;
  struct seen_owners;

  // Empty: WRONGTYPE.
  using acquired = std::optional<protocol::acquire_reply>;
  using released = std::optional<protocol::release_reply>;
  using ordered = std::optional<protocol::order_reply>;
  using renewed = protocol::renew_reply;

  // One function for each command.
  acquired answer_to(protocol::acquire_command const& c, std::string_view client, std::int64_t now_us);
  protocol::tries_reply answer_to(protocol::acquire_all_command const& c, std::string_view client, std::int64_t now_us);
  released answer_to(protocol::release_command const& c, std::string_view client, std::int64_t now_us);
  renewed answer_to(protocol::renew_command const& c, std::string_view client, std::int64_t now_us);
  renewed answer_to(protocol::confirm_command const& c, std::string_view client, std::int64_t now_us);
  engine::lock_report answer_to(protocol::inspect_command const& c, std::string_view client, std::int64_t now_us);
  protocol::order_reply answer_to(protocol::force_command const& c, std::string_view client, std::int64_t now_us);
  protocol::order_reply answer_to(protocol::request_command const& c, std::string_view client, std::int64_t now_us);
  protocol::session_reply answer_to(protocol::requested_command const& c, std::string_view, std::int64_t);
  protocol::watch_reply answer_to(protocol::watch_command const& c, std::string_view client, std::int64_t now_us);
  protocol::session_reply answer_to(protocol::unwatch_command const& c, std::string_view client, std::int64_t now_us);
  ordered answer_to(protocol::limit_command const& c, std::string_view client, std::int64_t now_us);
  protocol::session_reply answer_to(protocol::prove_publish_command const&, std::string_view client, std::int64_t) const {
    return {.count = listeners_.contains(client) ? 1 : 0};
  }
  protocol::session_reply answer_to(protocol::kill_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::subscribe_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::ping_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::asking_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::mark_command const&, std::string_view, std::int64_t) const { return {}; }
  protocol::session_reply answer_to(protocol::wait_command const&, std::string_view, std::int64_t) const { return {}; }

  /// Calls f(script_context) with what the store knows of the name.
  template <class Command, class F>
  auto at_entry(Command const& c, std::string_view client, std::int64_t now_us, F&& f);

  acquired acquire(script_context& m, protocol::acquire_command const& c);
  acquired adopt(script_context& m, protocol::acquire_command const& c);
  released release(script_context& m, protocol::release_command const& c);
  renewed renew(protocol::renew_command const& c, std::string_view client, std::int64_t now_us);

  // store_permits.cpp: locks with several owners
  acquired acquire_permit(script_context& m, protocol::acquire_command const& c);
  acquired adopt_permit(script_context& m, protocol::acquire_command const& c);
  released release_permit(script_context& m, protocol::release_command const& c);
  renewed renew_permits(protocol::renew_command const& c, std::string_view client, std::int64_t now_us);
  ordered set_limit(script_context& m, protocol::limit_command const& c);
  protocol::order_reply force(script_context& m, protocol::force_command const& c);
  protocol::order_reply request(script_context& m, protocol::request_command const& c, std::string_view asker);
  engine::lock_report inspect(script_context& m);
  protocol::watch_reply watch(script_context& m, protocol::watch_command const& c);
  void tell_freed(entry& e);
  void forget_watcher(entry& e, std::string_view id);
  void tell(std::string_view id, std::string_view name, void (listener::*what)(std::string_view, engine::grant_id));

  entry* find(std::string_view name);
  entry& find_or_make(std::string_view name);
  void drop_expired(std::int64_t now_ms);
  void put_on_agenda(entry& e);

  bounds bounds_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, listener*, text_hash, std::equal_to<>> listeners_;
  std::unordered_map<std::string_view, std::unique_ptr<entry>> entries_;  // keys live in the entries
  std::set<std::pair<std::int64_t, entry*>> agenda_;                      // when something of an entry expires
};

}  // namespace conch::memory
