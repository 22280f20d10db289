// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/locks.hpp"

#include <conch/mutex.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/striped_mutex.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace conch::cli {

struct wanted_locks::lock {
  std::variant<mutex, shared_mutex, semaphore, striped_mutex> of;

  named_lock const& name() const {
    return std::visit([](auto const& one) -> named_lock const& { return one; }, of);
  }
};

namespace {

std::variant<mutex, shared_mutex, semaphore, striped_mutex> made(client& through, arguments const& given, std::string const& name) {
  switch (given.kind) {
    case lock_kind::shared:
    case lock_kind::exclusive: return shared_mutex{through, name};
    case lock_kind::semaphore: return semaphore{through, name, given.size};
    case lock_kind::striped: return striped_mutex{through, name, given.size};
    case lock_kind::mutex: break;
  }
  return mutex{through, name};
}

acquire_options options_of(arguments const& given) {
  acquire_options options;
  options.wait = given.wait;
  if (given.fixed_lease) options.renew = false;
  options.max_hold = given.max_hold;
  return options;
}

/// The last twelve bits count hand-offs in a process, which the server does not know.
bool same_grant(std::int64_t a, std::int64_t b) { return a >> 12 == b >> 12; }

struct checks {
  std::size_t left = 0;
  bool all_held = true;
  std::function<void(bool)> done;
};

}  // namespace

void held_locks::when_lost(std::function<void(error_code)> told) const {
  if (is_several_) {
    several_.async_lost(std::move(told));
  } else {
    one_.async_lost(std::move(told));
  }
}

void held_locks::release(std::function<void(error_code, bool)> done) {
  if (is_several_) {
    several_.async_release(std::move(done));
  } else {
    one_.async_release(std::move(done));
  }
}

wanted_locks::wanted_locks(client& through, arguments const& given) : client_{through}, given_{given} {
  for (std::string const& name : given.names) locks_.push_back(std::make_unique<lock>(lock{made(through, given, name)}));
}

wanted_locks::~wanted_locks() = default;

void wanted_locks::acquire(std::function<void(error_code, held_locks)> done, asio::cancellation_slot stop) {
  acquire_options const options = options_of(given_);
  if (locks_.size() > 1) {
    std::vector<mutex> all;
    for (auto const& one : locks_) all.push_back(std::get<mutex>(one->of));
    auto told = [done = std::move(done)](error_code why, multi_hold h) { done(why, held_locks{std::move(h)}); };
    multi_lock{all}.async_acquire(options, asio::bind_cancellation_slot(stop, std::move(told)));
    return;
  }
  auto told = asio::bind_cancellation_slot(stop, [done = std::move(done)](error_code why, hold h) { done(why, held_locks{std::move(h)}); });
  if (given_.kind == lock_kind::shared) {
    std::get<shared_mutex>(locks_.front()->of).async_acquire_shared(options, std::move(told));
  } else {
    std::visit([&](auto& one) { one.async_acquire(options, std::move(told)); }, locks_.front()->of);
  }
}

void wanted_locks::check(held_locks const& held, std::function<void(bool)> done) {
  if (!held.valid()) {
    asio::post(client_.get_executor(), [done = std::move(done)] { done(false); });
    return;
  }
  auto const all = std::make_shared<checks>(checks{locks_.size(), true, std::move(done)});
  for (auto const& one : locks_) {
    std::int64_t const fence = held.fence(one->name().name());
    one->name().async_inspect([this, all, fence, &held](error_code why, lock_status now) {
      bool const told = !why && (!now.holders.empty() || now.held == 0);
      bool const mine = std::any_of(now.holders.begin(), now.holders.end(),
                                    [&](lock_holder const& h) { return h.client == client_.id() && same_grant(h.fence, fence); });
      bool const may_be_unnamed = now.held > now.holders.size();
      if (told && !mine && !may_be_unnamed) all->all_held = false;
      if (--all->left == 0) all->done(all->all_held && held.valid());
    });
  }
}

}  // namespace conch::cli
