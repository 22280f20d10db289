// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/requests.hpp"

#include <utility>

namespace conch::zookeeper {

namespace {

bool shows_the_node(about what) noexcept {
  return what == about::node || what == about::search || what == about::found;
}

}  // namespace

void requests::send(about what, request const& r, queue_place& p, cleanup* c, time_point now, std::string path) {
  ++env_.stats.scripts;
  ++p.references;
  // a clean-up, and the end of an interval, is independent of what the place asks for now
  if (c == nullptr && what != about::keep_end) p.last_sent_on = connections_;
  if (c == nullptr && shows_the_node(what)) ++p.answers_due;
  bool const is_list = what == about::list;
  if (is_list) window_.uses(p.lease, now);
  in_flight_.push_back({what, &p, p.number, c, std::move(path), now, is_list ? window_.written(1) : 0});
  session_.send(r, now);
}

/// Was a node made under that number? The server first learns all that the leader knows. What an earlier connection had
/// under way for this session the leader has carried out by then, or refuses: the session has moved.
void requests::search(queue_place& p, std::uint64_t number, cleanup* c, time_point now) {
  send(about::nothing, sync{p.folder}, p, c, now);
  if (c != nullptr) c->sent = true;
  send(about::search, get_children{p.folder}, p, c, now);
  in_flight_.back().number = number;
}

in_flight requests::take(bool others_wait, time_point now) {
  in_flight r = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_answer_ = now;
  r.place->trouble_since = {};
  if (r.together != 0) window_.answered(1, r.together, r.written, others_wait, now);
  if (r.of_cleanup == nullptr && shows_the_node(r.what) && r.place->number == r.number) --r.place->answers_due;
  return r;
}

void requests::pass_on(queue_place& from, queue_place& to) {
  for (in_flight& one : in_flight_) {
    if (one.place != &from || one.number != to.number || one.of_cleanup != nullptr) continue;
    one.place = &to;
    ++to.references;
    --from.references;  // the caller has its own
  }
}

std::deque<in_flight> requests::interrupted(time_point now) {
  lost_at_ = now;
  ++connections_;
  std::deque<in_flight> unanswered = std::exchange(in_flight_, {});
  window_.connection_ended();
  return unanswered;
}

}  // namespace conch::zookeeper
