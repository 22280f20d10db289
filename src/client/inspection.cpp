// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/introduction.hpp"
#include "client/completion.hpp"
#include "client/core.hpp"
#include "client/questions.hpp"
#include "protocol/wire.hpp"

#include <conch/named_lock.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// async_inspect: asks for a lock, and then for what those who hold it, or wait for it, tell about themselves.
namespace conch::detail {

namespace {

lock_status status_of(lock_settings const& of, engine::lock_report const& report) {
  lock_status s;
  s.waiting = report.waiting;
  s.held = report.held;
  s.taken = report.taken;
  s.limit = report.limit;
  s.kind = static_cast<lock_status::kind_of_lock>(report.kind);
  if (s.held == 0 && s.kind == lock_status::kind_of_lock::mutex) {
    // The server knows nothing of the lock: the first acquire will bring kind and limit.
    s.kind = of.kind;
    s.limit = of.limit;
  }
  for (engine::lock_report::owner const& owner : report.owners) s.holders.push_back(holder_of(owner));
  for (engine::lock_report::waiter const& w : report.waiters)
    s.waiters.push_back({.client = id_of(w.client), .since = time_of(w.since_us), .permits = w.permits});
  return s;
}

/// One async_inspect, from the first question to the completion.
class inspection final : public questions {
 public:
  inspection(settings_ptr lock, inspect_handler handler)
      : questions{std::move(lock)},
        handler_{std::move(handler)},
        runs_on_{work_of(lock_->core->executor(), handler_)} {}

  void begin() {
    obey(handler_);
    ask(kind::inspect, lock_->name);
  }

 private:
  void answered(client_request const& q, asio::any_io_executor const& io) override {
    if (q.what == kind::identify) return identified(q.name, q.result, io);
    if (q.why) return complete(io, q.why);
    inspected(*q.result.status, io);
  }
  void drop() override {
    inspect_handler const dropped{std::move(handler_)};
    runs_on_ = {};
  }

  void inspected(engine::lock_report const& report, asio::any_io_executor const& io);
  void identified(std::string const& client, engine::admin_result const& result, asio::any_io_executor const& io);
  void complete(asio::any_io_executor const& io, error_code why);
  bool waits(std::string const& client) const {
    return std::any_of(status_.waiters.begin(), status_.waiters.end(),
                       [&](lock_waiter const& w) { return w.client == client; });
  }

  inspect_handler handler_;
  asio::any_completion_executor runs_on_;  // keeps the handler's context at work
  lock_status status_;
  std::map<std::string, introduction> who_;  // by client
  std::size_t unanswered_ = 0;
};

void inspection::inspected(engine::lock_report const& report, asio::any_io_executor const& io) {
  std::vector<std::string> clients;
  {
    std::lock_guard const guard{mutex_};
    status_ = status_of(*lock_, report);
    for (lock_holder const& h : status_.holders) who_[h.client];
    for (lock_waiter const& w : status_.waiters) who_[w.client];
    for (auto const& [client, nothing] : who_) clients.push_back(client);
    unanswered_ = clients.size();
  }
  if (clients.empty()) return complete(io, {});
  for (std::string& client : clients) ask(kind::identify, std::move(client));
}

/// A client that is not known, or about which the server does not answer, is shown by its id alone.
void inspection::identified(std::string const& client, engine::admin_result const& result,
                            asio::any_io_executor const& io) {
  {
    std::lock_guard const guard{mutex_};
    who_[client] = read_introduction(result.identity);
    if (--unanswered_ != 0) return;
  }
  for (lock_holder& h : status_.holders) {
    introduction const& of = who_[h.client];
    h.label = of.label;
    auto note = note_of(of, lock_->name, h.fence / engine::hand_offs_per_grant);
    // The client may not have told yet that what it waited for was granted.
    if (!note && !waits(h.client)) note = note_of(of, lock_->name, 0);
    h.note = std::move(note).value_or("");
  }
  for (lock_waiter& w : status_.waiters) {
    w.label = who_[w.client].label;
    w.note = note_of(who_[w.client], lock_->name, 0).value_or("");
  }
  complete(io, is_cancelled() ? error_code{asio::error::operation_aborted} : error_code{});
}

void inspection::complete(asio::any_io_executor const& io, error_code why) {
  inspect_handler handler{std::move(handler_)};
  post_completion(io, std::exchange(runs_on_, {}), std::move(handler), why, why ? lock_status{} : std::move(status_));
}

}  // namespace

void start_inspect(settings_ptr lock, inspect_handler handler) {
  std::make_shared<inspection>(std::move(lock), std::move(handler))->begin();
}
}  // namespace conch::detail
