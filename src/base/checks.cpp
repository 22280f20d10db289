// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/checks.hpp"

#include <boost/system/system_error.hpp>

#include <chrono>

namespace conch::detail {

using std::chrono::hours;
using std::chrono::milliseconds;

void refuse(errc e, std::string_view why) { throw boost::system::system_error{make_error_code(e, why)}; }

void require(bool holds, std::string const& why) {
  if (!holds) refuse(errc::invalid_config, why);
}

std::string less_than(std::string const& member, duration d, duration least) {
  return d < least ? member + " must be at least " + whole_duration(least) + ", got " + whole_duration(d)
                   : std::string{};
}

std::string not_between(std::string const& member, duration d, duration least, duration most,
                        std::string const& explained) {
  if (d >= least && d <= most) return {};
  return member + " must be " + whole_duration(least) + " to " + whole_duration(most) + explained + ", got " +
         whole_duration(d);
}

void at_least(std::string const& member, duration d, duration least) {
  std::string const why = less_than(member, d, least);
  require(why.empty(), why);
}

void between(std::string const& member, duration d, duration least, duration most, std::string const& explained) {
  std::string const why = not_between(member, d, least, most, explained);
  require(why.empty(), why);
}

void zero_or_between(std::string const& member, duration d, duration least, duration most,
                     std::string const& explained) {
  if (d == duration::zero() || (d >= least && d <= most)) return;
  refuse(errc::invalid_config, member + " must be 0, or " + whole_duration(least) + " to " + whole_duration(most) +
                                   explained + ", got " + whole_duration(d));
}

std::string whole_duration(duration d) {
  struct unit {
    duration of;
    char const* name;
  };
  using std::chrono::nanoseconds;
  for (auto const& [of, name] : {unit{hours{24}, " d"}, unit{hours{1}, " h"}, unit{std::chrono::minutes{1}, " min"},
                                 unit{std::chrono::seconds{1}, " s"}, unit{milliseconds{1}, " ms"},
                                 unit{std::chrono::microseconds{1}, " us"}, unit{nanoseconds{1}, " ns"}}) {
    if (d != duration::zero() && d % of == duration::zero()) return std::to_string(d / of) + name;
  }
  return "0";
}

void check_files(std::string const& member, tls_config const& t) {
  require(t.key_file.empty() || !t.cert_file.empty(), member + ".key_file needs " + member + ".cert_file");
  for (std::string const* text : {&t.ca_file, &t.ca_path, &t.cert_file, &t.key_file, &t.server_name}) {
    require(text->find('\0') == std::string::npos, "a member of " + member + " contains a NUL");
  }
}

}  // namespace conch::detail
