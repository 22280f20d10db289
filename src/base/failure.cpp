// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/failure.hpp"

#include "base/readable.hpp"

#include <ratio>

namespace conch {

namespace {

constexpr std::string_view before_holder = " (held by ";

std::string_view doing(failed_task::kind what) {
  switch (what) {
    case failed_task::kind::waiting: return "waiting for";
    case failed_task::kind::trying: return "trying";
    case failed_task::kind::extending: return "extending";
    case failed_task::kind::releasing: return "releasing";
    case failed_task::kind::detaching: return "detaching";
    case failed_task::kind::holding: return "holding";
    case failed_task::kind::asking: return "asking about";
  }
  return "for";
}

}  // namespace

std::string in_words(duration d) {
  using namespace std::chrono_literals;
  auto const ms = std::chrono::round<std::chrono::milliseconds>(d).count();
  if (d < 1s) return std::to_string(ms) + " ms";
  auto const tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(d).count();
  if (tenths >= 6000 && tenths % 600 == 0) return std::to_string(tenths / 600) + " min";
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " s";
}

error_code explained(error_code why, failed_task const& of) {
  if (!why || why.category() != error_category()) return why;
  auto const what = static_cast<errc>(why.value());
  std::string const cause = cause_of(why);
  bool const names_server = of.server.empty() || cause.find(of.server) != std::string::npos;
  if (is_explained(why)) {
    bool const names_holder = what == errc::timed_out && cause.find(before_holder) != std::string::npos;
    if (names_server || names_holder || !cause.ends_with(')')) return why;
    return make_whole_error_code(what, cause.substr(0, cause.size() - 1).append(" at ").append(of.server).append(")"));
  }
  std::string const lock = of.lock.empty() ? "a lock" : "lock " + in_quotes(of.lock);
  std::string text;
  if (what == errc::timed_out) {
    text = "timed out";
    if (of.after >= std::chrono::milliseconds{1}) text += " after " + in_words(of.after);
    text.append(" ").append(doing(of.what)).append(" ").append(lock);
    if (!cause.empty()) text += ": " + cause;
    if (!cause.empty() && !names_server) text.append(" (").append(of.server).append(")");
    if (cause.empty() && !of.holder.empty()) text.append(before_holder).append(of.holder).append(")");
  } else {
    text = make_error_code(what).message();
    if (!cause.empty()) text += ": " + cause;
    text.append(" (").append(doing(of.what)).append(" ").append(lock);
    if (!names_server) text.append(" at ").append(of.server);
    text += ')';
  }
  return make_whole_error_code(what, text);
}

}  // namespace conch
