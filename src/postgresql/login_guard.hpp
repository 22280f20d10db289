// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace conch::postgresql {

/// The most rounds of hashing (SCRAM) that a server may ask for: about 50 times PostgreSQL's default. libpq does as many as the server names, in one
/// call, and a server may name 2^31.
inline constexpr std::uint32_t most_scram_rounds = 200'000;
/// How much of what has come is looked at: libpq takes no longer question, and a byte more tells whether more has come.
inline constexpr std::size_t most_of_login = 2048;

/// Looks at what a server sends while it asks who the client is, before libpq reads it. One for each connection.
class login_guard {
 public:
  enum class step {
    go_on,     // libpq may read it
    nothing,   // nothing has come
    wait,      // it is not whole yet
    too_much,  // more has come than was asked for, or something else
    too_dear,  // too many rounds
  };

  /// `unread`: what has come and was not read, at most `most_of_login` bytes of it.
  step look(std::string_view unread) noexcept;

 private:
  bool has_asked_ = false;  // the server has asked, so its next word is its next question, or an error
};

}  // namespace conch::postgresql
