// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a server of ZooKeeper keeps: nodes and sessions, and the transactions that change them. As Apache ZooKeeper 3.8
// does it (DataTree, PrepRequestProcessor). No I/O, no clock. conch's own simulator has it too.
namespace conch::simulated {

/// What the leader has decided that a request does, for all servers in one order.
struct transaction {
  enum class kind : std::uint8_t { failure, create, remove, set_data, open_session, close_session };

  kind what = kind::failure;
  zookeeper::status why = zookeeper::status::ok;  // of a failure
  std::int64_t zxid = 0;
  std::int64_t at_ms = 0;  // by the leader's clock
  std::int64_t session = 0;
  int timeout_ms = 0;  // of a session that is opened
  std::string path, data;
  std::set<std::string> users;  // the users with all rights to a node that is created; none: everybody
  std::int64_t owner = 0;
  std::int32_t first_child = 0;  // the SEQ with which a folder begins
  std::size_t asked_at = 0;      // the server, and there ...
  std::uint64_t question = 0;    // ... the request; 0: the leader's own
};

/// The nodes and sessions of one server.
class node_tree {
 public:
  /// The owner of a container, instead of a session.
  static constexpr std::int64_t container = INT64_MIN;

  struct node {
    std::string data;
    std::int64_t created = 0, created_ms = 0, modified = 0, modified_ms = 0;
    std::int32_t version = 0;
    std::int32_t next_child = 0;  // SEQ: signed, and stays at the greatest
    bool had_children = false;
    std::int64_t owner = 0;
    std::set<std::string, std::less<>> children;
    std::set<std::string> users;  // with all rights; none: everybody

    bool allows(std::set<std::string> const& who) const {
      return users.empty() ||
             std::any_of(who.begin(), who.end(), [this](std::string const& one) { return users.contains(one); });
    }

    /// A container does not show that it is one.
    zookeeper::stat stat() const {
      return {created,
              created_ms,
              modified,
              version,
              owner == container ? 0 : owner,
              static_cast<std::int32_t>(children.size()),
              modified_ms};
    }
  };
  struct fired {
    zookeeper::notice::event what;
    std::string path;
  };

  node_tree() { nodes_.try_emplace("/"); }

  node const* find(std::string_view path) const {
    auto const at = nodes_.find(path);
    return at == nodes_.end() ? nullptr : &at->second;
  }
  node* find(std::string_view path) {
    auto const at = nodes_.find(path);
    return at == nodes_.end() ? nullptr : &at->second;
  }
  std::map<std::string, node, std::less<>> const& nodes() const { return nodes_; }
  std::map<std::int64_t, int> const& sessions() const { return sessions_; }  // with their timeouts
  std::int64_t last() const { return last_; }                                // of the transactions so far

  /// What becomes of a request of that session, in the present state. `who`: the users as which its connection has
  /// authenticated.
  transaction prepare(zookeeper::request const& r, std::int64_t session, std::set<std::string> const& who = {}) const;
  /// The answer to get_data and get_children, in order; all else is answered by itself. `who`: as of prepare().
  zookeeper::reply read(zookeeper::request const& r, std::set<std::string> const& who) const;
  /// Null, and why these users cannot read it.
  std::pair<node const*, zookeeper::status> readable(std::string_view path, std::set<std::string> const& who) const;
  /// Containers that once had children, and have none now.
  std::vector<std::string> spent_containers() const;
  /// Returns what watches are to be told.
  std::vector<fired> apply(transaction const& t);

  static std::string_view parent_of(std::string_view path) {
    auto const slash = path.rfind('/');
    return slash == 0 ? std::string_view{"/"} : path.substr(0, slash);
  }
  static std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }
  static std::string sequence(std::int32_t number);

 private:
  void drop(std::string const& path, std::vector<fired>& told);

  std::map<std::string, node, std::less<>> nodes_;
  std::map<std::int64_t, int> sessions_;
  std::map<std::int64_t, std::set<std::string>> ephemerals_;  // by session
  std::int64_t last_ = 0;
};

}  // namespace conch::simulated
