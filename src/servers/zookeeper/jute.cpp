// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/zookeeper/jute.hpp"

#include <boost/assert.hpp>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

namespace conch::zookeeper {

namespace {

// ZooDefs.OpCode
namespace opcode {
constexpr std::int32_t remove = 2, get_data = 4, set_data = 5, get_acl = 6, get_children = 8, sync = 9, ping = 11,
                       create2 = 15, create_container = 19, auth = 100, close_session = -11;
}

constexpr std::int32_t all_rights = 31;
constexpr std::int32_t any_version = -1;
constexpr std::string_view no_password{"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16};
constexpr std::size_t length_size = 4;

constexpr std::string_view short_frame = "a frame that ends within a field";
constexpr std::string_view negative_length = "a field of negative length";
constexpr std::string_view long_list = "a list that is longer than its frame";
constexpr std::string_view long_acl = "an ACL of more than 256 entries";

/// Each entry of one ACL is compared with each of another.
constexpr std::size_t most_rights = 256;

static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(op::ping), request>, ping>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(op::create), request>, create>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(op::get_data), request>, get_data>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(op::set_data), request>, set_data>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(op::close_session), request>, close_session>);
static_assert(std::variant_size_v<request> == static_cast<std::size_t>(op::close_session) + 1);

// ---- writing

/// One frame: its length is known when it is whole.
class frame_writer {
 public:
  explicit frame_writer(std::string& to) : to_{to}, begin_{to.size()} { number(std::int32_t{0}); }
  frame_writer(frame_writer const&) = delete;
  frame_writer& operator=(frame_writer const&) = delete;

  template <std::signed_integral Number>
  frame_writer& number(Number n) {
    to_.resize(to_.size() + sizeof n);
    put(to_.size() - sizeof n, n);
    return *this;
  }
  frame_writer& flag(bool on) {
    to_.push_back(on ? '\1' : '\0');
    return *this;
  }
  frame_writer& bytes(std::string_view b) {
    number(static_cast<std::int32_t>(b.size()));
    to_.append(b);
    return *this;
  }
  void end() { put(begin_, static_cast<std::int32_t>(to_.size() - begin_ - length_size)); }

 private:
  template <std::signed_integral Number>
  void put(std::size_t position, Number n) {
    auto rest = static_cast<std::make_unsigned_t<Number>>(n);
    for (std::size_t i = sizeof n; i-- > 0; rest = static_cast<std::make_unsigned_t<Number>>(rest >> 8U))
      to_[position + i] = static_cast<char>(rest & 0xffU);
  }

  std::string& to_;
  std::size_t const begin_;
};

/// The rest of a request, behind its header.
class body_writer {
 public:
  body_writer(frame_writer& to, std::int32_t xid) : to_{to}, xid_{xid} {}

  void operator()(ping const&) { header(ping_xid, opcode::ping); }
  void operator()(add_auth const& a) {
    header(auth_xid, opcode::auth).number(std::int32_t{0}).bytes(a.scheme).bytes(a.secret);
  }
  void operator()(create const& c) {
    header(xid_, c.kind == node_kind::container ? opcode::create_container : opcode::create2)
        .bytes(c.path)
        .bytes(c.data);
    to_.number(std::int32_t{1}).number(all_rights);  // a list of one
    // "auth": the users authenticated on this connection.
    c.who == access::anyone ? to_.bytes("world").bytes("anyone") : to_.bytes("auth").bytes("");
    to_.number(flags_of(c.kind));
  }
  void operator()(remove const& r) { header(xid_, opcode::remove).bytes(r.path).number(any_version); }
  void operator()(get_data const& g) { header(xid_, opcode::get_data).bytes(g.path).flag(g.watch); }
  void operator()(get_children const& g) { header(xid_, opcode::get_children).bytes(g.path).flag(false); }
  void operator()(set_data const& s) { header(xid_, opcode::set_data).bytes(s.path).bytes(s.data).number(any_version); }
  void operator()(sync const& s) { header(xid_, opcode::sync).bytes(s.path); }
  void operator()(get_acl const& g) { header(xid_, opcode::get_acl).bytes(g.path); }
  void operator()(close_session const&) { header(xid_, opcode::close_session); }

 private:
  frame_writer& header(std::int32_t xid, std::int32_t code) { return to_.number(xid).number(code); }

  /// CreateMode
  static std::int32_t flags_of(node_kind kind) noexcept {
    switch (kind) {
      case node_kind::persistent: return 0;
      case node_kind::ephemeral: return 1;
      case node_kind::ephemeral_sequential: return 3;
      case node_kind::container: return 4;
    }
    return 0;
  }

  frame_writer& to_;
  std::int32_t const xid_;
};

// ---- reading

std::uint64_t unsigned_at(char const* bytes, std::size_t size) noexcept {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < size; ++i) n = n << 8U | static_cast<unsigned char>(bytes[i]);
  return n;
}

/// Takes fields off a frame. After the first thing that is wrong, every field is 0 or empty.
class field_reader {
 public:
  explicit field_reader(std::string_view all) noexcept : rest_{all} {}

  template <std::signed_integral Number>
  Number number() noexcept {
    if (rest_.size() < sizeof(Number)) {
      fail(short_frame);
      return 0;
    }
    std::uint64_t const n = unsigned_at(rest_.data(), sizeof(Number));
    rest_.remove_prefix(sizeof(Number));
    return static_cast<Number>(n);
  }
  std::int32_t int32() noexcept { return number<std::int32_t>(); }
  std::int64_t int64() noexcept { return number<std::int64_t>(); }

