// Real servers of ZooKeeper and modelled ones that are asked the same.
#pragma once

#include "sim/model/zookeeper_model.hpp"
#include "sim/worlds/event_queue.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace conch::test {

/// Says what was asked, what one answered, and what the other.
class zookeeper_difference : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Everything that a connection receives is put into words, and compared in its order: answers with their errors,
/// transactions, nodes and owners; watch events; the end of the connection. Left out is what may differ:
///
/// - the numbers of sessions and transactions, which are counted from the first of this comparison on, and clocks;
/// - the order of a list, and that of the events of one transaction, the end of a session;
/// - /zookeeper, which the model has not.
///
/// One connection is asked at a time. What it is asked may be more than one request.
class zookeeper_differential final : private sim::zookeeper_model::outside {
 public:
  using connection = std::size_t;
  static constexpr std::chrono::milliseconds long_session{600'000};

  /// Needs sessions of up to long_session, and that server 0 of a comparison, in both, is the one that leads.
  zookeeper_differential(zookeeper_ensemble& real, std::string folder, std::uint64_t seed);
  ~zookeeper_differential();
  zookeeper_differential(zookeeper_differential const&) = delete;
  zookeeper_differential& operator=(zookeeper_differential const&) = delete;

  std::size_t servers() const noexcept { return real_at_.size(); }
  std::string const& folder() const noexcept { return folder_; }  ///< all is below it
  sim::zookeeper_tree const& tree() const { return model_.truth(); }
  std::uint64_t requests() const noexcept { return requests_; }

  // Each throws zookeeper_difference.
  connection open(std::size_t server, std::chrono::milliseconds timeout = long_session);
  /// On another connection. The former one stays, unless a server closes it.
  connection resume(connection c, std::size_t server, bool with_the_password = true);
  /// As a client that has seen more than there is.
  void greet_from_the_future(std::size_t server);
  /// In one write.
  void ask(connection c, std::vector<zookeeper::request> const& all);
  void drop(connection c);
  /// Its time passes, and nothing is said in it. `node` is one of its session. A server closes a silent connection
  /// somewhat before or after that.
  void expire(connection c, std::string const& node);
  /// All that the others were told meanwhile.
  void compare_all();
  /// After its answer that server knows all that was asked before. A sync does not wait for anything at the leader,
  /// which may itself be behind what a follower has told its clients; a write does.
  zookeeper::request barrier(connection c) const;

  bool is_open(connection c) const { return all_.at(c).real != nullptr; }
  /// Its session is on another connection by now.
  bool is_former(connection c) const;

 private:
  struct side {
    std::vector<std::string> said;  // and not yet compared
    bool closed = false;
  };
  struct one {
    std::size_t server = 0;
    std::unique_ptr<zookeeper_client> real;
    sim::zookeeper_model::connection_id modelled = 0;
    zookeeper::connect_response in_model;
    std::optional<zookeeper_client::resumption> last;  // of the real one
    side heard_by_real;
  };
  /// How one of them counts.
  struct numbers {
    std::map<std::int64_t, int> sessions;
    std::int64_t first_zxid = 0;
  };

  void greeted(sim::zookeeper_model::connection_id c, zookeeper::connect_response const& r) override;
  void answered(sim::zookeeper_model::connection_id c, zookeeper::request const& to,
                zookeeper::reply const& r) override;
  void answered_ping(sim::zookeeper_model::connection_id c, std::int64_t zxid) override;
  void noticed(sim::zookeeper_model::connection_id c, zookeeper::notice const& n) override;
  void closed(sim::zookeeper_model::connection_id c) override;

  connection greet(std::size_t server, zookeeper_client::resumption const& real,
                   zookeeper::connect_request const& modelled);
  void pass(sim::nanos length);
  void compare(connection c, bool in_any_order = false);
  void trace(connection c, std::string words);
  [[noreturn]] void fail(connection c, std::string const& real, std::string const& modelled) const;

  std::string const folder_;
  std::vector<std::size_t> real_at_, modelled_at_;  // the first one leads
  zookeeper_ensemble& ensemble_;
  zookeeper_client looks_;  // at the real leader, and changes nothing
  sim::event_queue events_;
  sim::nanos now_ = 0;
  sim::zookeeper_model model_;
  std::vector<one> all_;
  std::map<sim::zookeeper_model::connection_id, side> heard_by_modelled_;
  std::map<sim::zookeeper_model::connection_id, zookeeper::connect_response> greetings_;
  numbers of_real_, of_model_;
  int sessions_ = 0;
  bool ends_ = false;  // a session has ended since all were compared
  std::uint64_t requests_ = 0;
  std::vector<std::string> trace_;
};

}  // namespace conch::test
