// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/zookeeper/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// How messages look on the wire: "jute", ZooKeeper's own format. All numbers are big-endian, and each message is a
// frame with its length in front. No I/O.
namespace conch::zookeeper {

/// Which request an answer belongs to: an answer does not contain it. The order is that of `request`.
enum class op : std::uint8_t {
  ping,
  add_auth,
  create,
  remove,
  get_data,
  get_children,
  set_data,
  sync,
  get_acl,
  close_session
};

inline op op_of(request const& r) noexcept { return static_cast<op>(r.index()); }

/// The numbers of messages that do not answer a numbered request. Those of requests are positive.
inline constexpr std::int32_t notice_xid = -1, ping_xid = -2, auth_xid = -4;

/// Appends a frame.
void append(std::string& to, connect_request const& c);
/// A ping and an add_auth have their own numbers, and ignore `xid`.
void append(std::string& to, std::int32_t xid, request const& r);

/// What is in front of every frame that a server sends, but for the first.
struct reply_header {
  std::int32_t xid = 0;
  std::int64_t zxid = 0;
  status what = status::ok;

  friend bool operator==(reply_header const&, reply_header const&) = default;
};

// Each reads a frame, or the rest of one, and returns what is wrong with it, in a text that repeats nothing of it.
// Empty: nothing. What follows the fields that are known here is left alone: newer versions append fields.
std::string_view read(std::string_view frame, connect_response& to);
/// `frame`: from then on what follows the header.
std::string_view read(std::string_view& frame, reply_header& to);
/// Behind a header with notice_xid.
std::string_view read(std::string_view body, notice& to);
/// Behind any other header: an answer to a request of this kind. Sets all of `to`.
std::string_view read(std::string_view body, reply_header const& of, op asked, reply& to);

/// Cuts what a server sends into frames.
///
/// The caller reads into room(), reports how much with received(), and calls next() until it wants more. The work is
/// linear in the bytes received, and the memory at most twice of what has come in, whatever length a frame claims.
class frame_reader {
 public:
  /// A list of 10,000 waiting clients has 0.7 MB, and a server takes no node of more than 1 MB as it is delivered
  /// (jute.maxbuffer).
  static constexpr std::size_t longest_frame = std::size_t{16} << 20;

  explicit frame_reader(std::size_t longest = longest_frame) noexcept : longest_{longest} {}

  /// Never empty. Ends the life of the current frame.
  [[nodiscard]] std::span<char> room();
  /// The first n bytes of the room have been filled.
  void received(std::size_t n) noexcept;

  enum class progress : std::uint8_t {
    need_more,
    frame,      // frame() is the next one
    malformed,  // a length that no frame has; only reset() helps
  };
  [[nodiscard]] progress next() noexcept;

  /// Without its length. Valid until the next room() or reset().
  std::string_view frame() const noexcept { return frame_; }

  /// What has come in and was not handed out yet. Valid until the next room() or reset().
  std::string_view rest() const noexcept { return {buffer_.data() + begin_, end_ - begin_}; }

  /// As new, for a new connection.
  void reset() noexcept;

  /// Memory held, in bytes.
  std::size_t capacity() const noexcept { return buffer_.size(); }

 private:
  std::size_t const longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what was received and not yet handed out
  std::string_view frame_;
  bool malformed_ = false;
};

}  // namespace conch::zookeeper
