// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/faults.hpp"

#include "base/readable.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace conch::postgresql {

namespace {

using protocol::fault;

struct row {
  std::string_view state;  // or its class, of two characters
  std::string_view words;  // that are in the error; empty: any
  fault what;
};

/// The server's error, and whether the same request may succeed a little later without intervention: then waits
/// continue, until their own time or offline_timeout ends. All else is reported at once. The first row that fits
/// counts.
constexpr row table[] = {
    {"CN001", "", fault::wrong_type},  // sql/1_tables.sql
    {"CN002", "", fault::refused},     // sql/5_connection.sql
    {says_wrong_owner, "", fault::refused},

    // Temporary: others are in the way, or the server is not ready.
    {"40", "", fault::try_later},  // serialization failure, deadlock
    {says_locked, "", fault::try_later},
    {"55006", "", fault::try_later},  // in use by others
    {"57014", "", fault::try_later},  // statement_timeout
    {"57P03", "", fault::try_later},  // starting up, shutting down
    {"53", "", fault::try_later},     // no memory, disk full, too many connections
    {"58", "", fault::try_later},     // an error of its operating system
    // Another client creates the schema at the same moment.
    {"23505", "", fault::try_later},
    {"42P06", "", fault::try_later},
    {"42P07", "", fault::try_later},
    {"42710", "", fault::try_later},
    {"42723", "", fault::try_later},

    // Final: what PgBouncer and other pools report about a role, a database or a setting, with a state that others use
    // for temporary errors.
    {"08P01", "no such user", fault::access_denied},
    {"08P01", "auth failed", fault::access_denied},
    {"08P01", "authentication failed", fault::access_denied},
    {"08P01", "SASL", fault::access_denied},
    {"08P01", "login rejected", fault::access_denied},
    {"08P01", "no such database", fault::refused},
    {"08P01", "does not allow connections", fault::refused},
    {"08P01", "unsupported startup parameter", fault::refused},
    {"08P01", "bouncer config error", fault::refused},
    {"XX000", "Tenant or user not found", fault::access_denied},

    // Temporary, with another connection: this one ends, or leads to the wrong server.
    {"57", "", fault::reconnect},     // pg_terminate_backend, a shut-down, a crash, idle_session_timeout
    {"08", "", fault::reconnect},     //
    {"25006", "", fault::reconnect},  // a standby
    {"25P03", "", fault::reconnect},  // idle_in_transaction_session_timeout
    {"25P04", "", fault::reconnect},  // transaction_timeout of PostgreSQL 17, which ends the connection too
    // The prepared statements or the schema have gone: a new connection makes them again.
    {"26", "", fault::reconnect},
    {"3F", "", fault::reconnect},
    {"42883", "", fault::reconnect},
    {"42P01", "", fault::reconnect},
    {"0A000", "", fault::reconnect},  // the type of an answer has changed under a prepared statement
    {"XX000", "", fault::reconnect},

    // Final: a person has to change a password, a right, a key or a setting.
    {"42501", "", fault::access_denied},
    {"28", "", fault::access_denied},
    {"3D", "", fault::refused},  // no such database
    {"55000", "", fault::refused},
    {"22", "", fault::refused},
    {"P0", "", fault::refused},
};

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

protocol::fault classify(std::string_view sqlstate, std::string_view words) noexcept {
  if (sqlstate.size() != 5) return fault::try_later;
  auto const fits = [&](row const& r) {
    return sqlstate.starts_with(r.state) && words.find(r.words) != std::string_view::npos;
  };
  auto const* const found = std::find_if(std::begin(table), std::end(table), fits);
  return found == std::end(table) ? fault::refused : found->what;
}

bool says_no_schema(std::string_view sqlstate) noexcept {
  return sqlstate == "3F000" || sqlstate == "42883" || sqlstate == "42P01" || sqlstate == "42704";
}

refusal read_refusal(std::string_view verbose) {
  refusal last;
  std::vector<std::string_view> attempts;
  for (std::size_t position = 0; position < verbose.size();) {
    std::size_t const end = std::min(verbose.find('\n', position), verbose.size());
    std::string_view const line = verbose.substr(position, end - position);
    // SEVERITY, which may be in any language, two blanks, and the state between colons
    for (std::size_t colon = line.find(":  "); colon != std::string_view::npos; colon = line.find(":  ", colon + 1)) {
      std::string_view const rest = line.substr(colon + 3);
      if (rest.size() < 7 || rest[5] != ':' || rest[6] != ' ' ||
          !std::all_of(rest.begin(), rest.begin() + 5, is_of_state))
        continue;
      last = {std::string{rest.substr(0, 5)}, std::string{rest.substr(7)}};
      break;
    }
    if (!line.empty() && line.front() != '\t') attempts.push_back(line);  // a hint is indented
    position = end + 1;
  }
  if (last.sqlstate.empty()) last.words = last_of(attempts);
  return last;
}

}  // namespace conch::postgresql
