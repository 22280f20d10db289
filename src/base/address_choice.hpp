// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/detail/api.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conch {

/// Decides which address of a server, or which server of a list, is tried next, and how long it may take.
///
/// A silent one costs its share of the attempt, not all of it. A share is the time that is left by the number of those
/// that are left. What was found out is remembered: the next attempt begins with the address that was good, goes on
/// with those of which nothing is known, then with those that answered and could not be used, and tries those that were
/// silent last. Among equals the one whose failure is oldest comes first, so that no address is left out forever. Where
/// everything is slow and nothing is dead, shares would be too short: they double after each attempt that met silence
/// and found nothing good. No I/O, no clock.
///
/// An attempt: begin(), then next() before each address, and one of silent(), refused() and succeeded() after it.
class address_choice {
 public:
  struct limits {
    duration whole;  // of an attempt, whatever the number of addresses: connect_timeout
    duration lease;  // in a third of it all addresses are tried once, since holds are to outlive that
  };

  /// An attempt at these begins; one that is under way ends. What is known of an address is kept under its text for as
  /// long as it is in the list. Only the first of equal texts has a turn.
  CONCH_API void begin(std::vector<std::string> addresses, limits l, time_point now);
  /// False: each address has had its turn, or the time of the attempt is over.
  [[nodiscard]] CONCH_API bool next(time_point now);

  // For the address whose turn it is.
  std::size_t number() const noexcept { return order_[turn_]; }
  std::string const& address() const noexcept { return known_[number()].address; }
  /// When it counts as silent.
  time_point until() const noexcept { return until_; }
  /// There are others whose turn comes later in this attempt.
  bool has_more() const noexcept { return turn_ + 1 < order_.size(); }

  /// How many addresses the attempt has.
  std::size_t size() const noexcept { return order_.size(); }

  /// It has not answered until now. `why`: for words().
  CONCH_API void silent(std::string_view why, time_point now);
  /// It has answered, or something has for it, and cannot be used: the port is closed, or it is the wrong server.
  CONCH_API void refused(std::string_view why, time_point now);
  /// It is the server. The attempt is over.
  CONCH_API void succeeded();

  /// Why the addresses that had their turn in this attempt could not be used, by name if there are several:
  /// "10.0.0.1:6379: refused; 10.0.0.2 ...".
  std::string const& words() const noexcept { return words_; }

 private:
  // In the order in which they are tried.
  enum class state : std::uint8_t { good, unknown, refused, silent };
  struct known {
    std::string address;
    state last = state::unknown;
    time_point since{};
  };

  void note(state s, time_point now);
  void say(std::string_view why);

  std::vector<known> known_;
  std::vector<std::size_t> order_;  // of this attempt: places in known_
  std::size_t turn_ = 0;
  bool begun_ = false;  // next() was called in this attempt
  bool met_silence_ = false;
  unsigned doublings_ = 0;
  time_point all_tried_{}, end_{}, until_{};
  std::string words_;
};

}  // namespace conch
