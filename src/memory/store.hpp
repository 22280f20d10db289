// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch::memory {

/// The lock server of `memory://NAME`: what lua/*.lua do on a Redis server, inside this process. It knows no clock and
/// starts no thread; every call is complete when it returns. Usable from any thread.
class store {
 public:
  /// Hears of the grants that are handed to one client.
  class listener {
   public:
    /// Called while the store is locked, by the thread whose command passed the lock on: only queue it, and call
    /// nothing of the store. `g.name` is valid during the call only. As on a Redis server, a push caused by one's own
    /// command comes before the answer to that command.
    virtual void on_grant(engine::pushed_grant const& g) = 0;
    /// In the same way: it was taken away by force.
    virtual void on_revoke(std::string_view name, engine::grant_id id) = 0;

   protected:
    ~listener() = default;
  };

  store() = default;
  store(store const&) = delete;
  store& operator=(store const&) = delete;

  /// The store of that name in this process, made when it is first asked for. It stays until the program ends, as a
  /// server stays when its clients go: the locks of a client that was never closed, and the fences, outlive the client.
  static std::shared_ptr<store> named(std::string_view name);

  /// From now on grants for `client` go to `l`, which must live until unsubscribe has returned: no call of on_grant is
  /// under way after that. A client has one listener: the last one counts. `client` contains no dot.
  void subscribe(std::string client, listener& l);
  void unsubscribe(std::string_view client);

  /// Carries a command of `client` out, as of `now_us`: microseconds since 1970, which may step back as a server's
  /// clock may. Answers what the script answers (see lua/*.lua), and nothing at all for WRONGTYPE. Leases, claims and retention are at least 1 ms.
  /// The commands about connections have nothing to do here; only prove_publish tells whether `client` is subscribed.
  std::vector<std::int64_t> carry_out(engine::command const& c, std::string_view client, std::int64_t now_us) {
    std::lock_guard const lock{mutex_};
    return answer_to(c, client, now_us);
  }

  /// The same, and calls answered(answer) with the store still locked, as on_grant is called: only queue it. A grant that
  /// another client's command leads to afterwards is then queued behind this answer, as on a connection.
  template <class F>
  void carry_out(engine::command const& c, std::string_view client, std::int64_t now_us, F&& answered) {
    std::lock_guard const lock{mutex_};
    std::forward<F>(answered)(answer_to(c, client, now_us));
  }

  /// What one command looks at, and no more (lua/lib/lock.lua, lua/lib/permits.lua).
  struct bounds {
    std::int64_t most_steps = 100;  // heads of the line, or owners whose leases are over
    std::size_t few_owners = 100;   // more have their ends in order
  };
  void set_bounds(bounds const& b) { bounds_ = b; }  // for tests, before the first command

  /// Names about which anything is remembered: a lock, a line or a last fence. Expired ones go at the next command.
  std::size_t size() const;

 private:
  static constexpr std::int64_t none = -1;

  /// "CLIENT.N", as in the scripts: among equal tickets the line is in the order of these texts.
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
    std::int64_t walked = 0;                              // nobody in line up to that ticket wants what is free
    bool indexed = false;                                 // all owners are in `ends`
    std::set<std::pair<std::int64_t, std::string>> ends;  // by a time before which the lease does not end
    std::map<std::string, std::int64_t, std::less<>> end_of;
    std::int64_t ends_until = none;

    void note_end(std::string const& id, std::int64_t ends_us);
    void forget_end(std::string const& id);
    void forget_ends();
  };

  /// The three keys of a lock, each with the millisecond after which it is gone.
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

    std::int64_t looked_at = none;  // its place in agenda_

    bool owned() const noexcept { return owner_until != none; }
    bool owned_by(std::string_view client, engine::grant_id id) const noexcept {
      return owned() && owner.number == id && owner.text.starts_with(client) && owner.text.size() == client.size() + 1 + engine::text_size(id);
    }
    std::int64_t next_expiry() const noexcept;
  };

  /// One command being carried out: what lua/lib/lock.lua keeps in locals.
  struct script_context;
  struct permit_context;

  std::vector<std::int64_t> answer_to(engine::command const& c, std::string_view client, std::int64_t now_us);
  std::vector<std::int64_t> acquire(script_context& m, engine::acquire_command const& c);
  std::vector<std::int64_t> acquire_all(engine::acquire_all_command const& c, std::string_view client, std::int64_t now_us);
  std::vector<std::int64_t> release(script_context& m, engine::release_command const& c);
  std::vector<std::int64_t> renew(engine::renew_command const& c, std::string_view client, std::int64_t now_us);
  std::vector<std::int64_t> confirm(engine::confirm_command const& c, std::string_view client, std::int64_t now_us);
  static void append_rival(entry const& e, std::vector<std::int64_t>& answer);

  // store_permits.cpp: locks with several owners
  std::vector<std::int64_t> acquire_permit(script_context& m, engine::acquire_command const& c);
  std::vector<std::int64_t> release_permit(script_context& m, engine::release_command const& c);
  std::vector<std::int64_t> renew_permits(engine::renew_command const& c, std::string_view client, std::int64_t now_us);
  std::vector<std::int64_t> set_limit(script_context& m, engine::limit_command const& c);
  std::vector<std::int64_t> force(script_context& m, engine::force_command const& c);
  std::vector<std::int64_t> inspect(script_context& m);
  void revoke(std::string_view id, std::string_view name);

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
