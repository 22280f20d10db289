// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "net/lookup_threads.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <system_error>
#include <thread>

namespace conch::net {

namespace {

using boost::system::error_code;

/// After this long the name server that hangs may have been replaced, and another question is worth a thread.
constexpr auto ask_again_after = std::chrono::seconds{2};
/// An answer that came between two attempts to connect is for the second: otherwise the answers of a name server that
/// is always a little late would never be used.
constexpr auto late_is_good_for = std::chrono::seconds{5};

error_code error_of(int result) {
  switch (result) {
    case EAI_AGAIN: return asio::error::host_not_found_try_again;
    case EAI_FAIL: return asio::error::no_recovery;
    case EAI_MEMORY: return asio::error::no_memory;
    case EAI_SYSTEM: return {errno, boost::system::system_category()};
    default: return asio::error::host_not_found;
  }
}

/// Signals are for the threads of the program.
class no_signals {
 public:
  no_signals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(no_signals const&) = delete;
  no_signals& operator=(no_signals const&) = delete;
  ~no_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

lookup_threads::lookup_threads(lookup_threads* inherited) : process_{::getpid()}, inherited_{inherited} {}

lookup_threads& lookup_threads::of_this_process() {
  static std::atomic<lookup_threads*> latest{nullptr};
  for (;;) {
    lookup_threads* present = latest.load();
    if (present != nullptr && present->process_ == ::getpid()) return *present;
    std::unique_ptr<lookup_threads> made{new lookup_threads{present}};
    if (latest.compare_exchange_strong(present, made.get())) return *made.release();
  }
}

void lookup_threads::ask(std::string const& host, std::uint16_t port, std::shared_ptr<waiter> const& who) {
  auto const now = clock::now();
  std::unique_lock guard{mutex_};
  forget_old(now);
  key const k{host, port};
  entry& e = names_[k];
  if (auto const late = std::exchange(e.late, std::nullopt)) {
    guard.unlock();
    return who->answered(late->ec, late->found);
  }
  e.waiting.push_back(who);
  if (e.asking == 0 || may_ask_again(e, now)) {
    ++e.asking;
    e.newest = now;
    e.has_answered = false;
    queue_.push_back(k);
  }
  while (has_room(now) && !queue_.empty() && begin(key{queue_.front()}, now)) queue_.pop_front();
}

/// With mutex_ locked. A look-up may hang forever, and the next one be answered: so there is always a next one, but
/// each that hangs makes the pause half as long again. A name that hangs for an hour has 17 threads, for a day 26, and
/// is found again no later than that plus a half. Where many hang, one of all gets another thread in two seconds, and
/// first look-ups of other names always find `most_threads` free.
bool lookup_threads::may_ask_again(entry const& e, clock::time_point now) {
  std::chrono::duration<double> pause = e.has_answered ? clock::duration::zero() : ask_again_after;
  for (std::size_t n = 1; n < e.asking; ++n) pause *= 1.5;
  if (now - e.newest < pause || running_.size() + name_lookup::most_threads >= name_lookup::most_that_hang)
    return false;
  bool const many_hang = running_.size() >= name_lookup::most_threads / 2;
  if (many_hang && now - slowed_ < ask_again_after) return false;
  if (many_hang) slowed_ = now;
  return true;
}

/// With mutex_ locked. A thread that hangs takes no place of one that may be of use.
bool lookup_threads::has_room(clock::time_point now) const {
  if (running_.size() >= name_lookup::most_that_hang) return false;
  auto const fresh = std::distance(running_.upper_bound(now - ask_again_after), running_.end());
  return static_cast<std::size_t>(fresh) < name_lookup::most_threads;
}

/// With mutex_ locked. False: no thread can be started now; a running one continues with it.
bool lookup_threads::begin(key const& k, clock::time_point now) {
  auto const since = running_.insert(now);
  try {
    no_signals const masked;
    std::thread{[this, k, since] { run(k, since); }}.detach();
  } catch (std::system_error const& e) {  // the process has as many threads as it may
    running_.erase(since);
    if (!running_.empty()) return false;
    report(k, {e.code(), {}});
  }
  return true;
}

void lookup_threads::run(key k, running::iterator since) noexcept {
  for (bool more = true; more;) {
    answer const a = look_up(k);
    std::lock_guard const guard{mutex_};
    report(k, a);
    auto its = running_.extract(since);
    more = take_from_queue(k);
    if (!more) return;
    its.value() = clock::now();
    since = running_.insert(std::move(its));
  }
}

/// With mutex_ locked. False: the thread ends.
bool lookup_threads::take_from_queue(key& k) noexcept {
  while (!queue_.empty()) {
    k = std::move(queue_.front());
    queue_.pop_front();
    entry& e = names_[k];
    std::erase_if(e.waiting, [](auto const& who) { return who.expired(); });
    if (!e.waiting.empty()) return true;
    if (--e.asking == 0) names_.erase(k);  // those that wanted it have given up
  }
  return false;
}

lookup_threads::answer lookup_threads::look_up(key const& k) noexcept {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* all = nullptr;
  int const result = ::getaddrinfo(k.first.c_str(), std::to_string(k.second).c_str(), &hints, &all);
  if (result != 0) return {error_of(result), {}};
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> const freed{all, &::freeaddrinfo};
  answer a;
  for (addrinfo const* one = all; one != nullptr && a.found.size() < name_lookup::most_addresses; one = one->ai_next) {
    asio::ip::tcp::endpoint where;
    if (one->ai_addr == nullptr || one->ai_addrlen > where.capacity() ||
        (one->ai_family != AF_INET && one->ai_family != AF_INET6))
      continue;
    std::memcpy(where.data(), one->ai_addr, one->ai_addrlen);
    where.port(k.second);
    a.found.push_back(where);
  }
  if (a.found.empty()) a.ec = asio::error::host_not_found;
  return a;
}

/// With mutex_ locked.
void lookup_threads::report(key const& k, answer const& a) noexcept {
  entry& e = names_[k];
  --e.asking;
  e.has_answered = true;
  bool was_awaited = false;
  for (auto const& one : std::exchange(e.waiting, {})) {
    if (auto const who = one.lock()) {
      who->answered(a.ec, a.found);
      was_awaited = true;
    }
  }
  if (!was_awaited && !a.ec) {
    e.late = a;
    e.late_since = clock::now();
  } else if (e.asking == 0) {
    names_.erase(k);
  }
}

/// With mutex_ locked.
void lookup_threads::forget_old(clock::time_point now) {
  for (auto it = names_.begin(); it != names_.end();) {
    entry& e = it->second;
    if (e.late && now - e.late_since > late_is_good_for) e.late.reset();
    std::erase_if(e.waiting, [](auto const& who) { return who.expired(); });
    it = e.asking == 0 && !e.late && e.waiting.empty() ? names_.erase(it) : std::next(it);
  }
}

}  // namespace conch::net
