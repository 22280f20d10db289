// Decodes the input whole and in pieces: the messages and the error must be the same, every message
// well-formed and within the limits, and what it says must survive being written and read again.
//
// The first byte chooses the limits, the next four the sizes of the pieces, the rest is the input.

#include "resp/decoder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using conch::resp::decoder;
using conch::resp::kind;
using conch::resp::limits;
using conch::resp::node;

[[noreturn]] void broken(char const* what) {
  std::fprintf(stderr, "resp_decoder_fuzz: %s\n", what);
  std::abort();
}

void require(bool holds, char const* what) {
  if (!holds) {
    broken(what);
  }
}

// Writes the message in the one form in which an equal message is always written.
void write_bulk(std::string& out, char type, std::string_view prefix, std::string_view text) {
  out += type + std::to_string(prefix.size() + text.size()) + "\r\n";
  out.append(prefix).append(text) += "\r\n";
}

void write_line(std::string& out, char type, std::string_view text) { (out += type).append(text) += "\r\n"; }

// One value with its children, from the front of `rest`.
void write(std::string& out, std::span<node const>& rest, std::uint32_t depth, limits const& bounds) {
  require(!rest.empty(), "children are missing");
  node const n = rest.front();
  rest = rest.subspan(1);
  require(n.depth == depth, "a depth is wrong");
  // Integers have a bound of their own: they fit 64 bits.
  require(n.text.size() <= (n.what == kind::integer ? 32 : bounds.max_text), "a text is too long");
  auto const aggregate = [&](char type, std::uint64_t length) {
    require(depth < bounds.max_depth, "nested deeper than max_depth");
    write_line(out, type, std::to_string(length));
    for (std::uint64_t i = 0; i < n.count; ++i) {
      write(out, rest, depth + 1, bounds);
    }
  };
  switch (n.what) {
    case kind::simple_string: return write_line(out, '+', n.text);
    case kind::simple_error: return write_line(out, '-', n.text);
    case kind::integer: return write_line(out, ':', std::to_string(n.integer));
    case kind::bulk_string: return write_bulk(out, '$', {}, n.text);
    case kind::array: return aggregate('*', n.count);
    case kind::null: return write_line(out, '_', {});
    case kind::boolean: return write_line(out, '#', n.integer != 0 ? "t" : "f");
    case kind::real: return write_line(out, ',', n.text);
    case kind::big_number: return write_line(out, '(', n.text);
    case kind::bulk_error: return write_bulk(out, '!', {}, n.text);
    case kind::verbatim_string: return write_bulk(out, '=', "txt:", n.text);
    case kind::map: return aggregate('%', n.count / 2);
    case kind::set: return aggregate('~', n.count);
    case kind::push: require(depth == 0, "a push inside a value"); return aggregate('>', n.count);
    case kind::attribute: broken("an attribute in a message");
  }
  broken("an unknown kind");
}

std::string written(decoder const& d, limits const& bounds) {
  auto rest = d.message();
  require(!rest.empty(), "an empty message");
  require(rest.size() <= bounds.max_elements, "more values than max_elements");
  require(d.is_push() == (rest.front().what == kind::push), "is_push is wrong");
  std::string out;
  write(out, rest, 0, bounds);
  require(rest.empty(), "nodes are left over");
  return out;
}

struct transcript {
  std::vector<std::string> messages;
  std::string error;

  bool operator==(transcript const&) const = default;
};

void give(decoder& d, std::string_view bytes) {
  auto const room = d.prepare(bytes.size());
  require(room.size() >= bytes.size(), "too little room");
  std::copy(bytes.begin(), bytes.end(), room.begin());
  d.commit(bytes.size());
}

void drain(decoder& d, transcript& out, limits const& bounds) {
  for (;;) {
    switch (d.next()) {
      case decoder::progress::need_more:
        require(d.message().empty() && d.error().empty(), "need_more with a result");
        return;
      case decoder::progress::message:
        require(d.error().empty(), "a message and an error");
        out.messages.push_back(written(d, bounds));
        break;
      case decoder::progress::failed:
        require(d.message().empty() && !d.error().empty(), "failed without an error");
        out.error = d.error();
        return;
    }
  }
}

transcript decode(std::string_view input, limits const& bounds) {
  decoder d(bounds);
  transcript out;
  give(d, input);
  drain(d, out, bounds);
  return out;
}

// `eager`: messages are taken after every piece; else only after every fourth, so that a backlog
// is moved about in the buffer.
transcript decode_in_pieces(std::string_view input, std::span<std::uint8_t const> sizes, limits const& bounds,
                            bool eager) {
  decoder d(bounds);
  transcript out;
  auto const total = input.size();
  for (std::size_t i = 0; !input.empty(); ++i) {
    auto const size = std::min<std::size_t>(input.size(), 1U + (sizes[i % sizes.size()] & 0x3fU));
    give(d, input.substr(0, size));
    input.remove_prefix(size);
    if (eager || i % 4 == 3) {
      drain(d, out, bounds);
    }
  }
  drain(d, out, bounds);
  require(d.work() <= 8 * total + 64, "work is not linear");
  return out;
}

limits chosen_limits(std::uint8_t choice) {
  limits bounds;
  if ((choice & 1U) != 0) {
    bounds.max_depth = 2;
  }
  if ((choice & 2U) != 0) {
    bounds.max_elements = 6;
  }
  if ((choice & 4U) != 0) {
    bounds.max_text = 12;
  }
  if ((choice & 8U) != 0) {
    bounds.max_message = 48;
  }
  return bounds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  constexpr std::size_t prefix = 5;
  if (size < prefix) {
    return 0;
  }
  auto const bounds = chosen_limits(data[0]);
  std::span<std::uint8_t const> const sizes(data + 1, prefix - 1);
  std::string_view const input(reinterpret_cast<char const*>(data) + prefix, size - prefix);

  auto const whole = decode(input, bounds);
  require(decode_in_pieces(input, sizes, bounds, true) == whole, "pieces give another result");
  require(decode_in_pieces(input, sizes, bounds, false) == whole, "a backlog gives another result");
  constexpr std::array<std::uint8_t, 1> single{0};
  require(decode_in_pieces(input, single, bounds, true) == whole, "single bytes give another result");

  std::string again;
  for (auto const& message : whole.messages) {
    again += message;
  }
  require(decode(again, {}) == transcript{whole.messages, {}}, "written and read again it differs");
  return 0;
}
