// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/cluster_talk.hpp"

#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"
#include "servers/redis/greeting.hpp"

#include <boost/assert.hpp>

#include <utility>

namespace conch::redis {

location cluster_talk::locate(address& to, time_point now) { return core_.locate_asked(to, now); }

std::string cluster_talk::begin(address const& where, std::string const& client_name) {
  where_ = where;
  greeted_ = false;
  unanswered_ = 0;
  return hello_command(where, client_name) + question();
}

std::string cluster_talk::question() {
  std::string out;
  resp::append_command(out, {"CLUSTER", "SLOTS"});
  ++unanswered_;
  return out;
}

cluster_talk::progress cluster_talk::received(std::span<resp::node const> message, bool is_push, time_point now) {
  if (is_push) return unanswered_ == 0 ? progress::good : progress::greeting;
  if (!std::exchange(greeted_, true)) return hello(message);
  if (unanswered_ == 0) return fail(protocol::fault::malformed, "an unexpected reply");
  --unanswered_;
  if (is_error(message)) return fail(classify(message[0].text), readable(message[0].text));
  auto const all = read_slots(message, where_);
  if (!all) return fail(protocol::fault::malformed, "the answer to CLUSTER SLOTS is not a slot map");
  // One that was started a moment ago, or that the others have forgotten. Believed, it would take all locks from their
  // masters.
  if (all->empty()) return fail(protocol::fault::try_later, "the node knows of no slots");
  if (!core_.update(*all, where_, now)) {
    return fail(protocol::fault::malformed,
                "the answer to CLUSTER SLOTS names more than " + std::to_string(slot_map::most_masters) + " masters");
  }
  owner_.carry_out();
  return progress::good;
}

cluster_talk::progress cluster_talk::hello(std::span<resp::node const> message) {
  hello_reply const said = read_hello(message);
  if (said.what != protocol::fault::none) return fail(said.what, said.why);
  if (said.mode == "sentinel")
    return fail(protocol::fault::not_supported,
                "the server is a Sentinel; the URL of its master begins with redis-sentinel://");
  if (auto const why = why_no_node(said.version, said.mode); !why.empty())
    return fail(protocol::fault::not_supported, why);
  return progress::greeting;
}

void cluster_talk::ended(protocol::fault what, std::string_view why) {
  core_.failed(what, why);
  owner_.carry_out();
}

}  // namespace conch::redis
