// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/greeting.hpp"

#include "base/readable.hpp"
#include "resp/encoder.hpp"
#include "servers/redis/faults.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace conch::redis {

namespace {

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Is it such a version, such as "7.0.15", or newer?
bool is_at_least(std::string_view version, std::int64_t wanted_major, std::int64_t wanted_minor) {
  auto const dot = version.find('.');
  auto const major = number(version.substr(0, dot));
  auto const minor =
      dot == std::string_view::npos ? 0 : number(version.substr(dot + 1, version.find('.', dot + 1) - dot - 1));
  return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
}

/// The value after the label in a text of INFO; empty if the label is missing.
std::string_view field(std::string_view info, std::string_view label) {
  auto const found = info.find(label);
  if (found == std::string_view::npos) return {};
  std::string_view const rest = info.substr(found + label.size());
  return rest.substr(0, std::min<std::size_t>(rest.find_first_of("\r\n"), 64));
}

}  // namespace

std::string why_no_node(std::string_view version, std::string_view mode) {
  if (mode != "cluster")
    return "the server is not a node of a Cluster; the URL of a single server begins with redis://";
  if (is_at_least(version, 7, 0)) return {};
  // It has no channels of a shard.
  return "a Cluster needs version 7.0 or newer, and this node's is '" + readable(version) + "'";
}

bool is_error(std::span<resp::node const> reply) {
  return reply[0].what == resp::kind::simple_error || reply[0].what == resp::kind::bulk_error;
}

protocol::fault fault_of_hello(std::string_view words) {
  bool const unknown = words.find("unknown command") != std::string_view::npos || words.starts_with("NOPROTO");
  return unknown ? protocol::fault::malformed : classify(words);
}

std::string trouble_with_hello(protocol::fault what, std::string_view words) {
  return (what == protocol::fault::malformed ? "Redis 6.2 or newer is needed, with HELLO; the server answered: " : "") +
         readable(words);
}

hello_reply read_hello(std::span<resp::node const> reply) {
  if (is_error(reply)) {
    auto const what = fault_of_hello(reply[0].text);
    return {.what = what, .why = trouble_with_hello(what, reply[0].text)};
  }
  if (reply[0].what != resp::kind::map)
    return {.what = protocol::fault::malformed, .why = "the answer to HELLO is not a map"};
  hello_reply all;
  for (std::size_t i = 1; i + 1 < reply.size(); ++i) {
    if (reply[i].depth != 1) continue;
    resp::node const& value = reply[i + 1];
    if (reply[i].text == "version") all.version = value.text;
    if (reply[i].text == "mode") all.mode = value.text;
    if (reply[i].text == "role") all.role = value.text;
    if (reply[i].text == "id") all.client_id = static_cast<std::uint64_t>(value.integer);
  }
  return all;
}

std::string hello_command(address const& where, std::string const& client_name) {
  std::string out;
  bool const authenticates = !where.password.empty();
  resp::command_writer hello{out, 2u + (authenticates ? 3u : 0u) + (client_name.empty() ? 0u : 2u)};
  hello.arg("HELLO").arg("3");
  if (authenticates)
    hello.arg("AUTH").arg(where.user.empty() ? std::string_view{"default"} : where.user).arg(where.password.bytes());
  if (!client_name.empty()) hello.arg("SETNAME").arg(client_name);
  return out;
}

std::string greeting::begin(address const& where, std::string const& client_name, bool of_cluster) {
  *this = greeting{};
  of_cluster_ = of_cluster;
  selects_ = where.database != 0;
  std::string out = hello_command(where, client_name);
  if (selects_) resp::append_command(out, {"SELECT", std::to_string(where.database)});
  resp::append_command(out, {"CLIENT", "INFO"});
  resp::append_command(out, {"TIME"});
  // Not CONFIG GET: a user with that right can also read the passwords.
  resp::append_command(out, {"INFO", "memory"});
  resp::append_command(out, {"INFO", "server"});
  return out;
}

