// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Translates between the terms of the protocol, and the functions of sql/*.sql and their notifications. No I/O.
namespace conch::postgresql {

/// A call of a prepared statement.
class statement {
 public:
  statement() = default;
  explicit statement(char const* name) noexcept : name_{name} {}

  statement& text(std::string_view value);
  statement& number(std::int64_t value);
  statement& flag(bool value) { return text(value ? "t" : "f"); }
  /// Bytes of any value.
  statement& bytes(std::string_view value);

  char const* name() const noexcept { return name_; }
  int size() const noexcept { return static_cast<int>(places_.size()); }
  /// Each value is followed by a NUL.
  char const* value(int n) const { return all_.data() + places_[static_cast<std::size_t>(n)].begin; }
  int length(int n) const { return places_[static_cast<std::size_t>(n)].size; }
  int format(int n) const { return places_[static_cast<std::size_t>(n)].is_binary ? 1 : 0; }

 private:
  struct place {
    std::size_t begin;
    int size;
    bool is_binary;
  };
  void append(std::string_view value, bool is_binary);

  char const* name_ = "";
  std::string all_;
  std::vector<place> places_;
};

/// The sender of the commands: `client` is the first part of every grant id, `prefix` is config::key_prefix.
struct sender {
  std::string_view client, prefix;
};

/// What is sent once on a connection: the statements that encode() calls, and LISTEN.
std::string preparation(sender const& who);

/// The channel of this client.
std::string channel_of(std::string_view client);

/// The commands of votes, and those about replicas and about the slots of a Cluster, are never sent to this kind of
/// server.
statement encode(protocol::command const& c, sender const& who);

/// An answer of the server. `row` has one text: "{1,2}".
struct reply {
  std::string_view sqlstate{};  // empty: no error
  std::string_view words{};
  std::vector<std::string_view> row{};
};

/// In the terms of the protocol. `numbers` owns the memory that the answer points to.
protocol::answer to_answer(reply const& r, std::vector<std::int64_t>& numbers);

/// A notification. None: conch did not send it. `name` owns the memory that the push points to.
std::optional<protocol::push> read_push(std::string_view payload, sender const& who, std::string& name);

}  // namespace conch::postgresql
