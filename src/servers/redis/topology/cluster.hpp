// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/address_choice.hpp"
#include "protocol/wire.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/topology/slot_map.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::redis {

/// The nodes of a Cluster, and which of them is asked for the map: one at a time, the seeds first. No I/O, no clock.
class cluster {
 public:
  static constexpr std::size_t unknown_master = slot_map::unknown_master;

  /// What to do after an input.
  struct actions {
    bool ask = false;                 // for the map
    std::string leave{};              // why the connection for the map is to be dropped; empty: it is not
    bool moved = false;               // some slot has another owner than before
    std::vector<std::size_t> follow;  // locate(number) returns something else now
    std::vector<std::size_t> renew;   // the connection to that node was made before its id was known
    /// The map cannot be fetched, and never could.
    struct trouble {
      protocol::fault what = protocol::fault::none;
      std::string why{};
    } lost{};
    std::vector<std::pair<log_level, std::string>> log;
  };

  /// What a master means that has put off a request.
  struct meaning {
    bool moves = false;  // ASK: to be asked there, once
    std::size_t there = slot_map::unknown_master;
    bool is_divided = false;  // TRYAGAIN: of the keys some are here, and others are not
  };

  /// `address_map`: as in the config; outlives this. `l`: of an attempt to reach some node.
  cluster(std::vector<address> seeds, slot_map::times t, std::map<std::string, std::string> const& address_map,
          address_choice::limits l);

  // ---- inputs; then take()
  /// A node has answered with its map, which names some slots. The first answer of a connection shows that there is
  /// one.
  /// False: the map is not believed, and nothing has changed.
  bool update(std::vector<named_slots> const& all, address const& by, time_point now);
  /// The connection for the map has ended, or could not be made.
  void failed(protocol::fault what, std::string_view why);
  /// By that master: the text of an error that was reported to the protocol as "later".
  void put_off(std::string_view words, std::size_t by, time_point now);
  /// That master has ended a subscription.
  void unsubscribed(time_point now) { map_.doubt(now); }
  /// The master is connected, or not any more, or could not be.
  void reached(std::size_t number, bool is_reached, time_point now);
  void wait_for_owner(bool wanted, time_point now) noexcept { map_.wait_for_owner(wanted, now); }
  /// No later than at next_due().
  void due(time_point now);
  [[nodiscard]] actions take() { return std::exchange(actions_, {}); }

  // ---- outputs
  time_point next_due() const noexcept { return map_.next_due(); }
  /// The node that is to be asked for the map next, and how long it may take to answer. To be called for each attempt
  /// to connect.
  location locate_asked(address& to, time_point now);
  /// Sets host and port of the node.
  void locate(std::size_t number, address& to) const;
  /// The first digits of its id.
  std::string_view digits(std::size_t number) const noexcept;
  std::optional<unsigned> some_slot(std::size_t number) const noexcept { return map_.some_slot(number); }
  std::size_t owner(unsigned slot) const noexcept { return map_.owner(slot); }
  meaning meaning_of(std::string_view words, std::size_t by);
  std::uint64_t requests() const noexcept { return map_.requests(); }
  slot_map const& map() const noexcept { return map_; }

 private:
  void look();
  std::vector<address> all_to_ask() const;

  std::vector<address> const seeds_;
  address_choice::limits const limits_;
  slot_map map_;
  bool is_connected_ = false;  // for the map
  address_choice choice_;
  std::vector<address> to_ask_;  // what it chooses from
  // of the node that is asked
  enum class turn : std::uint8_t { none, under_way, good, failed, ended } turn_ = turn::none;
  unsigned in_vain_ = 0;      // so often in a row the map was asked for without an end of the doubt
  std::size_t failures_ = 0;  // in a row, of connections for the map
  struct node {
    std::string where, id;
  };
  std::vector<node> seen_;  // each, as last reported
  actions actions_;
};

}  // namespace conch::redis
