// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/topology/sentinel_talk.hpp"

#include "base/numbers.hpp"
#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"
#include "servers/redis/greeting.hpp"

#include <boost/assert.hpp>

#include <optional>
#include <utility>

namespace conch::redis {

namespace {

constexpr std::size_t longest_id = 64;  // of Redis: 40

using message_nodes = std::span<resp::node const>;

std::optional<std::int64_t> not_negative(std::string_view text) {
  auto const number = whole_number<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// 0: it is none.
std::uint16_t port_of(std::string_view text) {
  auto const number = not_negative(text);
  return number && *number <= 65535 ? static_cast<std::uint16_t>(*number) : std::uint16_t{0};
}

/// The text of a field of a map (or of a list of fields and values) that is at this place of the message.
std::string_view field(message_nodes message, std::size_t map, std::string_view name) {
  std::uint32_t const depth = message[map].depth + 1;
  bool is_name = true;
  for (std::size_t i = map + 1; i < message.size() && message[i].depth >= depth; ++i) {
    if (message[i].depth != depth) continue;
    if (is_name && message[i].text == name) return i + 1 < message.size() ? message[i + 1].text : std::string_view{};
    is_name = !is_name;
  }
  return {};
}

bool is_map(resp::node const& n) { return n.what == resp::kind::map || n.what == resp::kind::array; }

}  // namespace

config settings_of_sentinels(config c) {
  c.credentials_provider = nullptr;  // it knows those of the servers
  if (c.sentinel_tls) c.tls = *c.sentinel_tls;
  return c;
}

std::optional<named_master> read_named_master(message_nodes message) {
  if (message.size() != 3) return std::nullopt;
  named_master found;
  found.host = message[1].text;
  found.port = port_of(message[2].text);
  if (!can_be_host(found.host) || found.port == 0) return std::nullopt;
  return found;
}

location sentinel_talk::locate(address& to, time_point) {
  core_.locate(number_, to);
  return {location::kind::here};
}

std::string sentinel_talk::begin(address const& where, std::string const& client_name) {
  expected_ = {reply::hello, reply::id, reply::subscribed, reply::others};
  greeted_ = false;
  epoch_ = named_master::no_epoch;
  id_.clear();
  std::string out = hello_command(where, client_name);
  resp::append_command(out, {"SENTINEL", "MYID"});
  // Before the question: changes after its answer are pushed.
  resp::append_command(out, {"SUBSCRIBE", "+switch-master"});
  resp::append_command(out, {"SENTINEL", "SENTINELS", core_.master_name()});
  ask(out);
  return out;
}

std::string sentinel_talk::question() {
  BOOST_ASSERT(greeted_);
  std::string out;
  ask(out);
  return out;
}

/// The epoch first. The one that leads a failover names the new master in the second answer before it does in the
/// first, and the epoch of the first answer must not be greater than that of the address.
void sentinel_talk::ask(std::string& out) {
  resp::append_command(out, {"SENTINEL", "MASTER", core_.master_name()});
  resp::append_command(out, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", core_.master_name()});
  expected_.push_back(reply::epoch);
  expected_.push_back(reply::master);
}

sentinel_talk::progress sentinel_talk::received(message_nodes message, bool is_push, time_point now) {
  progress const p = understood(message, is_push, now);
  owner_.carry_out();
  return p;
}

void sentinel_talk::ended(protocol::fault what, std::string_view why) {
  core_.failed(number_, what, why);
  owner_.carry_out();
}

sentinel_talk::progress sentinel_talk::understood(message_nodes message, bool is_push, time_point now) {
  progress const unchanged = greeted_ ? progress::good : progress::greeting;
  if (is_push) {
    bool const is_event = message.size() == 4 && message[1].text == "message" && message[2].text == "+switch-master";
    if (is_event) core_.switched(number_, message[3].text, now);
    bool const subscribed = message.size() > 1 && message[1].text == "subscribe" && !expected_.empty() &&
                            expected_.front() == reply::subscribed;
    if (subscribed) expected_.pop_front();
    return unchanged;
  }
  if (expected_.empty()) return fail(protocol::fault::malformed, "an unexpected reply");
  reply const what = expected_.front();
  expected_.pop_front();
  return answer(what, message);
}

sentinel_talk::progress sentinel_talk::answer(reply what, message_nodes message) {
  bool const is_wrong = is_error(message);
  switch (what) {
    case reply::hello: return hello(message);
    // Without these it is only slower: a Sentinel may be listened to twice, a switch is seen at the next question,
    // others are not known.
    case reply::id:
      if (!is_wrong && message[0].text.size() <= longest_id) id_ = message[0].text;
      break;
    case reply::subscribed: break;
    case reply::others:
      if (!is_wrong) read_others(message);
      break;
    case reply::epoch: {
      auto const epoch =
          !is_wrong && is_map(message[0]) ? not_negative(field(message, 0, "config-epoch")) : std::nullopt;
      epoch_ = epoch.value_or(named_master::no_epoch);
      break;
    }
    case reply::master: return read_master(message);
  }
  return greeted_ ? progress::good : progress::greeting;
}

sentinel_talk::progress sentinel_talk::hello(message_nodes message) {
  if (is_error(message)) {
    auto const what = fault_of_hello(message[0].text);
    return fail(what, trouble_with_hello(what, message[0].text));
  }
  if (!is_map(message[0])) return fail(protocol::fault::malformed, "the answer to HELLO is not a map");
  if (field(message, 0, "mode") != "sentinel")
    return fail(protocol::fault::refused, "this is not a Sentinel; the URL of a server begins with redis://");
  return progress::greeting;
}

void sentinel_talk::read_others(message_nodes message) {
  std::vector<named_sentinel> others;
  for (std::size_t i = 1; i < message.size() && others.size() < sentinels::most_known; ++i) {
    if (message[i].depth != 1 || !is_map(message[i])) continue;
    // it would stay in the list forever
    if (field(message, i, "flags").find("s_down") != std::string_view::npos) continue;
    named_sentinel one{std::string{field(message, i, "runid")}, std::string{field(message, i, "ip")},
                       port_of(field(message, i, "port"))};
    if (can_be_host(one.host) && one.port != 0 && one.id.size() <= longest_id) others.push_back(std::move(one));
  }
  core_.add_named(others);
}

sentinel_talk::progress sentinel_talk::read_master(message_nodes message) {
  if (is_error(message)) return fail(classify(message[0].text), readable(message[0].text));
  auto const greeted = [this] {
    if (!std::exchange(greeted_, true)) core_.connected(number_, id_);
  };
  if (message[0].what == resp::kind::null) {
    greeted();
    core_.answered(number_, std::nullopt);
    return progress::good;
  }
  auto found = read_named_master(message);
  if (!found) return fail(protocol::fault::malformed, "the answer is not the address of a master");
  found->epoch = epoch_;
  greeted();
  core_.answered(number_, found);
  return progress::good;
}

}  // namespace conch::redis
