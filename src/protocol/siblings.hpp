// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/grant_id.hpp"
#include "protocol/server/grant_ids.hpp"

#include <conch/clock.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace conch::engine {
struct admin_request;
class admin_events;
}  // namespace conch::engine

namespace conch::protocol {

using namespace engine;

struct cleanup;
struct server_place;
class cleanups;
class orders;
class place_keeper;

/// A server as the others of its client see it: what it takes over from them, or does for them.
class neighbour {
 public:
  virtual void receive(server_place& p, time_point now) = 0;
  virtual void receive(cleanup& c, time_point now) = 0;
  virtual void receive(admin_request& i, admin_events* whose, time_point now) = 0;
  /// A watcher that is gone, and that the server may still have.
  virtual void receive_unwatched(std::string name, grant_id id) = 0;
  /// Resumes with what it has received since, as a new connection does.
  virtual void take_over(time_point now) = 0;
  /// These places belong to another server, which has named this one for the time being: their slot is on its way here.
  /// `alone`: as renew_each_alone. False: there is no connection yet.
  virtual bool renew_behind_asking(std::span<server_place* const> places, bool alone, time_point now) = 0;
  /// Without their fences, which may be elsewhere.
  virtual void renew_each_alone(std::span<server_place* const> places, time_point now) = 0;
  virtual cleanups& pending_cleanups() noexcept = 0;
  virtual place_keeper& keeper() noexcept = 0;

 protected:
  ~neighbour() = default;
};

/// The servers of a client of which each has some of the locks.
class siblings {
 public:
  /// The server that has the locks of that slot, or of that name.
  virtual neighbour& keeper(unsigned slot) = 0;
  virtual neighbour& keeper(std::string_view name) = 0;
  virtual unsigned slot_of(std::string_view name) const = 0;
  /// A renewal of places of one slot.
  struct put_off {
    std::span<server_place* const> places;
    bool asking = false;          // it was sent to this server after an asking_command
    bool can_be_divided = false;  // it named more than one key
  };
  /// That server has put it off with this error text. True: it is sent in another way, by renew_behind_asking or
  /// renew_each_alone.
  virtual bool renewed_elsewhere(neighbour& by, put_off const& what, std::string_view words, time_point now) = 0;

 protected:
  ~siblings() = default;
};

/// The requests of one client that wait until a lock is free, by id.
struct watchers {
  struct one {
    admin_request* what;
    orders* keeper;  // that part of its server
  };
  std::unordered_map<grant_id, one> by_id{};
  std::uint64_t last_serial = 0;  // of all admin_requests
};

/// What the servers of one client share: an id, and what is found by it, may go from one to another. A single server
/// has it for itself.
struct of_client {
  explicit of_client(entropy& nonces, siblings* all = nullptr) : ids{nonces}, servers{all} {}

  grant_ids ids;
  watchers watching;
  siblings* servers;  // none: there is one
};

}  // namespace conch::protocol
