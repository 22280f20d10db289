// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/show.hpp"

#include "base/readable.hpp"
#include "cli/duration.hpp"
#include "servers/probe.hpp"

#include <conch/print.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <ctime>
#include <string_view>

namespace conch::cli {

namespace {

std::string share_of(lock_status const& s, lock_holder const& h) {
  switch (s.kind) {
    case lock_status::kind_of_lock::semaphore:
      return std::to_string(h.permits) + (h.permits == 1 ? " permit, " : " permits, ");
    case lock_status::kind_of_lock::shared_mutex: return s.writer() ? "writes, " : "reads, ";
    case lock_status::kind_of_lock::striped_mutex: return "segment " + std::to_string(h.segment) + ", ";
    case lock_status::kind_of_lock::mutex:
    case lock_status::kind_of_lock::reentrant_mutex: break;
  }
  return {};
}

std::string state_of(lock_status const& s) {
  if (!s.locked()) return "free";
  switch (s.kind) {
    case lock_status::kind_of_lock::semaphore:
      return std::to_string(s.taken) + " of " + std::to_string(s.limit) + " permits held";
    case lock_status::kind_of_lock::striped_mutex:
      return std::to_string(s.taken) + " of " + std::to_string(s.limit) + " segments held";
    case lock_status::kind_of_lock::shared_mutex:
      return s.writer() ? "held by a writer"
                        : "held by " + std::to_string(s.held) + (s.held == 1 ? " reader" : " readers");
    case lock_status::kind_of_lock::mutex:
    case lock_status::kind_of_lock::reentrant_mutex: break;
  }
  return "held";
}

boost::json::object holder_as_json(lock_holder const& h) {
  boost::json::object o;
  o["client"] = printable(h.client);
  o["fence"] = std::to_string(h.fence);
  o["since"] = in_utc(h.since);
  if (h.lease_left == servers::unknown_lease) o["lease_left_ms"] = nullptr;
  else o["lease_left_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(h.lease_left).count();
  o["confirmed"] = h.confirmed;
  o["permits"] = h.permits;
  if (h.segment != 0) o["segment"] = h.segment;
  if (!h.asked_by.empty()) {
    o["asked_by"] = printable(h.asked_by);
    o["asked_at"] = in_utc(h.asked_at);
  }
  return o;
}

}  // namespace

std::string in_utc(std::chrono::system_clock::time_point t) {
  std::time_t const seconds = std::chrono::system_clock::to_time_t(t);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string as_text(std::string const& name, lock_status const& s, std::chrono::system_clock::time_point now) {
  std::string text = printable(name) + ": ";
  if (s.locked() || s.kind != lock_status::kind_of_lock::mutex) text += to_string(s.kind) + ", ";
  text += state_of(s);
  if (s.locked() || s.waiting != 0) text += ", " + std::to_string(s.waiting) + " waiting";
  text += '\n';
  for (lock_holder const& h : s.holders) {
    text += "  client " + printable(h.client) + ", " + share_of(s, h) + "fence " + std::to_string(h.fence) +
            ", since " + in_utc(h.since) + " (" + readable(now - h.since) + ')';
    if (h.lease_left != servers::unknown_lease) text += ", " + readable(h.lease_left) + " left";
    if (!h.confirmed) text += ", not confirmed yet";
    if (!h.asked_by.empty()) text += ", asked to let go at " + in_utc(h.asked_at);
    text += '\n';
  }
  if (s.held > s.holders.size()) text += "  and " + std::to_string(s.held - s.holders.size()) + " more\n";
  return text;
}

boost::json::object as_json(std::string const& name, lock_status const& s) {
  boost::json::object o;
  o["name"] = printable(name);
  o["kind"] = to_string(s.kind);
  o["locked"] = s.locked();
  o["held"] = s.held;
  o["taken"] = s.taken;
  o["limit"] = s.limit;
  o["waiting"] = s.waiting;
  boost::json::array holders;
  for (lock_holder const& h : s.holders) holders.push_back(holder_as_json(h));
  o["holders"] = std::move(holders);
  return o;
}

std::string one_line(boost::json::object const& o) { return boost::json::serialize(o) + '\n'; }

}  // namespace conch::cli
