// What a server of ZooKeeper sends, whole and in pieces: the frames must be the same, and whatever one is read as, it
// must be well-formed or what is wrong must be told.
//
// The first byte chooses the bound of a frame, the second the pieces, the third what was asked; the rest is the stream.

#include "servers/zookeeper/jute.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace {

using namespace conch::zookeeper;

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "zookeeper_frames_fuzz: %s\n", what);
  std::abort();
}

struct frames {
  std::vector<std::string> all;
  bool malformed = false;

  friend bool operator==(frames const&, frames const&) = default;
};

frames cut(std::string_view stream, std::size_t longest, std::size_t piece) {
  frame_reader in{longest};
  frames got;
  while (!stream.empty() && !got.malformed) {
    auto const room = in.room();
    require(!room.empty(), "no room");
    std::size_t const n = std::min({room.size(), stream.size(), piece});
    std::copy_n(stream.begin(), n, room.begin());
    in.received(n);
    stream.remove_prefix(n);
    auto step = in.next();
    for (; step == frame_reader::progress::frame; step = in.next()) {
      require(in.frame().size() <= longest, "a frame longer than the bound");
      got.all.emplace_back(in.frame());
    }
    got.malformed = step == frame_reader::progress::malformed;
  }
  return got;
}

/// A well-formed answer says what was asked for; one that is not says nothing.
void check(reply_header const& of, op asked, reply const& r, std::string_view wrong, std::size_t size) {
  require(r.zxid == of.zxid && r.what == of.what, "an answer that says something else than its header");
  bool const empty = std::holds_alternative<std::monostate>(r.content);
  if (!wrong.empty() || of.what != status::ok) {
    require(empty, "half of an answer");
    require(wrong.empty() || of.what == status::ok, "an error that is malformed");
    return;
  }
  require(std::holds_alternative<created>(r.content) == (asked == op::create), "what was made");
  require(std::holds_alternative<data>(r.content) == (asked == op::get_data), "data");
  require(std::holds_alternative<children>(r.content) == (asked == op::get_children), "names");
  if (auto const* const names = std::get_if<children>(&r.content)) {
    std::size_t sum = 0;
    for (auto const& name : names->names) sum += name.size() + 4;
    require(sum + 4 <= size, "names that were not there");
    require(names->names.capacity() <= size / 4, "more memory than the frame allows");
  }
}

void read_all(std::string_view frame, op asked) {
  connect_response c;
  if (read(frame, c).empty()) require(c.password.size() + 20 <= frame.size(), "a password that was not there");

  std::string_view rest = frame;
  reply_header header;
  if (!read(rest, header).empty()) {
    require(frame.size() < 16, "a header that was there");
    return;
  }
  require(rest.size() + 16 == frame.size(), "a header of another size");
  notice n;
  if (read(rest, n).empty()) require(n.path.size() + 12 <= rest.size(), "a path that was not there");
  reply r;
  check(header, asked, r, read(rest, header, asked, r), rest.size());
  header.what = status::ok;  // a rare number in random bytes
  check(header, asked, r, read(rest, header, asked, r), rest.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size) {
  if (size < 3) return 0;
  constexpr std::array<std::size_t, 3> bounds{64, 1024, frame_reader::longest_frame};
  std::size_t const longest = bounds[bytes[0] % bounds.size()];
  auto const asked = static_cast<op>(bytes[2] % std::variant_size_v<request>);
  std::string_view const stream{reinterpret_cast<char const*>(bytes) + 3, size - 3};

  frames const whole = cut(stream, longest, stream.size());
  require(cut(stream, longest, 1U + bytes[1]) == whole, "other frames in pieces");
  for (std::string const& frame : whole.all) read_all(frame, asked);
  read_all(stream, asked);
  return 0;
}
