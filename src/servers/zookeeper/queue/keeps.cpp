// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/queue/keeps.hpp"

#include "servers/zookeeper/names.hpp"

#include <boost/assert.hpp>

#include <utility>

namespace conch::zookeeper {

keeps::~keeps() = default;

void keeps::make(queue_place& p, time_point now) {
  if (p.keep_sent_on == on_.sent.connection_number()) return;
  // One that an earlier attempt has made may be too old.
  if (!p.keep.empty()) on_.sent.send(about::nothing, remove{p.keep}, p, nullptr, now);
  p.keep = p.path_of(keep_name_of(last_of(p.node), p.created));
  p.keep_sent_on = on_.sent.connection_number();
  on_.sent.send(about::keep, create{p.keep, {}, node_kind::persistent, on_.session.nodes().who()}, p, nullptr, now);
}

void keeps::let_go(queue_place& p, time_point not_before, time_point now) {
  if (p.keep.empty()) return;
  auto const [at, is_new] = all_.try_emplace(p.keep, std::make_unique<kept_node>(*this, p));
  BOOST_ASSERT_MSG(is_new, "two grants have one node");
  ++p.references;
  p.keep.clear();
  kept_node& k = *at->second;
  if (not_before > now) return on_.env.timers.arm(k.due, not_before);
  end(k, now);
}

/// The data of the node is of no use, but that it was written shows the leader's time.
void keeps::measure(queue_place& p, std::string_view name, time_point now) {
  bool const is_watched = p.ahead.watched.size() == 1 && p.ahead.watched.front().name == name;
  if (is_watched) return;
  p.awaits_end = false;
  on_.sent.send(about::nothing, set_data{p.path_of(name), {}}, p, nullptr, now);
}

void keeps::end(kept_node& k, time_point now) {
  k.unlink();
  if (!on_.session.is_open()) return resting_.push_back(k);
  sent_.push_back(k);
  on_.sent.send(about::keep_end, remove{k.node}, k.place, nullptr, now, k.node);
}

void keeps::end_next(time_point now) { end(resting_.front(), now); }

/// What the server could not do now is asked for again: otherwise the lock would stay kept until a client wants it.
void keeps::answered(in_flight const& r, reply const& a, time_point now) {
  auto const at = all_.find(r.path);
  if (at == all_.end()) return;
  kept_node& k = *at->second;
  if (a.what != status::ok && a.what != status::no_node) {
    k.unlink();
    on_.env.timers.arm(k.due, now + on_.pause.next());
    return;
  }
  queue_place& p = k.place;
  all_.erase(at);
  on_.all.drop(p);
}

void keeps::interrupted() { resting_.splice_back(sent_); }

}  // namespace conch::zookeeper