  /// A null, which has the length -1, is read as an empty one.
  std::string_view bytes() noexcept {
    std::size_t const size = length();
    if (size > rest_.size()) {
      fail(short_frame);
      return {};
    }
    std::string_view const b = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return b;
  }
  std::vector<std::string> strings() {
    std::size_t const count = length();
    std::vector<std::string> all;
    if (count > rest_.size() / length_size) {
      fail(long_list);
      return all;
    }
    all.reserve(count);
    for (std::size_t i = 0; i < count && wrong_.empty(); ++i) all.emplace_back(bytes());
    return all;
  }
  std::vector<right> rights_of_all() {
    constexpr std::size_t least = 3 * length_size;  // of one
    std::size_t const count = length();
    std::vector<right> all;
    bool const fits = count <= rest_.size() / least;
    if (!fits || count > most_rights) {
      fail(fits ? long_acl : long_list);
      return all;
    }
    all.reserve(count);
    for (std::size_t i = 0; i < count && wrong_.empty(); ++i) {
      right one;
      one.may = int32();
      one.scheme = bytes();
      one.id = bytes();
      all.push_back(std::move(one));
    }
    return all;
  }
  stat node() noexcept {
    stat s;
    s.created = int64();
    s.modified = int64();
    s.created_ms = int64();
    s.modified_ms = int64();
    s.version = int32();
    int32();  // cversion
    int32();  // aversion
    s.owner = int64();
    int32();  // dataLength
    s.children = int32();
    int64();  // pzxid
    return s;
  }

  std::string_view rest() const noexcept { return rest_; }
  std::string_view wrong() const noexcept { return wrong_; }

 private:
  std::size_t length() noexcept {
    std::int32_t const n = int32();
    if (n < -1) fail(negative_length);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  void fail(std::string_view what) noexcept {
    if (wrong_.empty()) wrong_ = what;
    rest_ = {};
  }

  std::string_view rest_;
  std::string_view wrong_;
};

}  // namespace

void append(std::string& to, connect_request const& c) {
  frame_writer frame{to};
  frame.number(std::int32_t{0}).number(c.last_seen).number(c.timeout_ms).number(c.session);
  frame.bytes(c.password.empty() ? no_password : c.password);
  frame.flag(false);  // a server that cannot write is useless
  frame.end();
}

void append(std::string& to, std::int32_t xid, request const& r) {
  frame_writer frame{to};
  std::visit(body_writer{frame, xid}, r);
  frame.end();
}

std::string_view read(std::string_view frame, connect_response& to) {
  field_reader fields{frame};
  fields.int32();  // the version of the protocol: there is one
  to.timeout_ms = fields.int32();
  to.session = fields.int64();
  to.password = fields.bytes();
  // servers since 3.4 add whether they are read-only, which they are only for clients that accept it
  return fields.wrong();
}

std::string_view read(std::string_view& frame, reply_header& to) {
  field_reader fields{frame};
  to.xid = fields.int32();
  to.zxid = fields.int64();
  to.what = static_cast<status>(fields.int32());
  frame = fields.rest();
  return fields.wrong();
}

std::string_view read(std::string_view body, notice& to) {
  field_reader fields{body};
  to.what = static_cast<notice::event>(fields.int32());
  to.session_state = fields.int32();
  to.path = fields.bytes();
  return fields.wrong();
}

std::string_view read(std::string_view body, reply_header const& of, op asked, reply& to) {
  to.zxid = of.zxid;
  to.what = of.what;
  to.content = std::monostate{};
  if (of.what != status::ok) return {};
  field_reader fields{body};
  switch (asked) {
    case op::create: {
      created c;
      c.path = fields.bytes();
      c.node = fields.node();
      to.content = std::move(c);
      break;
    }
    case op::get_data: {
      data d;
      d.bytes = fields.bytes();
      d.node = fields.node();
      to.content = std::move(d);
      break;
    }
    case op::get_children: to.content = children{fields.strings()}; break;
    case op::get_acl:
      to.content = rights{fields.rights_of_all()};
      fields.node();
      break;
    case op::set_data: fields.node(); break;
    case op::sync: fields.bytes(); break;
    case op::ping:
    case op::add_auth:
    case op::remove:
    case op::close_session: break;
  }
  if (!fields.wrong().empty()) to.content = std::monostate{};
  return fields.wrong();
}

// ---- frames

namespace {

constexpr std::size_t least_room = 4 * 1024;
/// Memory above this is given back as soon as it is not needed.
constexpr std::size_t retained = 64 * 1024;

}  // namespace

std::span<char> frame_reader::room() {
  frame_ = {};
  std::size_t const kept = end_ - begin_;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
    begin_ = 0;
    end_ = kept;
  }
  if (kept == 0 && buffer_.size() > retained) std::vector<char>{}.swap(buffer_);
  if (buffer_.size() - end_ < least_room) buffer_.resize(std::max(2 * kept, 2 * least_room));
  if (buffer_.size() - end_ < least_room) buffer_.resize(end_ + least_room);
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void frame_reader::received(std::size_t n) noexcept {
  BOOST_ASSERT(n <= buffer_.size() - end_);
  end_ += n;
}

frame_reader::progress frame_reader::next() noexcept {
  frame_ = {};
  if (malformed_) return progress::malformed;
  std::size_t const kept = end_ - begin_;
  if (kept < length_size) return progress::need_more;
  auto const length =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(unsigned_at(buffer_.data() + begin_, length_size)));
  if (length < 0 || static_cast<std::size_t>(length) > longest_) {
    malformed_ = true;
    return progress::malformed;
  }
  auto const size = static_cast<std::size_t>(length);
  if (kept - length_size < size) return progress::need_more;
  frame_ = {buffer_.data() + begin_ + length_size, size};
  begin_ += length_size + size;
  return progress::frame;
}

void frame_reader::reset() noexcept {
  begin_ = end_ = 0;
  frame_ = {};
  malformed_ = false;
}

}  // namespace conch::zookeeper
