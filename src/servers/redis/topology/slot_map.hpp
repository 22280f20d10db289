// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "resp/decoder.hpp"
#include "servers/redis/topology/slots.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace conch::redis {

/// A master and some of its slots, as CLUSTER SLOTS names them.
struct named_slots {
  unsigned first = 0, last = 0;
  std::string id, host;
  std::uint16_t port = 0;
};

/// The answer to CLUSTER SLOTS of the node at `asked`: an empty or unknown host is that of this node. None: that is no
/// such answer.
std::optional<std::vector<named_slots>> read_slots(std::span<resp::node const> message, address const& asked);

/// What a node answers for a slot that is another's: "MOVED 3999 127.0.0.1:6381".
struct redirection {
  unsigned slot = 0;
  std::string host;  // empty: that of the node that answers
  std::uint16_t port = 0;
};
std::optional<redirection> read_moved(std::string_view words);
/// The same for a slot that is on its way: "ASK 3999 127.0.0.1:6381".
std::optional<redirection> read_ask(std::string_view words);

/// Which master has each slot, according to the nodes of a Cluster: all of it by CLUSTER SLOTS, which is asked for when
/// something shows that it has changed, and of one slot by MOVED. An ASK changes nothing: the slot is still where it
/// was. No I/O, no clock.
class slot_map {
 public:
  static constexpr std::size_t unknown_master = static_cast<std::size_t>(-1);

  struct times {
    duration refresh;   // how often the map is asked for without a reason
    duration patience;  // how long an answer may take
  };
  /// Between two requests, however many slots move; and while some slot has no node to ask: its master cannot be
  /// reached, or is not known.
  static constexpr duration between_requests = std::chrono::seconds{1},
                            between_urgent_requests = std::chrono::milliseconds{100};
  /// So often MOVED is believed of one slot before the next whole map: two nodes may name each other.
  static constexpr unsigned most_patches = 4;
  /// Redis' own recommendation is not more than 1000 nodes. All of them may be replaced at once.
  static constexpr std::size_t most_masters = 1000, most_nodes = 2 * most_masters;

  /// `address_map`: as in the config; outlives this.
  slot_map(times t, std::map<std::string, std::string> const& address_map) : times_{t}, address_map_{address_map} {
    owners_.fill(no_owner);
  }

  // ---- inputs; after each, check ask_is_due() and take_changes()
  /// A node can be asked now, and was asked when the connection began.
  void connected(time_point now);
  /// The connection that was to bring the map has ended, or could not be made.
  void failed() noexcept { is_connected_ = is_asked_ = false; }
  /// False: the map names more masters than a Cluster has, and is not believed.
  bool update(std::vector<named_slots> const& all, time_point now);
  /// MOVED, by that node.
  void redirected(redirection const& to, std::size_t by, time_point now);
  /// The node that an ASK of that node names. It may have no slots yet, and no id before it has.
  std::size_t named_by_ask(redirection const& to, std::size_t by);
  /// A slot is waited for of which no owner is known.
  void wait_for_owner(bool wanted, time_point now) noexcept;
  /// Something but a MOVED shows that the map may be wrong.
  void doubt(time_point now) noexcept { want(now, between_urgent_requests); }
  /// The master cannot be reached, or can be again. While one cannot that has slots, the map is asked for again and
  /// again.
  void reached(std::size_t number, bool is_reached, time_point now) noexcept;

  // ---- outputs
  /// True once: CLUSTER SLOTS is to be sent now.
  [[nodiscard]] bool ask_is_due(time_point now);
  /// The node that was asked does not answer: its connection is to be closed.
  bool answer_is_late(time_point now) const noexcept {
    return is_asked_ && now >= detail::later_by(asked_, times_.patience);
  }
  time_point next_due() const noexcept;
  /// True once: some slot has another owner than before.
  [[nodiscard]] bool take_changes() noexcept { return std::exchange(changed_, false); }

  /// The number of the master; `unknown_master`: it is not known.
  std::size_t owner(unsigned slot) const noexcept { return owners_[slot] == no_owner ? unknown_master : owners_[slot]; }
  /// Present and former masters, at most `most_nodes`. Their numbers stay; beyond that, a new one gets the number of
  /// one that has gone.
  std::size_t nodes() const noexcept { return nodes_.size(); }
  std::string const& id(std::size_t number) const noexcept { return nodes_[number].id; }
  std::string const& host(std::size_t number) const noexcept { return nodes_[number].host; }
  std::uint16_t port(std::size_t number) const noexcept { return nodes_[number].port; }
  /// A slot that this node has; none: it has no slots, and is not a master, or was removed.
  std::optional<unsigned> some_slot(std::size_t number) const noexcept;
  bool has_slots(std::size_t number) const noexcept { return nodes_[number].slots != 0; }
  bool is_known() const noexcept { return is_known_; }
  /// It is asked for again and again: a master with slots cannot be reached, a slot is waited for of which no owner is
  /// known, or a MOVED since the last answer has named a node that is not known.
  bool is_urgent() const noexcept;
  std::uint64_t requests() const noexcept { return requests_; }

 private:
  struct master {
    std::string id, host;
    std::uint16_t port = 0;
    unsigned slots = 0;
    bool is_lost = false;
    std::uint64_t named_in = 0;  // the map that has named it last, by its number
  };

  void want(time_point now, duration between) noexcept;
  void give(unsigned slot, std::uint16_t to) noexcept;
  std::size_t number_of(named_slots const& named);
  std::size_t number_for_another();
  bool one_is_lost() const noexcept;
  std::size_t at(redirection const& to, std::size_t by, std::string& host, std::uint16_t& port) const;

  times const times_;
  std::map<std::string, std::string> const& address_map_;
  std::vector<master> nodes_;
  std::unordered_map<std::string, std::size_t> by_id_;
  std::size_t unnamed_ = 0;  // nodes without an id
  std::size_t next_reused_ = 0;
  std::uint64_t maps_ = 0;
  /// By slot.
  using owners = std::array<std::uint16_t, slot_count>;
  static constexpr std::uint16_t no_owner = 0xffff;
  static_assert(most_nodes < no_owner);
  owners owners_;
  std::map<unsigned, unsigned> patched_;  // since the last whole map: how often
  bool is_known_ = false;
  bool owner_is_wanted_ = false;  // for a slot of which no owner is known
  bool is_unknown_ = false;       // the nodes that a MOVED has named since the last answer
  bool is_connected_ = false;
  bool is_asked_ = false;
  bool changed_ = false;
  time_point asked_ = time_point::min();   // when the map was asked for last
  time_point ask_at_ = time_point::max();  // when it is to be asked for
  std::uint64_t requests_ = 0;
};

}  // namespace conch::redis
