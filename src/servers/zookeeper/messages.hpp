// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// What conch sends to a ZooKeeper server, and what it receives, as types. No I/O, no clock.
namespace conch::zookeeper {

/// What a server answers to one request. Numbers of the protocol (KeeperException.Code); any other number is an error
/// that conch does not know.
enum class status : std::int32_t {
  ok = 0,
  system_error = -1,
  runtime_inconsistency = -2,
  data_inconsistency = -3,
  connection_loss = -4,
  marshalling_error = -5,
  unimplemented = -6,
  operation_timeout = -7,
  bad_arguments = -8,
  unknown_session = -12,
  no_quorum = -13,
  reconfiguration = -14,
  no_node = -101,
  no_auth = -102,
  bad_version = -103,
  no_children_for_ephemerals = -108,
  node_exists = -110,
  not_empty = -111,
  session_expired = -112,
  invalid_acl = -114,
  auth_failed = -115,
  session_moved = -118,
  not_read_only = -119,
  local_session = -120,
  request_timeout = -122,
  sasl_required = -124,
  quota_exceeded = -125,
  throttled = -127,
};

/// The part of a node's state that conch uses.
struct stat {
  std::int64_t created = 0;     // the transaction that made the node (czxid)
  std::int64_t created_ms = 0;  // when that was, by the leader's clock: since 1970 (ctime)
  std::int64_t modified = 0;    // the last that wrote its data (mzxid)
  std::int32_t version = 0;     // of the data
  std::int64_t owner = 0;       // the session of an ephemeral node; 0: it is persistent
  std::int32_t children = 0;
  std::int64_t modified_ms = 0;  // when its data was written last, by the leader's clock (mtime)

  friend bool operator==(stat const&, stat const&) = default;
};

/// The first message on a connection. `session` 0 asks for a new one.
struct connect_request {
  std::int64_t last_seen = 0;  // the newest transaction that this client has seen: a server that is behind it refuses
  std::int32_t timeout_ms = 0;
  std::int64_t session = 0;
  std::string password;  // 16 bytes, secret; empty for a new session
};

struct connect_response {
  std::int32_t timeout_ms = 0;  // 0: the session that was asked for has ended
  std::int64_t session = 0;
  std::string password;

  friend bool operator==(connect_response const&, connect_response const&) = default;
};

// ---- requests
struct ping {};
struct add_auth {
  std::string scheme, secret;
};
/// The rights to a node that is created.
enum class access : std::uint8_t { anyone, creator_only };
enum class node_kind : std::uint8_t { persistent, ephemeral, ephemeral_sequential, container };
/// Answered with the path and the stat: create2, or createContainer for a container.
struct create {
  std::string path, data;
  node_kind kind = node_kind::persistent;
  access who = access::anyone;
};
/// Whatever its version.
struct remove {
  std::string path;
};
struct get_data {
  std::string path;
  bool watch = false;
};
struct get_children {
  std::string path;
};
/// Whatever its version.
struct set_data {
  std::string path, data;
};
/// Answered when this server knows all that the leader had committed before.
struct sync {
  std::string path;
};
/// The rights to a node.
struct get_acl {
  std::string path;
};
struct close_session {};

using request =
    std::variant<ping, add_auth, create, remove, get_data, get_children, set_data, sync, get_acl, close_session>;

/// Does it go through the leader, as a transaction? Then its answer shows that the leader has received it.
inline bool is_write(request const& r) noexcept {
  return std::holds_alternative<create>(r) || std::holds_alternative<remove>(r) || std::holds_alternative<set_data>(r);
}

// ---- answers
struct created {
  std::string path;
  stat node;

  friend bool operator==(created const&, created const&) = default;
};
struct data {
  std::string bytes;
  stat node;

  friend bool operator==(data const&, data const&) = default;
};
struct children {
  std::vector<std::string> names;

  friend bool operator==(children const&, children const&) = default;
};

/// What a user may do with a node.
struct right {
  static constexpr std::int32_t read = 1, write = 2, create = 4, remove = 8, admin = 16;

  std::int32_t may = 0;  // the sum of these
  std::string scheme, id;

  friend bool operator==(right const&, right const&) = default;
};
struct rights {
  std::vector<right> all;

  friend bool operator==(rights const&, rights const&) = default;
};

/// The answer to one request. A server answers in the order in which it was asked, but for pings, which it may answer
/// earlier.
struct reply {
  std::int64_t zxid = 0;  // the newest transaction that this server knew
  status what = status::ok;
  std::variant<std::monostate, created, data, children, rights> content;  // monostate: an error, or no further content

  friend bool operator==(reply const&, reply const&) = default;
};

/// A watch has fired, or the state of the session has changed.
struct notice {
  enum class event : std::int32_t {
    none = -1,
    created = 1,
    deleted = 2,
    changed = 3,
    children = 4,
    child_watch_removed = 5,
    data_watch_removed = 6
  };

  event what = event::none;
  std::int32_t session_state = 0;
  std::string path;

  friend bool operator==(notice const&, notice const&) = default;
};

}  // namespace conch::zookeeper
