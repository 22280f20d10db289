// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace conch::postgresql {

/// The most rounds of hashing (SCRAM) that a server may ask for: about 50 times PostgreSQL's default of 4,096. libpq
/// does them all in one call, and the server may ask for up to 2^31.
inline constexpr std::uint32_t most_scram_rounds = 200'000;
/// How many received bytes the guard inspects. libpq accepts no longer question, and one byte more shows whether more
/// has arrived.
inline constexpr std::size_t most_of_login = 2048;

/// Checks what a server sends during authentication, before libpq reads it. One for each connection.
class login_guard {
 public:
  enum class step {
    pass,      // libpq may read it
    nothing,   // nothing has arrived
    wait,      // the message is incomplete
    too_much,  // more than the next message, or a message that does not belong here
    too_dear,  // too many rounds
  };

  /// `unread`: the first `most_of_login` bytes that libpq has not read yet.
  step look(std::string_view unread) noexcept;

 private:
  bool has_asked_ = false;  // the server has asked a question: its next message is another one, or an error
};

}  // namespace conch::postgresql
