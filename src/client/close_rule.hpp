// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>

#include <cstdint>

namespace conch::detail {

/// How a client closes: it drains (holds stay, waits have ended), then it gives back what is left, and it ends when all
/// is given back, or when the servers have carried nothing out since the last look. Looks are at most a second apart.
/// So an end without success needs a standstill, however much there is to give back.
///
/// The rule decides, its user carries out. No I/O, no clock. Used with the client locked.
class close_rule {
 public:
  enum class action {
    none,
    give_back,  // end all holds and give back the locks; look again at next_look()
    late,       // report to the caller of the close that the time has passed; look again at next_look()
    give_up,    // the same, and end: close_rule is done
  };

  explicit close_rule(duration command_timeout) noexcept;

  /// Was a close asked for?
  bool begun() const noexcept { return phase_ != phase::open; }
  bool under_way() const noexcept { return phase_ == phase::draining || phase_ == phase::giving_back; }
  bool done() const noexcept { return phase_ == phase::done; }

  /// A close is asked for; holds have until the result, which is when to call due() first.
  time_point begin(time_point now, duration drain_for) noexcept;
  /// The time of begin() or next_look() has come. `progress`: how much the servers have carried out. `ending`: this
  /// process is still at work on the ends of its own waits and holds.
  action due(std::uint64_t progress, bool ending) noexcept;
  time_point next_look(time_point now) const noexcept { return now + look_every_; }
  /// All is given back and answered.
  void complete() noexcept { phase_ = phase::done; }

 private:
  enum class phase : std::uint8_t { open, draining, giving_back, done };

  duration const look_every_;
  std::uint64_t progress_ = 0;  // at the last look
  phase phase_ = phase::open;
};

}  // namespace conch::detail
