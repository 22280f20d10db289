// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include <conch/print.hpp>

#include "base/failure.hpp"
#include "base/introduction.hpp"
#include "base/readable.hpp"

#include <conch/hold.hpp>
#include <conch/multi_lock.hpp>
#include <conch/named_lock.hpp>
#include <conch/reentrant_mutex.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <ostream>

namespace conch {

namespace {

std::string seconds(duration d) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(std::max(d, duration::zero())).count());
  return text;
}

std::string in_utc(std::chrono::system_clock::time_point t) {
  std::time_t const seconds = std::chrono::system_clock::to_time_t(t);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

template <class Hold>
std::string single(Hold const& h) {
  if (!h) return "empty";
  std::string const fence = "fence " + std::to_string(h.fence());
  return h.valid() ? "held, " + fence + ", " + seconds(h.deadline() - clock::now()) + " left"
                   : "not held any more, " + fence;
}

}  // namespace

std::string to_string(lock_kind kind) {
  switch (kind) {
    case lock_kind::mutex: return "mutex";
    case lock_kind::semaphore: return "semaphore";
    case lock_kind::shared_mutex: return "shared_mutex";
    case lock_kind::striped_mutex: return "striped_mutex";
    case lock_kind::reentrant_mutex: return "reentrant_mutex";
  }
  return "lock of an unknown kind";
}

std::string to_string(errc e) {
  switch (e) {
    case errc::timed_out: return "timed_out";
    case errc::lost: return "lost";
    case errc::not_held: return "not_held";
    case errc::closed: return "closed";
    case errc::unreachable: return "unreachable";
    case errc::access_denied: return "access_denied";
    case errc::wrong_type: return "wrong_type";
    case errc::server_refused: return "server_refused";
    case errc::protocol: return "protocol";
    case errc::invalid_name: return "invalid_name";
    case errc::invalid_config: return "invalid_config";
    case errc::invalid_url: return "invalid_url";
    case errc::not_supported: return "not_supported";
    case errc::would_deadlock: return "would_deadlock";
    case errc::tls_failed: return "tls_failed";
    case errc::not_replicated: return "not_replicated";
  }
  return "errc(" + std::to_string(static_cast<int>(e)) + ")";
}

std::string to_string(lock_holder const& h) {
  std::string text = name_and_id_of_client(h.label, h.note, h.client) + " since " + in_utc(h.since) + ", fence " +
                     std::to_string(h.fence) + ", " + seconds(h.lease_left) + " left";
  if (h.permits > 1) text += ", " + std::to_string(h.permits) + " permits";
  if (h.segment != 0) text += ", segment " + std::to_string(h.segment);
  if (!h.asked_by.empty()) text += ", asked to let go by " + h.asked_by;
  return text;
}

std::string to_string(lock_status const& s) {
  std::string text = to_string(s.kind);
  text += ", " + std::to_string(s.taken) + " of " + std::to_string(s.limit) + " held, " + std::to_string(s.waiting) +
          " waiting";
  char const* before = ": ";
  for (lock_holder const& h : s.holders) {
    text += before + to_string(h);
    before = "; ";
  }
  return text;
}

std::string to_string(hold const& h) { return single(h); }

std::string to_string(reentrant_hold const& h) {
  return h ? single(h) + ", level " + std::to_string(h.depth()) : single(h);
}

std::string to_string(multi_hold const& h) {
  if (!h) return "empty";
  std::string text = std::to_string(h.holds().size()) + " locks";
  char const* before = ": ";
  for (hold const& one : h.holds()) {
    text += before + to_string(one);
    before = "; ";
  }
  return text;
}

std::ostream& operator<<(std::ostream& to, errc e) { return to << to_string(e); }
std::ostream& operator<<(std::ostream& to, lock_kind kind) { return to << to_string(kind); }
std::ostream& operator<<(std::ostream& to, lock_status const& s) { return to << to_string(s); }
std::ostream& operator<<(std::ostream& to, lock_holder const& h) { return to << to_string(h); }
std::ostream& operator<<(std::ostream& to, hold const& h) { return to << to_string(h); }
std::ostream& operator<<(std::ostream& to, reentrant_hold const& h) { return to << to_string(h); }
std::ostream& operator<<(std::ostream& to, multi_hold const& h) { return to << to_string(h); }

std::string wait_chain::text(std::chrono::system_clock::time_point now) const {
  std::string words;
  for (link const& one : links) {
    words += words.empty() ? printable(one.lock) + ": " : ", which waits for " + printable(one.lock) + ", ";
    if (one.holder.client.empty()) return words + "held by several clients";
    words += "held for " + in_words(std::max<duration>(now - one.holder.since, duration::zero())) + " by " +
             name_of_client(one.holder.label, one.holder.note, one.holder.client);
  }
  switch (how) {
    case ending::free: return words.empty() ? "free" : words + ", which is about to get the lock that it waits for";
    case ending::works: return words + ", which waits for no lock";
    case ending::deadlock: return words + ", which waits for " + printable(links[circle].lock) + ": deadlock";
    case ending::unknown:
    case ending::several: break;
  }
  return words + ", which has not reported whether it waits";
}

}  // namespace conch
