// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/random.hpp"
#include "engine/grant_id.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace conch::protocol {

using namespace engine;

struct server_place;

/// Makes the ids of one client, and finds the place of an id. The servers of a client share it: a place may go from one
/// to another.
class grant_ids {
 public:
  /// `nonces` must outlive it.
  explicit grant_ids(entropy& nonces) noexcept : nonces_{nonces} {}

  /// Makes an id that was never used before and that no other client can guess.
  grant_id next();
  /// The same, for what is asked of the place; the id of a vote shows its ticket.
  grant_id next(server_place const& p);

  /// The place has its id now. It is found by it if a client may have several places at one lock: if the lock has
  /// several owners, or the place takes a hold over.
  void enter(server_place& p);
  /// The id of the place has ended, or the place itself has.
  void forget(server_place& p) noexcept;
  /// None: it was not entered.
  server_place* place_of(grant_id id) const;

  /// The count of the last id.
  std::uint64_t last() const noexcept { return last_; }
  /// The ids from here on are above `last`. For tests that need ids that begin like others.
  void skip(std::uint64_t last) noexcept { last_ = std::max(last_, last); }

 private:
  entropy& nonces_;
  std::uint64_t last_ = 0;
  std::unordered_map<grant_id, server_place*> places_;
};

}  // namespace conch::protocol
