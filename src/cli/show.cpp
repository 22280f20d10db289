// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/show.hpp"

#include "base/introduction.hpp"
#include "base/readable.hpp"
#include "cli/duration.hpp"
#include "servers/probe.hpp"

#include <conch/print.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <ctime>
#include <string_view>

namespace conch::cli {

namespace {

/// A page of a terminal; JSON has all that the library tells.
constexpr std::size_t most_waiters_in_text = 10;

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

template <class Client>
std::string who_is(Client const& c) {
  return name_and_id_of_client(c.label, c.note, c.client);
}

template <class Client>
void add_who(boost::json::object& o, Client const& c) {
  o["client"] = printable(c.client);
  if (!c.label.empty()) o["label"] = printable(c.label);
  if (!c.note.empty()) o["note"] = printable(c.note);
}

/// What a waiter asks for, where that is not one of the same for all.
std::string wish_of(lock_status const& s, lock_waiter const& w) {
  constexpr std::uint32_t all_of_shared = 1'000'000;
  switch (s.kind) {
    case lock_status::kind_of_lock::semaphore:
      return " for " + std::to_string(w.permits) + (w.permits == 1 ? " permit" : " permits");
    case lock_status::kind_of_lock::shared_mutex: return w.permits == all_of_shared ? " to write" : " to read";
    default: return {};
  }
}

boost::json::object waiter_as_json(lock_waiter const& w) {
  boost::json::object o;
  add_who(o, w);
  o["since"] = in_utc(w.since);
  o["permits"] = w.permits;
  return o;
}

boost::json::object holder_as_json(lock_holder const& h) {
  boost::json::object o;
  add_who(o, h);
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

std::string name_of(lock_holder const& h) { return name_of_client(h.label, h.note, h.client); }

std::string as_text(std::string const& name, lock_status const& s, std::chrono::system_clock::time_point now) {
  std::string text = printable(name) + ": ";
  if (s.locked() || s.kind != lock_status::kind_of_lock::mutex) text += to_string(s.kind) + ", ";
  text += state_of(s);
  if (s.locked() || s.waiting != 0) text += ", " + std::to_string(s.waiting) + " waiting";
  text += '\n';
  for (lock_holder const& h : s.holders) {
    text += "  " + who_is(h) + ", " + share_of(s, h) + "fence " + std::to_string(h.fence) + ", since " +
            in_utc(h.since) + " (" + readable(now - h.since) + ')';
    if (h.lease_left != servers::unknown_lease) text += ", " + readable(h.lease_left) + " left";
    if (!h.confirmed) text += ", not confirmed yet";
    if (!h.asked_by.empty()) text += ", asked to let go at " + in_utc(h.asked_at);
    text += '\n';
  }
  if (s.held > s.holders.size()) text += "  and " + std::to_string(s.held - s.holders.size()) + " more\n";
  std::size_t const shown = std::min(s.waiters.size(), most_waiters_in_text);
  for (std::size_t i = 0; i < shown; ++i) {
    lock_waiter const& w = s.waiters[i];
    text += "  waiting" + wish_of(s, w) + ": " + who_is(w) + ", since " + in_utc(w.since) + " (" +
            readable(now - w.since) + ")\n";
  }
  if (shown != 0 && s.waiting > shown) text += "  and " + std::to_string(s.waiting - shown) + " more waiting\n";
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
  boost::json::array waiters;
  for (lock_waiter const& w : s.waiters) waiters.push_back(waiter_as_json(w));
  o["waiters"] = std::move(waiters);
  return o;
}

boost::json::object as_json(std::string const& name, wait_chain const& c) {
  constexpr std::string_view endings[]{"free", "works", "unknown", "several", "deadlock"};
  boost::json::object o;
  o["name"] = printable(name);
  o["ending"] = endings[static_cast<std::size_t>(c.how)];
  boost::json::array links;
  for (wait_chain::link const& one : c.links) {
    boost::json::object l;
    l["lock"] = printable(one.lock);
    if (!one.holder.client.empty()) {
      add_who(l, one.holder);
      l["fence"] = std::to_string(one.holder.fence);
      l["since"] = in_utc(one.holder.since);
    }
    links.push_back(std::move(l));
  }
  o["links"] = std::move(links);
  if (c.is_deadlock()) o["circle"] = c.circle;
  return o;
}

std::string one_line(boost::json::object const& o) { return boost::json::serialize(o) + '\n'; }

}  // namespace conch::cli
