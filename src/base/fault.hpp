// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/error.hpp>

#include <cstdint>
#include <string_view>

namespace conch {

/// What a server's refusal, or the end of an attempt to reach it, means. Each protocol has one table from the words of
/// its server to this.
enum class fault : std::uint8_t {
  none,
  no_script,      // send it again, once with its source
  try_later,      // the server is busy or not ready: the same request again after a pause
  reconnect,      // this is not the server to talk to: look it up and connect anew
  wrong_type,     // report
  access_denied,  // report
  refused,        // report; a release tries again
  malformed,      // not an answer to what was asked: report
  tls_failed,     // TLS does not come about: report
  not_supported,  // this server never will: report
};

struct meaning {
  bool is_final;  // trying again with the same settings cannot help, so waiters are told
  errc error;
};

/// The only table of that.
constexpr meaning meaning_of(fault what) noexcept {
  switch (what) {
    case fault::wrong_type: return {true, errc::wrong_type};
    case fault::access_denied: return {true, errc::access_denied};
    case fault::refused: return {true, errc::server_refused};
    case fault::malformed: return {true, errc::protocol};
    case fault::tls_failed: return {true, errc::tls_failed};
    case fault::not_supported: return {true, errc::not_supported};
    case fault::none:
    case fault::no_script:
    case fault::try_later:
    case fault::reconnect: break;
  }
  return {false, errc::unreachable};
}

constexpr bool is_final(fault what) noexcept { return meaning_of(what).is_final; }

/// The error of a request that the server answered with that fault.
inline error_code to_error(fault what, std::string_view words) {
  return make_error_code(meaning_of(what).error, words);
}

}  // namespace conch
