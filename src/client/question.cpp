// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/question.hpp"

#include "client/checked.hpp"
#include "client/completion.hpp"

#include <conch/named_lock.hpp>
#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

// What an operator asks and orders: from the server's numbers to what the user is told.
namespace conch::detail {

namespace {

template <class... Results>
class asked final : public question {
 public:
  using handler_type = asio::any_completion_handler<void(error_code, Results...)>;
  /// Nothing: the server answered something else.
  using reader = std::function<std::optional<std::tuple<Results...>>(std::span<std::int64_t const>)>;

  asked(core_ptr c, kind w, std::string of, reader r, handler_type h)
      : question{std::move(c), w, std::move(of)}, read_{std::move(r)}, handler_{std::move(h)} {
    whose_ = work_of(core->executor(), handler_);
  }

  auto slot() { return asio::get_associated_cancellation_slot(handler_); }

  void complete(asio::any_io_executor const& io) override {
    handler_type handler{std::move(handler_)};
    std::tuple<Results...> results;
    if (!why) {
      auto const told = read_(numbers);
      if (told) {
        results = *told;
      } else {
        why = make_error_code(errc::protocol);
      }
    }
    auto whose = std::exchange(whose_, {});
    std::apply([&](auto&... each) { post_completion(io, std::move(whose), std::move(handler), why, std::move(each)...); }, results);
  }

  void drop() override {
    handler_type const dropped{std::move(handler_)};
    whose_ = {};
    of_hold = {};
  }

