// The judge of one lock in ZooKeeper that may have several owners: what its folder has, and what clients believe of it.
// It knows no world, so its test breaks each rule by hand.
#pragma once

#include "engine/permit.hpp"
#include "sim/worlds/event_queue.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace conch::sim {

/// What an acquire wants. A mutex is 1 of 1, a reader 1 of most_permits, and a writer all of them.
struct zookeeper_share {
  engine::permit_kind kind = engine::permit_kind::none;
  std::uint32_t weight = 1, limit = 1;
  std::string owner = {};  // of a reentrant lock
  bool operator==(zookeeper_share const&) const = default;
};

zookeeper_share wanted_by(engine::permit const& p);
std::string words_of(zookeeper_share const& s);

/// A node of the folder.
struct zookeeper_line_node {
  std::string name = {}, client = {};
  std::uint64_t number = 0;
  zookeeper_share share = {};
  std::int64_t session = 0, created = 0;
  bool has_place = true;  // else its SEQ is one that others may have, too
};

/// A node that keeps the lock for the minimum interval of the grant whose node has that client and number.
struct zookeeper_line_keep {
  std::string client = {};
  std::uint64_t number = 0;
  std::int64_t interval_ms = 0, made_ms = 0;  // by the leader's clock
};
/// For a name like CLIENT~k1500cTRANSACTION.NUMBER-SEQ.
bool keeps_a_lock(std::string_view name);
zookeeper_line_keep read_line_keep(std::string_view name);

/// What a name says: CLIENT.NUMBER-SEQ or CLIENT~TERMS.NUMBER-SEQ. Written from docs/design/zookeeper.md, not with the
/// reader of src/servers/zookeeper. Throws violation if it says nothing.
zookeeper_line_node read_line_node(std::string_view name);

/// An acquire that was granted, or waits. Several acquires of one client may have the same node of a reentrant lock.
struct zookeeper_line_hold {
  std::string client;
  zookeeper_share share = {};
  std::string node = {};  // its name; empty: none yet
  std::int64_t token = 0;
  nanos asked_at = 0;
  std::int64_t at_least_ms = 0;  // the minimum interval that it asks for
  std::int64_t clock_ms = 0;     // what the servers' clocks show at most
};

class zookeeper_line_judge {
 public:
  explicit zookeeper_line_judge(std::string lock) : lock_{std::move(lock)} {}

  // ---- What the ensemble has decided, in its order.
  void made(zookeeper_line_node n, nanos now);
  /// `wanted`: a place that waits or holds knows the node, and its own client has removed it.
  void gone(std::string_view name, bool wanted, nanos now);
  void session_over(std::int64_t session, nanos now);
  void kept(zookeeper_line_keep k, nanos now);
  void kept_no_more(zookeeper_line_keep const& k);
  /// All nodes are gone, and another ensemble counts its transactions from the beginning. Tokens still grow.
  void built_anew(nanos now);

  // ---- What clients are told.
  /// `believed`: all other holds that a client believes in. `earlier`: what has asked before, of the same client, and
  /// waits on; only where nothing is wrong. `since`, `patience`: no client that may have the lock waits longer, from
  /// then on.
  void granted(zookeeper_line_hold const& h, std::span<zookeeper_line_hold const> believed,
               std::span<zookeeper_line_hold const> earlier, nanos since, nanos patience, nanos now);
  /// Somebody waits on.
  void waits(zookeeper_line_hold const& h, nanos since, nanos patience, nanos now) const;
  /// An acquire failed because a lock of another kind has the name, or because its owner has the lock in another
  /// client. What was gone for longer than `lag` nobody sees any more.
  void told_of_another_kind(zookeeper_line_hold const& h, nanos lag) const;
  void told_of_another_client(zookeeper_line_hold const& h, nanos lag) const;
  /// Likewise because its node got a number that others may have, too.
  void told_of_no_place(zookeeper_line_hold const& h, nanos lag) const;

  /// P6: a client that lives leaves nothing that keeps the lock, `after` the interval.
  void keeps_nothing(std::string_view client, nanos after, nanos now) const;
  /// When the last interval was over for those who wait, who reckon with other clocks.
  nanos kept_until() const { return kept_until_; }

  /// Do these two exclude each other, whatever else there is?
  static bool exclude_each_other(zookeeper_line_hold const& a, zookeeper_line_hold const& b);

 private:
  struct standing_node : zookeeper_line_node {
    nanos made_at = 0;
    nanos fits_since = -1;             // -1: it does not
    std::vector<std::string> refuses;  // while one of these stands it can have nothing, and is to be told so
    nanos gone_at = 0;
  };

  struct keep : zookeeper_line_keep {
    nanos over = 0;
    bool stands = true;
  };

  keep const* keep_of(standing_node const& n) const;
  void not_within_interval(zookeeper_line_hold const& h, standing_node const& mine) const;
  standing_node const* find(std::string_view name) const;
  void look(nanos now);
  std::vector<std::string> who_refuses(zookeeper_line_node const& n) const;
  std::size_t in_the_way(std::size_t at) const;
  void excludes(zookeeper_line_hold const& h, std::span<zookeeper_line_hold const> believed) const;
  void token_grows(zookeeper_line_hold const& h);
  [[noreturn]] void broken(int promise, std::string const& words) const;

  std::string const lock_;
  std::vector<standing_node> line_;  // in the order of their making
  std::vector<standing_node> past_;  // gone
  std::vector<standing_node> placeless_;
  std::vector<keep> keeps_;
  nanos kept_until_ = 0;
  std::int64_t interval_until_ms_ = 0;  // by the leader's clock, of the last grant with one
  std::string interval_of_;             // its node
  std::int64_t birth_ = -1;             // what the server's part of a token has beyond the transaction of its node
  std::map<std::tuple<char, std::uint32_t, std::uint32_t, std::string, std::string>, zookeeper_line_hold> highest_;
};

}  // namespace conch::sim
