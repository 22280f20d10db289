// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/shared_scripts.hpp"

#include <limits>
#include <utility>
#include <variant>

namespace conch::redis {

void shared_scripts::add(protocol::command const& c, sender const& who, unsigned slot, std::int64_t place,
                         std::string& out) {
  bool const may = place >= alone_until_;
  if (!gathered_.empty() && may && gathered_.add(c, slot)) {
    out.resize(begin_);
    return;
  }
  end(who, out);
  if (may && gathered_.add(c, slot)) {
    begin_ = out.size();
    first_place_ = place;
  }
  if (std::holds_alternative<protocol::acquire_all_command>(c))
    sent_.push_back({.place = place, .count = 1, .tries = true});
  encode(c, who, out);
}

void shared_scripts::end(sender const& who, std::string& out) {
  std::size_t const count = gathered_.members().size();
  if (count > 1) {
    if (source_due_) source_sent_ = first_place_;
    encode(gathered_, who, std::exchange(source_due_, false), out);
    sent_.push_back({.place = first_place_, .count = count, .order = gathered_.places()});
  }
  gathered_.clear();
}

void shared_scripts::forget() {
  gathered_.clear();
  sent_.clear();
  alone_until_ = 0;
  source_due_ = false;
  source_sent_ = -1;
}

std::optional<shared_scripts::script> shared_scripts::take(std::int64_t place) {
  if (sent_.empty() || sent_.front().place != place) return std::nullopt;
  script const s = sent_.front();
  sent_.pop_front();
  return s;
}

/// Some errors come before the script has begun, and not each command may have got them alone: a key that this user may
/// not use, a slot of which a part has left this node. Those are sent again, each alone. No other error of a script for
/// several locks comes a second time here.
void shared_scripts::refused(script const& s, protocol::answer& a, bool in_cluster, std::int64_t place) {
  using protocol::fault;
  constexpr std::int64_t a_while = 1000;
  switch (a.what) {
    case fault::no_script: source_due_ = source_due_ || s.place > source_sent_; return;
    case fault::try_later:
      if (!in_cluster || !a.words.starts_with("TRYAGAIN")) return;
      alone_until_ = place + a_while;
      a.what = fault::no_script;
      return;
    case fault::access_denied: a.what = fault::no_script; break;
    case fault::refused:
    case fault::wrong_type:
    case fault::malformed: break;
    default: return;
  }
  alone_until_ = std::numeric_limits<std::int64_t>::max();
}

}  // namespace conch::redis
