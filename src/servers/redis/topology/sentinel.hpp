// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"
#include "servers/redis/locator.hpp"
#include "servers/redis/url.hpp"

#include <conch/clock.hpp>
#include <conch/config.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::redis {

/// What a Sentinel reports of the master.
struct named_master {
  std::string host;
  std::uint16_t port = 0;
  std::int64_t epoch = no_epoch;  // its config-epoch: it grows with every failover

  static constexpr std::int64_t no_epoch = -1;  // not reported
};

/// What a Sentinel reports of another one.
struct named_sentinel {
  std::string id, host;
  std::uint16_t port = 0;
};

/// Where the master is, according to all Sentinels: a report with a greater config-epoch than all before is true. No
/// I/O, no clock.
class sentinels {
 public:
  /// The most that are listened to; those of the URL come first.
  static constexpr std::size_t most = 5;
  /// The most that are remembered, in case one of those cannot be reached.
  static constexpr std::size_t most_known = 20;

  /// What to do after an input.
  struct actions {
    std::vector<std::size_t> listen;  // to the Sentinel with this number, for as long as this exists
    std::vector<std::size_t> ask;     // the Sentinel with this number, for the master
    std::vector<std::size_t> drop;    // its connection: it does not answer
    std::vector<std::pair<log_level, std::string>> log;
    bool moved = false;  // locate() returns something else now, which does not need to wait
  };

  struct times {
    duration refresh;   // how often one of the Sentinels is asked again
    duration patience;  // how long one may take for an answer
  };

  /// `address_map`: as in the config; outlives this.
  sentinels(sentinel_url const& url, times t, std::map<std::string, std::string> const& address_map);

  // ---- inputs; then take()
  void begin(time_point now);
  /// It can be asked, and is about to answer for the first time.
  void connected(std::size_t number, std::string_view id);
  /// None: it does not know a master of this name.
  void answered(std::size_t number, std::optional<named_master> const& master);
  /// By a Sentinel.
  void add_named(std::vector<named_sentinel> const& others);
  /// +switch-master: "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT".
  void switched(std::size_t number, std::string_view event, time_point now);
  /// Its connection has ended, or could not be made.
  void failed(std::size_t number, protocol::fault what, std::string_view why);
  /// The master does not answer, or is none: is it still the same?
  void doubt(time_point now);
  /// No later than at next_due().
  void due(time_point now);
  [[nodiscard]] actions take() { return std::exchange(actions_, {}); }

  time_point next_due() const noexcept;
  /// Sets host and port of the master in `to`.
  location locate(address& to) const;
  /// Sets host and port of the Sentinel in `to`.
  void locate(std::size_t number, address& to) const;
  std::string const& master_name() const noexcept { return server_.master; }
  /// "the master 'm' is at 10.0.0.1:6379, says ..."; empty: it is not known.
  std::string present() const;
  /// How often the master was another than before, and how often Sentinels were asked by refresh or doubt.
  std::uint64_t switches() const noexcept { return switches_; }
  std::uint64_t refreshes() const noexcept { return refreshes_; }

 private:
  enum class outcome : std::uint8_t { none, named, unknown_name, failed };
  struct sentinel {
    address where;
    std::string id{};
    outcome last = outcome::none;
    protocol::fault fault = protocol::fault::none;
    std::string why{};  // it failed
    named_master named{};
    bool is_connected = false;
    bool is_asked = false;
    time_point asked{};
    bool logged_older = false;  // the log has a line about its answer
  };

  void ask(sentinel& s, time_point now);
  void believe(std::size_t number, named_master const& m);
  void listen_to_others();
  sentinel* place_for_another();
  bool is_pending() const noexcept;
  void verdict_may_have_changed(bool was_pending);
  std::string what_they_said() const;
  void log(log_level level, std::string words) { actions_.log.emplace_back(level, std::move(words)); }

  address const server_;
  times const times_;
  std::map<std::string, std::string> const& address_map_;
  std::vector<sentinel> all_;
  std::deque<named_sentinel> others_;  // of which some have answered, the oldest first
  std::size_t of_url_ = 0;
  std::optional<named_master> master_;
  std::size_t named_by_ = 0;  // the Sentinel
  bool logged_silence_ = false;
  time_point refresh_at_ = time_point::max();
  time_point doubted_at_ = time_point::min();
  std::size_t next_to_ask_ = 0;
  std::uint64_t switches_ = 0, refreshes_ = 0;
  actions actions_;
};

}  // namespace conch::redis
