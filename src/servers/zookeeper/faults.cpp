// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/faults.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace conch::zookeeper {

namespace {

/// KeeperException.Code of ZooKeeper 3.9. docs/failure-modes.md shows what a user sees of them.
constexpr std::array table{
    // ---- The connection, or the session on it, can no longer be used.
    refusal{status::connection_loss, remedy::reconnect, errc::unreachable,
            "the server has lost its connection to the leader"},
    refusal{status::unknown_session, remedy::reconnect, errc::unreachable, "the server does not know this session"},
    refusal{status::session_expired, remedy::reconnect, errc::unreachable, "the session has ended"},
    refusal{status::session_moved, remedy::reconnect, errc::unreachable, "the session has moved to another server"},
    refusal{status::not_read_only, remedy::reconnect, errc::unreachable,
            "the server is cut off from the others, and only serves readers"},
    // ---- Temporary.
    refusal{status::operation_timeout, remedy::later, errc::unreachable, "the servers did not agree in time"},
    refusal{status::request_timeout, remedy::later, errc::unreachable, "the servers did not agree in time"},
    refusal{status::no_quorum, remedy::later, errc::unreachable, "the servers have no quorum"},
    refusal{status::reconfiguration, remedy::later, errc::unreachable, "the servers are being reconfigured"},
    refusal{status::throttled, remedy::later, errc::unreachable,
            "the server has too many requests and drops some (throttledOpWaitTime)"},
    // ---- Access rights.
    refusal{status::no_auth, remedy::none, errc::access_denied,
            "the user has no right to it: give the user of the URL all rights there (setAcl)"},
    refusal{status::invalid_acl, remedy::none, errc::access_denied,
            "the server knows no user for this connection, so no node can belong to one"},
    refusal{status::auth_failed, remedy::none, errc::access_denied,
            "the server does not accept the user and the password of the URL, or demands that clients name one "
            "(enforce.auth)"},
    refusal{status::sasl_required, remedy::none, errc::access_denied,
            "the server demands SASL, which conch does not speak: let it accept user and password of the URL as well "
            "(enforce.auth.schemes=sasl,digest, without sessionRequireClientSASLAuth)"},
    // ---- What the server does not do.
    refusal{status::quota_exceeded, remedy::none, errc::server_refused,
            "a quota of the servers is used up: raise it (setquota), or remove nodes"},
    refusal{status::unimplemented, remedy::none, errc::server_refused,
            "the server does not know this request: conch needs ZooKeeper 3.5.3 or newer"},
    refusal{status::local_session, remedy::none, errc::server_refused,
            "the session is known to one server only: set localSessionsUpgradingEnabled=true at the servers, or "
            "localSessionsEnabled=false"},
    refusal{status::no_children_for_ephemerals, remedy::none, errc::wrong_type,
            "the folder is an ephemeral node of another client: remove it"},
    refusal{status::no_node, remedy::none, errc::server_refused, "its parent node is gone"},
    refusal{status::bad_arguments, remedy::none, errc::server_refused, "the server does not accept this path"},
    refusal{status::marshalling_error, remedy::none, errc::server_refused, "the server cannot read the request"},
    refusal{status::system_error, remedy::none, errc::server_refused,
            "an internal error of the server: its log says more"},
    refusal{status::runtime_inconsistency, remedy::none, errc::server_refused,
            "an internal error of the server: its log says more"},
    refusal{status::data_inconsistency, remedy::none, errc::server_refused,
            "an internal error of the server: its log says more"},
};

}  // namespace

refusal refusal_of(status what) noexcept {
  auto const found = std::find_if(table.begin(), table.end(), [what](refusal const& row) { return row.what == what; });
  return found != table.end() ? *found : refusal{.what = what};
}

std::string words_of(status what, std::string_view asked) {
  std::string_view const known = refusal_of(what).words;
  std::string words{asked};
  words.append(": ").append(known.empty() ? "an error that conch does not know" : known);
  return words.append(" (ZooKeeper's error ").append(std::to_string(static_cast<int>(what))).append(")");
}

error_code to_error(status what, std::string_view asked, std::string_view server) {
  return make_error_code(refusal_of(what).error, std::string{server} + ": " + words_of(what, asked));
}

}  // namespace conch::zookeeper
