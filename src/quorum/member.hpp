// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "base/log_sink.hpp"
#include "engine/backend.hpp"
#include "protocol/server.hpp"

#include <conch/stats.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace conch::quorum {

class events;
class servers;

/// One server: its protocol, and the receiver of that protocol's events.
struct member final : engine::backend_events, log_sink {
  member(events& to, servers& all, log_sink& log, std::size_t n, std::string name, protocol::wire& wire)
      : listener{to},
        in{all},
        log_to{log},
        number{n},
        shown{std::move(name)},
        out{wire} {}

  events& listener;
  servers& in;
  log_sink& log_to;
  std::size_t const number;
  std::string const shown;
  protocol::wire& out;
  std::unique_ptr<protocol::server> server;
  statistics counted;                          // the statistics of this server alone
  time_point fresh_until = time_point::min();  // the server has no vote before this (min_server_uptime)
  std::uint64_t votes = 0;                     // votes that the server has given to this client
  std::string last_trouble;
  error_code refusal;                  // why the server refused the last attempt to connect
  std::optional<std::size_t> same_as;  // that member is the same server, and has the vote of both

  bool up() const noexcept { return server->connected(); }
  bool has_vote() const noexcept { return up() && !same_as; }

  std::string why_no_vote() const;

  void granted(engine::place& p, bool pushed, time_point now) override;
  void busy(engine::place& p, time_point now) override;
  void queued(engine::place& p, time_point now) override;
  void left(engine::place& p, time_point now) override;
  void failed(engine::place& p, error_code why, time_point now) override;
  void extended(engine::place& p, time_point now) override;
  void renewal_failed(engine::place& p, time_point now) override;
  void lost(engine::place& p, time_point now) override;
  void released(engine::receipt& r, bool was_mine, error_code why, time_point now) override;
  void settled(engine::place& p) override;
  void connection_changed(time_point now) override;
  void connection_refused(error_code why, time_point now) override;
  engine::place* find(std::string_view name) override;
  engine::place& find_or_make(std::string_view name) override;
  void note(bool is_error, std::string_view words) override;
};

}  // namespace conch::quorum
