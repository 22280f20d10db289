// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/client_requests.hpp"

#include "base/failure.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>

namespace conch::detail {

/// The answer needs no message.
bool client_requests::is_answered_here(client_request& q, bool is_closing) {
  if (q.why) return true;
  if (is_closing) {
    q.why = make_error_code(errc::closed);
    return true;
  }
  return q.of_hold && is_downgraded_here(q, *q.of_hold);
}

bool client_requests::is_downgraded_here(client_request& q, hold_node& n) {
  using phase = engine::acquisition_phase;
  if (n.phase == phase::lost) {
    q.why = make_error_code(errc::lost);
  } else if (n.phase != phase::holding || n.core != q.core || n.permit.kind != q.of_kind || n.lock->name != q.name) {
    q.why = make_error_code(errc::not_held);
  } else if (q.given_back >= n.permit.weight) {
    q.why = make_error_code(errc::invalid_config,
                            "the hold has " + std::to_string(n.permit.weight) + " permits, which is not more than " +
                                std::to_string(q.given_back) + "; hold::async_release gives all of them back");
  } else if (q.given_back != 0 || n.permit.weight > q.size) {
    q.held_at = n.lock->place.get();
    q.permit = n.permit;
    // at once: another part may be given back before the answer
    if (q.given_back != 0) q.size = n.permit.weight -= q.given_back;
    return false;
  }
  return true;  // refused, or a reader already
}

void client_requests::ask(std::shared_ptr<client_request> q, bool is_closing, time_point now) {
  if (is_answered_here(*q, is_closing)) return results_.call(std::move(q), {});
  client_request& asked = *q;
  asked.entry = unanswered_.insert(unanswered_.end(), std::move(q));
  cohort_.administer(asked, *this, now);
}

void client_requests::withdraw(std::shared_ptr<client_request> const& q) {
  if (!q->entry) return;
  unanswered_.erase(*std::exchange(q->entry, std::nullopt));
  servers_.backend->withdraw(*q);
  q->why = asio::error::operation_aborted;
  results_.call(q, {});
}

void client_requests::on_admin_answered(engine::admin_request& i, engine::admin_result const& result, error_code why) {
  auto& q = static_cast<client_request&>(i);
  q.result = result;
  std::string const servers = why ? target_.shown() : std::string{};
  q.why = explained(why, {failed_task::kind::asking, i.name, servers});
  if (!why && q.of_hold) q.of_hold->permit.weight = std::min(q.of_hold->permit.weight, q.size);
  auto const entry = *std::exchange(q.entry, std::nullopt);
  results_.call(std::move(*entry), {});
  unanswered_.erase(entry);
}

void client_requests::drop() {
  for (auto const& q : std::exchange(unanswered_, {})) {
    q->entry.reset();
    q->drop();
  }
}

}  // namespace conch::detail
