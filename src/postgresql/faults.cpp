// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "postgresql/faults.hpp"

#include "base/readable.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace conch::postgresql {

namespace {

using protocol::fault;

/// A state, or a class of states of two characters. The first that fits counts.
constexpr std::array<std::pair<std::string_view, fault>, 23> table{{
    {"CN001", fault::wrong_type},  // sql/1_tables.sql
    {"CN002", fault::refused},     // sql/5_connection.sql
    {says_wrong_owner, fault::refused},
    // Others are in the way, or the server is not ready: repeat the command after a pause.
    {"40", fault::try_later},     // serialization failure, deadlock
    {"55P03", fault::try_later},  // lock_timeout
    {"57014", fault::try_later},  // statement_timeout
    {"57P03", fault::try_later},  // starting up
    {"53", fault::try_later},     // no memory, disk full, too many connections
    {"58", fault::try_later},     // an error of its operating system
    // The connection ends, or leads to the wrong server.
    {"57", fault::reconnect},     // pg_terminate_backend, a shut-down, a crash, idle_session_timeout
    {"08", fault::reconnect},     //
    {"25006", fault::reconnect},  // a standby
    // The prepared statements or the schema have gone: a new connection makes them again.
    {"26", fault::reconnect},
    {"3F", fault::reconnect},
    {"42883", fault::reconnect},
    {"42P01", fault::reconnect},
    {"0A000", fault::reconnect},  // the type of an answer has changed under a prepared statement
    {"XX000", fault::reconnect},
    {"42501", fault::access_denied},
    {"28", fault::access_denied},
    {"3D", fault::refused},  // no such database
    {"22", fault::refused},
    {"P0", fault::refused},
}};

/// On one line, as many of the last ones as fit.
std::string last_of(std::span<std::string_view const> attempts) {
  constexpr std::string_view between = "; ";
  std::string words;
  for (; !attempts.empty(); attempts = attempts.first(attempts.size() - 1)) {
    std::string_view const one = attempts.back();
    if (words.empty()) {
      words = one;
    } else if (words.size() + between.size() + one.size() <= readable_words) {
      words.insert(0, between).insert(0, one);
    } else {
      break;
    }
  }
  return words;
}

constexpr bool is_of_state(char c) noexcept { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); }

}  // namespace

protocol::fault classify(std::string_view sqlstate) noexcept {
  if (sqlstate.size() != 5) return fault::try_later;
  auto const found = std::find_if(table.begin(), table.end(), [&](auto const& one) { return sqlstate.starts_with(one.first); });
  return found == table.end() ? fault::refused : found->second;
}

bool says_no_schema(std::string_view sqlstate) noexcept {
  return sqlstate == "3F000" || sqlstate == "42883" || sqlstate == "42P01" || sqlstate == "42704";
}

refusal read_refusal(std::string_view verbose) {
  refusal last;
  std::vector<std::string_view> attempts;
  for (std::size_t at = 0; at < verbose.size();) {
    std::size_t const end = std::min(verbose.find('\n', at), verbose.size());
    std::string_view const line = verbose.substr(at, end - at);
    // SEVERITY, which may be in any language, two blanks, and the state between colons
    for (std::size_t colon = line.find(":  "); colon != std::string_view::npos; colon = line.find(":  ", colon + 1)) {
      std::string_view const rest = line.substr(colon + 3);
      if (rest.size() < 7 || rest[5] != ':' || rest[6] != ' ' || !std::all_of(rest.begin(), rest.begin() + 5, is_of_state)) continue;
      last = {std::string{rest.substr(0, 5)}, std::string{rest.substr(7)}};
      break;
    }
    if (!line.empty() && line.front() != '\t') attempts.push_back(line);  // a hint is indented
    at = end + 1;
  }
  if (last.sqlstate.empty()) last.words = last_of(attempts);
  return last;
}

}  // namespace conch::postgresql
