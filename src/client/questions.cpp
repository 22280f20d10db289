// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/questions.hpp"

#include "base/introduction.hpp"
#include "client/core.hpp"
#include "protocol/wire.hpp"

#include <boost/asio/error.hpp>

#include <utility>

namespace conch::detail {

namespace {

class one_question final : public client_request {
 public:
  one_question(std::shared_ptr<questions> of, core_ptr c, kind w, std::string about)
      : client_request{std::move(c), w, std::move(about)},
        of_{std::move(of)} {}

  void complete(asio::any_io_executor const& io, error_code, bool) override {
    std::exchange(of_, nullptr)->answered(*this, io);
  }
  void drop() override { std::exchange(of_, nullptr)->drop(); }

 private:
  std::shared_ptr<questions> of_;
};

}  // namespace

void questions::ask(kind what, std::string name) {
  auto const q = std::make_shared<one_question>(shared_from_this(), lock_->core, what, std::move(name));
  {
    std::lock_guard const guard{mutex_};
    if (is_cancelled_) q->why = asio::error::operation_aborted;
    std::erase_if(asked_, [](auto const& one) { return one.expired(); });
    asked_.push_back(q);
  }
  lock_->core->ask(q);
}

bool questions::is_cancelled() {
  std::lock_guard const guard{mutex_};
  return is_cancelled_;
}

void questions::cancel() {
  std::vector<std::weak_ptr<client_request>> asked;
  {
    std::lock_guard const guard{mutex_};
    is_cancelled_ = true;
    asked = asked_;
  }
  for (auto const& one : asked) {
    if (auto const q = one.lock()) lock_->core->withdraw(q);
  }
}

std::chrono::system_clock::time_point time_of(std::int64_t server_us) {
  return std::chrono::system_clock::time_point{std::chrono::microseconds{server_us}};
}

lock_holder holder_of(engine::lock_report::owner const& owner) {
  lock_holder h;
  h.client = id_of(owner.client);
  if (owner.asked_us != 0) {
    h.asked_by = id_of(owner.asked_by);
    h.asked_at = time_of(owner.asked_us);
  }
  h.fence = owner.fence * engine::hand_offs_per_grant;
  h.since = time_of(owner.fence + protocol::fence_epoch_us);
  h.lease_left = std::chrono::milliseconds{owner.left_ms};
  h.permits = owner.permits;
  h.segment = owner.segment;
  h.confirmed = owner.confirmed;
  return h;
}

}  // namespace conch::detail
