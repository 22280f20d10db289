// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "protocol/errors.hpp"

namespace conch::protocol {

error_code to_error(fault what, std::string_view words) {
  switch (what) {
    case fault::wrong_type: return make_error_code(errc::wrong_type, words);
    case fault::access_denied: return make_error_code(errc::access_denied, words);
    case fault::refused: return make_error_code(errc::server_refused, words);
    case fault::malformed: return make_error_code(errc::protocol, words);
    case fault::tls_failed: return make_error_code(errc::tls_failed, words);
    case fault::not_supported: return make_error_code(errc::not_supported, words);
    default: return make_error_code(errc::unreachable, words);
  }
}

}  // namespace conch::protocol
