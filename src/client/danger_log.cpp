// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/danger_log.hpp"

#include "base/failure.hpp"
#include "base/readable.hpp"

#include <utility>

namespace conch::detail {

void danger_log::endangered(std::string_view lock, engine::danger const& d) {
  if (endangered_++ != 0 && d.left >= danger_.left) return;
  first_to_be_lost_ = lock;
  danger_ = d;
}

void danger_log::safe_again(std::string_view lock) {
  if (safe_again_++ == 0) first_safe_ = lock;
}

void danger_log::lost(error_code why) {
  if (lost_++ == 0) why_lost_ = why;
}

/// lock "stock" will be lost in 9.6 s unless it is renewed: no renewal for 19.6 s (redis://127.0.0.1:6379: the server
/// has not answered)
void danger_log::write_lines() {
  if (std::size_t const count = std::exchange(endangered_, 0); count != 0) {
    bool const names_server = danger_.why.find(server_) != std::string::npos;
    std::string const cause = danger_.why.empty() ? server_ : names_server ? danger_.why : server_ + ": " + danger_.why;
    std::string const more = count == 1 ? "" : "; likewise " + std::to_string(count - 1) + " more";
    to_.note(false, "lock " + in_quotes(first_to_be_lost_) + " will be lost in " + in_words(danger_.left) +
                        " unless it is renewed: no renewal for " + in_words(danger_.silent) + " (" + cause + ")" +
                        more);
  }
  if (std::size_t const count = std::exchange(safe_again_, 0); count != 0) {
    std::string const more = count == 1 ? " is" : " and " + std::to_string(count - 1) + " more are";
    to_.inform("lock " + in_quotes(first_safe_) + more + " renewed again, and no longer in danger");
  }
  if (std::size_t const count = std::exchange(lost_, 0); count != 0) {
    std::string const more = count == 1 ? "" : "; likewise " + std::to_string(count - 1) + " more";
    to_.note(false, why_lost_.message() + more);  // it names the lock
  }
}

}  // namespace conch::detail
