// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/server_link.hpp"

#include "protocol/server_place.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::protocol {

void server_link::begin(session const& s, time_point now) {
  BOOST_ASSERT_MSG(!connected_, "a connection begins before the last one has ended");
  connected_ = true;
  dropping_ = false;
  denied_ = {};
  noted_.clear();
  up_since_ = now;
  clock_.sample(s.asked, s.server_us, now);
  earlier_.drop_earlier_runs(s, now);
  runs_.began(session_, s, lost_at_, now);
  session_ = s;
}

void server_link::end(std::string_view why, time_point now) {
  BOOST_ASSERT_MSG(connected_, "a connection ends that there is not");
  connected_ = dropping_ = false;
  lost_at_ = now;
  trouble_ = why;
  ++number_;
  earlier_.add(session_);
  clock_.connection_ended();
}

void server_link::failed(fault what, std::string_view words) {
  trouble_ = words;
  runs_.says(what);
}

void server_link::kill_answered(fault what, std::uint64_t client_id, time_point now) {
  if (what == fault::none) {
    earlier_.ended(client_id, now);
    return;
  }
  earlier_.may_not_be_ended();
  if (std::exchange(logged_no_kill_, true)) return;
  log_.inform(
      "this user may not end earlier connections of its own (CLIENT KILL of Redis); that is not needed, and without it "
      "some releases cost one "
      "more script");
}

void server_link::drop(std::string_view why) {
  dropping_ = connected_;
  out_.drop_connection(why);
}

void server_link::leave(std::string_view why) {
  if (connected_ && !dropping_) drop(why);
}

void server_link::note_once(std::string_view words) {
  if (noted_ == words) return;
  noted_ = words;
  log_.note(false, words);
}

std::string server_link::why_not_connected() const {
  if (!trouble_.empty()) return trouble_;
  std::string const attempt = out_.unfinished_attempt();
  return attempt.empty() ? "there is no connection yet" : attempt;
}

error_code server_link::no_answer() const {
  if (!connected_) return make_error_code(errc::unreachable, why_not_connected());
  return make_error_code(errc::unreachable, noted_.empty() ? "the server has not answered" : noted_);
}

std::int64_t server_link::not_after(time_point now) const {
  if (earlier_.can_end()) return 0;
  // Rather late than early: a request that is refused without need is only sent again.
  return clock_.most_us(now) + std::chrono::duration_cast<std::chrono::microseconds>(settings_.command_timeout).count();
}

/// Where this user may end connections, requests carry no not-after. They stay bytes in some buffer until the server
/// has answered the CLIENT KILL. Elsewhere the clean-up goes out on the next connection: a late leave without a
/// not-after may have made the lease of its id longer until then.
bool server_link::may_arrive_late() const { return !earlier_.are_ended() && (earlier_.can_end() || !connected_); }

void server_link::note_sent(server_place& p) const {
  BOOST_ASSERT_MSG(connected_, "something is written without a connection");
  p.late.old_connection_until = old_connection_until(p);
  p.late.last_sent_on = number_;
}

void server_link::note_unsent(server_place& p) const noexcept { p.late.last_sent_on = 0; }

void server_link::begin(server_place& p) const noexcept {
  p.late.until = p.late.old_connection_until = time_point::min();
  p.late.longest_lease = {};
}

void server_link::written(server_place& p, std::int64_t not_after_us) const {
  if (not_after_us != 0) p.late.until = std::max(p.late.until, clock_.passed(not_after_us));
}

time_point server_link::old_connection_until(server_place const& p) const {
  return p.late.last_sent_on == number_ ? p.late.old_connection_until : p.late.until;
}

}  // namespace conch::protocol