greeting::progress greeting::next(std::span<resp::node const> reply) {
  switch (step_) {
    case step::hello: return hello(reply);
    case step::select:
      if (is_error(reply)) return fail(classify(reply[0].text), readable(reply[0].text));
      step_ = step::client_info;
      return progress::more;
    case step::client_info:
      // Without it the protocol cannot end old connections by address, as for a user without CLIENT KILL.
      if (!is_error(reply)) client_info(reply[0].text);
      step_ = step::time;
      return progress::more;
    case step::time:
      if (is_error(reply)) return fail(classify(reply[0].text), readable(reply[0].text));
      if (!time(reply)) return fail(protocol::fault::malformed, "the server's TIME is not a time");
      step_ = step::eviction;
      return progress::more;
    case step::eviction:
      if (!is_error(reply)) eviction(reply[0].text);
      step_ = step::run;
      return progress::more;
    case step::run:
      if (!is_error(reply)) run(reply[0].text);
      step_ = step::done;
      return progress::done;
    case step::done: break;
  }
  return fail(protocol::fault::malformed, "an unexpected reply");
}

greeting::progress greeting::fail(protocol::fault what, std::string_view why) {
  fault_ = what;
  why_ = readable_line(why);
  return progress::failed;
}

greeting::progress greeting::hello(std::span<resp::node const> reply) {
  auto const [what, wrong, version, mode, role, client_id] = read_hello(reply);
  if (what != protocol::fault::none) return fail(what, wrong);
  client_id_ = client_id;
  if (mode == "sentinel")
    return fail(protocol::fault::refused,
                "the server is a Sentinel; the URL of its master begins with redis-sentinel://");
  if (role == "replica") return fail(protocol::fault::reconnect, "the server is a replica");
  if (mode == "cluster" && !of_cluster_)
    return fail(protocol::fault::refused, "the server is a Cluster node; this URL form is for one server");
  if (of_cluster_) {
    if (auto const why = why_no_node(version, mode); !why.empty()) return fail(protocol::fault::not_supported, why);
  }
  if (!is_at_least(version, 6, 2)) {
    return fail(protocol::fault::malformed, "the server's version is '" + readable(version) + "', 6.2 is needed");
  }
  step_ = selects_ ? step::select : step::client_info;
  return progress::more;
}

/// "id=3 addr=127.0.0.1:60406 laddr=..."
void greeting::client_info(std::string_view text) {
  auto const found = text.find(" addr=");
  if (found == std::string_view::npos) return;
  std::string_view const rest = text.substr(found + 6);
  std::string_view const address = rest.substr(0, rest.find(' '));
  constexpr std::size_t longest = 128;  // the path of a unix socket, or an IPv6 address with its zone, and a port
  if (address.size() <= longest) client_address_ = address;
}

bool greeting::time(std::span<resp::node const> reply) {
  if (reply.size() != 3) return false;
  auto const seconds = number(reply[1].text), microseconds = number(reply[2].text);
  constexpr std::int64_t year_2255 = 9'000'000'000;  // where Lua's whole numbers end, as microseconds
  if (seconds <= 0 || seconds > year_2255 || microseconds < 0 || microseconds > 999'999) return false;
  server_us_ = seconds * 1'000'000 + microseconds;
  return true;
}

/// "# Server\r\n...\r\nrun_id:9f3c...\r\nuptime_in_seconds:17\r\n..."
void greeting::run(std::string_view info) {
  run_ = field(info, "run_id:");
  std::string_view const up = field(info, "uptime_in_seconds:");
  constexpr std::int64_t a_century = 100LL * 366 * 24 * 3600;  // a clock's range has three
  if (!up.empty()) uptime_ = std::chrono::seconds{std::clamp<std::int64_t>(number(up), 0, a_century)};
}

/// "# Memory\r\n...\r\nmaxmemory_policy:noeviction\r\n..."
void greeting::eviction(std::string_view info) {
  std::string_view const policy = field(info, "maxmemory_policy:");
  if (policy.empty() || policy == "noeviction") return;
  warning_ = "maxmemory-policy is " + readable(policy) + ": the server may evict a lock that is held; use noeviction";
}

}  // namespace conch::redis
