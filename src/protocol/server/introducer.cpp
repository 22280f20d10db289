// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/server/introducer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::protocol {

duration introducer::kept() const { return std::max<duration>(std::chrono::hours{1}, 2 * on_.env.settings.lease); }

void introducer::present(std::string_view id, std::string_view text, time_point now) {
  if (is_closing_) return;
  auto found = std::find_if(all_.begin(), all_.end(), [&](introduced const& one) { return one.id == id; });
  if (found == all_.end()) {
    if (text.empty()) return;
    found = all_.insert(all_.end(), introduced{.id = std::string{id}});
  }
  found->text = text;
  if (!on_.link.connected()) return;
  send(*found, now);
  if (!again_.armed()) on_.env.timers.arm(again_, now + kept() / 2);
}

void introducer::withdraw(time_point now) {
  is_closing_ = true;
  for (introduced& one : all_) {
    one.text.clear();
    if (on_.link.connected()) send(one, now);
  }
  again_.cancel();
}

/// A text that was withdrawn is known until then: the connection may end before. A refusal is told of once: what is
/// refused is only for people.
void introducer::answered(answer const& a) {
  if (--unanswered_ == 0) std::erase_if(all_, [](introduced const& one) { return one.text.empty(); });
  if (a.what != fault::access_denied || std::exchange(logged_refusal_, true)) return;
  on_.env.log.inform("this user may not keep labels and notes at the server, so others see ids of clients: " +
                     std::string{a.words});
}

void introducer::send_all(time_point now) {
  for (introduced& one : all_) send(one, now);
  std::erase_if(all_, [](introduced const& one) { return one.text.empty() && !one.is_known; });
  if (!all_.empty()) on_.env.timers.arm(again_, now + kept() / 2);
}

void introducer::send(introduced& one, time_point now) {
  if (one.text.empty() && !one.is_known) return;
  if (!on_.slots.has(one.id)) return;  // the server that has this slot is told
  one.is_known = true;
  ++unanswered_;
  on_.sent.send(introduce_command{one.id, one.text, whole_ms(kept())},
                {request_kind::introduce, 0, 0, nullptr, nullptr, now});
}

}  // namespace conch::protocol
