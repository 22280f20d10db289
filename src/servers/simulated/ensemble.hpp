// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/simulated/node_tree.hpp"
#include "servers/zookeeper/messages.hpp"
#include "servers/zookeeper/names.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace conch::simulated {

class server;

/// An ensemble of ZooKeeper as its clients see it, with one server: the nodes, the watches, and sessions, which end
/// when nothing has been received from them for their timeout.
class ensemble {
 public:
  /// A connection, from the ensemble's side.
  class peer {
   public:
    virtual std::string const& process() const noexcept = 0;
    virtual void greeted(zookeeper::connect_response const& r) = 0;
    virtual void answered(zookeeper::reply r) = 0;
    virtual void answered_ping(std::int64_t zxid) = 0;
    virtual void noticed(zookeeper::notice n) = 0;
    virtual void closed(std::string_view why) = 0;

   protected:
    ~peer() = default;
  };

  /// `of` outlives this.
  explicit ensemble(server& of) : owner_{of} {}
  ensemble(ensemble const&) = delete;
  ensemble& operator=(ensemble const&) = delete;

  // ---- from connections
  void greet(peer& p, zookeeper::connect_request const& r);
  void ask(peer& p, zookeeper::request const& r);
  void forget(peer const& p);
  /// Its client ends it.
  void end(std::int64_t session);

  // ---- from the server
  void lose_data();
  /// It is up again: each session has its full time.
  void touch_all();

  /// A node in the queue of a lock.
  struct place {
    std::string path, lock, client;
    engine::permit_kind kind = engine::permit_kind::none;
    std::int64_t fence = 0;
    bool is_granted = false;
  };
  std::vector<place> places() const;
  /// As an operator does with the shell of ZooKeeper.
  void remove(std::string const& path);

 private:
  struct attached {
    peer* who;
    std::int64_t session;
    std::set<std::string> users{};
  };
  struct lifetime {
    std::int64_t timeout_us, ends_us;
  };

  attached* find(peer const& p);
  std::int64_t open(zookeeper::connect_request const& r);
  void touch(std::int64_t session);
  void check_later(std::int64_t session);
  void check(std::int64_t session);
  void decide(attached& from, zookeeper::request const& r);
  void apply(transaction& t);
  zookeeper::reply read_rights(zookeeper::get_acl const& of, attached const& by) const;
  void watch(std::string const& path, peer& p);
  void add_places(std::string const& folder, std::vector<place>& to) const;
  void report_grants(std::string const& folder);
  void note_decision(peer const& of, transaction const& t);

  server& owner_;
  node_tree tree_;
  std::int64_t transactions_ = 0, last_session_ = 0;
  std::map<std::int64_t, lifetime> sessions_;
  std::vector<attached> attached_;
  std::map<std::string, std::vector<peer*>, std::less<>> watches_;
  std::set<std::string> granted_;  // the nodes that have their turn
};

}  // namespace conch::simulated
