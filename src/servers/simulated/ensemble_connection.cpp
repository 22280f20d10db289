// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/ensemble_connection.hpp"

#include <chrono>
#include <utility>
#include <variant>

namespace conch::simulated {

// --------------------------------------------------------------------------------------------------- from the session

void ensemble_connection::want(duration lease, time_point) {
  outlive(lease);
  connect();
}

void ensemble_connection::greet(zookeeper::connect_request const& c) {
  to_server([this, c] { at().nodes().greet(*this, c); });
}

/// The last message of a client arrives although the connection ends behind it.
void ensemble_connection::send(zookeeper::request const& r) {
  if (!std::holds_alternative<zookeeper::close_session>(r)) return to_server([this, r] { at().nodes().ask(*this, r); });
  if (!is_open()) return;
  at().world().later(std::chrono::milliseconds{1}, [&to = at(), session = session_] {
    if (to.is_up()) to.nodes().end(session);
  });
}

void ensemble_connection::drop(std::string_view why, zookeeper::ending how, time_point) {
  replace(why, how == zookeeper::ending::over);
}

// -------------------------------------------------------------------------------------------------- from the ensemble

void ensemble_connection::greeted(zookeeper::connect_response const& r) {
  session_ = r.session;
  to_client([this, r](time_point now) { events_->greeted(r, now); });
}

void ensemble_connection::answered(zookeeper::reply r) {
  to_client([this, r = std::move(r)](time_point now) { events_->answered(r, now); });
}

void ensemble_connection::answered_ping(std::int64_t zxid) {
  to_client([this, zxid](time_point now) { events_->answered_ping(zxid, now); });
}

void ensemble_connection::noticed(zookeeper::notice n) {
  to_client([this, n = std::move(n)](time_point now) { events_->noticed(n, now); });
}

// --------------------------------------------------------------------------------------------------- from the network

ensemble_connection::input ensemble_connection::welcome(time_point) {
  return [this](time_point now) { events_->connected(now); };
}

void ensemble_connection::refused(std::string_view why, time_point now) {
  events_->disconnected(fault::try_later, why, now);
}

void ensemble_connection::lost(std::string_view why, time_point now) {
  events_->disconnected(fault::try_later, why, now);
}

}  // namespace conch::simulated
