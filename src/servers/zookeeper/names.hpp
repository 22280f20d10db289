// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/permit.hpp"

#include <conch/detail/api.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The names of nodes. No I/O, no clock.
namespace conch::zookeeper {

/// Does a prefix name one root, which no other prefix names? The colon at its end does not belong to the name.
bool names_a_root(std::string_view key_prefix) noexcept;

/// The folder of all locks with that `config::key_prefix`: CHROOT/PREFIX, without the colon at its end.
std::string root_of(std::string_view chroot, std::string_view key_prefix);

/// Any bytes as the name of one node: what ZooKeeper does not allow, and '%', is percent-encoded.
std::string encoded(std::string_view name);

/// What encoded() made this of. None: it makes no such text, so that it is not the folder of a lock.
CONCH_API std::optional<std::string> decoded(std::string_view node);

/// The folder of a lock.
inline std::string folder_of(std::string_view root, std::string_view lock) {
  return std::string{root} + '/' + encoded(lock);
}

/// The folder of the nodes of all sessions.
inline std::string clients_of(std::string_view root) { return std::string{root} + "/.clients"; }
/// The node of a session, whose data is what its client tells others about itself (base/introduction.hpp).
std::string session_node_of(std::string_view root, std::int64_t session);

/// What a node asks for.
struct terms {
  engine::permit_kind kind = engine::permit_kind::none;
  std::uint32_t weight = 1, limit = 1;  // a mutex takes 1 of 1
  std::string_view owner{};             // of a reentrant lock, in hex
  std::uint32_t interval_ms = 0;        // of a mutex: the minimum interval until the next grant; 0: none
  bool known = true;                    // false: a later conch has written it; it is a lock of another kind

  friend bool operator==(terms const&, terms const&) = default;
};

/// `of` must outlive them: the owner is a part of it.
terms terms_of(engine::permit const& of);

/// Do both ask for a lock of the same kind?
inline bool is_alike(terms const& a, terms const& b) noexcept { return a.known && b.known && a.kind == b.kind; }

/// "a mutex", "a semaphore" ...
std::string_view kind_in_words(terms const& t) noexcept;

/// What the name of a lock's node contains: CLIENT.NUMBER-SEQUENCE of a mutex, else CLIENT~TERMS.NUMBER-SEQUENCE.
/// TERMS: "s3of10" (3 permits of a semaphore of 10), "r" (a reader), "w" (a writer), "eOWNER" or "i1500" (a mutex with
/// a minimum interval, in ms). The terms come before the point, so that a conch that knows only mutexes takes such a
/// node for one of another client, and waits behind it.
struct node_name {
  std::string_view client;
  zookeeper::terms terms;
  std::uint64_t number = 0;   // counts the nodes that the client has asked for
  std::int32_t sequence = 0;  // the place in line, if it is one (is_place)
};
/// A part of `name`, which must outlive it. None: it is not a place in a queue.
CONCH_API std::optional<node_name> read_node_name(std::string_view name);

/// What the name of a node that keeps a lock contains: CLIENT~k1500cTRANSACTION.NUMBER-SEQUENCE, as the node of the
/// grant, whose minimum interval that is, and which that transaction has made. Its place in the queue keeps out a conch
/// that does not know it.
struct keep_name {
  std::string_view client;
  std::uint64_t number = 0;  // of the node of the grant
  std::uint32_t interval_ms = 0;
  std::int64_t created = 0;  // when that was made: the token of the grant shows it
};
/// A part of `name`, which must outlive it. None: it does not keep a lock.
CONCH_API std::optional<keep_name> read_keep_name(std::string_view name);

/// The name of the node that keeps the lock for the minimum interval of that node.
std::string keep_name_of(std::string_view node, std::int64_t created);

/// The name without the sequence, as it is asked for.
std::string node_prefix(std::string_view client, terms const& of, std::uint64_t number);

/// Does one node alone have that number? A folder counts up to the greatest number, and then gives it to all new nodes:
/// tried with ZooKeeper 3.8. To nodes created at almost the same time it gives numbers below zero there, which also
/// repeat.
bool is_place(std::int32_t sequence) noexcept;

/// Does place `a` come before place `b`?
bool is_before(std::int32_t a, std::int32_t b) noexcept;

/// The last part of a path.
std::string_view last_of(std::string_view path) noexcept;

}  // namespace conch::zookeeper