 private:
  reader read_;
  handler_type handler_;
  asio::any_completion_executor whose_;  // keeps the handler's context at work
};

template <class... Results>
void ask(std::shared_ptr<asked<Results...>> const& q) {
  auto slot = q->slot();
  if (slot.is_connected()) {
    slot.assign([weak = std::weak_ptr<question>{q}](asio::cancellation_type type) {
      auto const still = weak.lock();
      if (still && type != asio::cancellation_type::none) still->core->withdraw(still);
    });
  }
  q->core->ask(q);
}

std::optional<std::tuple<lock_status>> read_status(lock_settings const& of, std::span<std::int64_t const> n) {
  constexpr std::size_t head = 6, each = 9;
  if (n.size() < head || (n.size() - head) % each != 0 || !engine::is_lock_kind(n[5])) return std::nullopt;
  lock_status s;
  s.waiting = static_cast<std::uint64_t>(n[1]);
  s.held = static_cast<std::uint32_t>(n[2]);
  s.taken = static_cast<std::uint32_t>(n[3]);
  s.limit = static_cast<std::uint32_t>(n[4]);
  s.kind = static_cast<lock_status::kind_of_lock>(n[5]);
  if (s.held == 0 && s.kind == lock_status::kind_of_lock::mutex) {
    // There is nothing on the server: whoever comes first brings the limit along.
    s.kind = of.kind;
    s.limit = of.limit;
  }
  for (n = n.subspan(head); !n.empty(); n = n.subspan(each)) {
    lock_holder h;
    for (std::size_t word = 0; word < 4; ++word) {
      char digits[9];
      std::snprintf(digits, sizeof digits, "%08llx", static_cast<unsigned long long>(n[word] & 0xffff'ffff));
      h.client += digits;
    }
    h.fence = n[4] * engine::hand_offs_per_grant;
    h.since = std::chrono::system_clock::time_point{std::chrono::microseconds{n[4] + engine::fence_epoch_us}};
    h.lease_left = std::chrono::milliseconds{n[5]};
    h.permits = static_cast<std::uint32_t>(n[6]);
    h.segment = static_cast<std::uint32_t>(n[7]);
    h.confirmed = n[8] != 0;
    s.holders.push_back(std::move(h));
  }
  return std::tuple{std::move(s)};
}

std::optional<std::tuple<std::uint32_t>> read_count(std::span<std::int64_t const> n) {
  if (n.size() < 2) return std::nullopt;  // more than that is for the engine: to whom it was passed on
  return std::tuple{static_cast<std::uint32_t>(n[0])};
}

/// What the release script answers; that it was ours has been looked at.
std::optional<std::tuple<>> read_release(std::span<std::int64_t const> n) {
  return n.size() >= 4 || n.empty() ? std::optional{std::tuple<>{}} : std::nullopt;
}

using kind = engine::inquiry::kind;

}  // namespace

void start_inspect(settings_ptr lock, inspect_handler handler) {
  auto read = [lock](std::span<std::int64_t const> numbers) { return read_status(*lock, numbers); };
  ask(std::make_shared<asked<lock_status>>(lock->core, kind::inspect, lock->name, std::move(read), std::move(handler)));
}

void start_force(settings_ptr lock, std::int64_t fence, force_handler handler) {
  auto const q = std::make_shared<asked<std::uint32_t>>(lock->core, kind::force, lock->name, read_count, std::move(handler));
  q->fence = fence / engine::hand_offs_per_grant;
  ask(q);
}

void start_set_permits(settings_ptr lock, std::uint32_t permits, force_handler handler) {
  auto const q = std::make_shared<asked<std::uint32_t>>(lock->core, kind::set_limit, lock->name, read_count, std::move(handler));
  q->size = permits;
  q->why = checked_permits(permits);
  ask(q);
}

void start_downgrade(settings_ptr lock, node_ref writer, order_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::weaken, lock->name, read_release, std::move(handler));
  q->size = 1;
  q->of_hold = std::move(writer);
  if (!q->of_hold) q->why = make_error_code(errc::not_held);
  ask(q);
}

void refuse_upgrade(settings_ptr const& lock, order_handler handler) {
  auto const q = std::make_shared<asked<>>(lock->core, kind::weaken, lock->name, read_release, std::move(handler));
  q->why = make_error_code(errc::would_deadlock);
  ask(q);
}

// ----------------------------------------------------------------------------------------------- the core's side

/// With the engine locked: is it answered without a message?
bool client_core::answered_here(question& q) {
  if (q.why) return true;
  if (closing_ != closing::no) {
    q.why = make_error_code(errc::closed);
  } else if (!server_) {
    q.why = make_error_code(errc::not_supported, "ask each of the servers by a client of its own");
  } else if (hold_node* const n = q.of_hold.get()) {
    using phase = engine::acquisition::phase;
    if (n->at == phase::lost) {
      q.why = make_error_code(errc::lost);
    } else if (n->at != phase::holding || n->core != q.core || n->part.kind != engine::permit_kind::shared ||
               n->lock->name != q.name) {
      q.why = make_error_code(errc::not_held);
    } else if (n->part.weight <= q.size) {
      return true;  // a reader already
    } else {
      q.id = n->lock->place.id;
      q.part = n->part;
      return false;
    }
  } else {
    return false;
  }
  return true;
}

void client_core::ask(std::shared_ptr<question> q) {
  enter_for([&](time_point now) {
    if (answered_here(*q)) {
      ready_.push_back({ready::kind::answered, {}, {}, false, {}, q});
      return;
    }
    question& asked_now = *q;
    asked_now.at_core = questions_.insert(questions_.end(), std::move(q));
    server_->inquire(asked_now, *this, now);
  });
}

void client_core::withdraw(std::shared_ptr<question> const& q) {
  enter_for([&](time_point) {
    if (!q->at_core) return;
    questions_.erase(*std::exchange(q->at_core, std::nullopt));
    server_->withdraw(*q);
    q->why = asio::error::operation_aborted;
    ready_.push_back({ready::kind::answered, {}, {}, false, {}, q});
  });
}

void client_core::on_inquiry_answered(engine::inquiry& i, std::span<std::int64_t const> numbers, error_code why) {
  auto& q = static_cast<question&>(i);
  q.numbers.assign(numbers.begin(), numbers.end());
  q.why = why;
  if (!why && q.of_hold) q.of_hold->part.weight = q.size;
  auto const place = *std::exchange(q.at_core, std::nullopt);
  ready_.push_back({ready::kind::answered, {}, {}, false, {}, std::move(*place)});
  questions_.erase(place);
}

}  // namespace conch::detail
