// What the demo reads: a request and what it asks for, whole and in pieces; the replies of its Redis connection; its
// URL. The first byte chooses which, the second the size of the pieces.

// The demo is a program, not a library: its files are compiled here.
#include "../../examples/http_counter/redis_address.cpp"
#include "../../examples/http_counter/resp2.cpp"
#include "../../examples/http_counter/routes.cpp"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using namespace http_counter;

void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "http_counter_fuzz: %s\n", what);
  std::abort();
}

void check(route const& r) {
  constexpr std::array<std::string_view, 8> labels{"none",     "/counter", "/stats",  "/metrics",
                                                   "/healthz", "/",        "/events", "/page"};
  require(std::find(labels.begin(), labels.end(), r.label) != labels.end(), "a label out of a request");
  bool const refused = r.what == action::refuse;
  require(refused == (r.status != http::status::ok), "a status that does not fit the action");
  require(!refused || !r.reason.empty(), "refused without a reason");
  require((r.status == http::status::method_not_allowed) == !r.allow.empty(), "405 and Allow belong together");
}

struct outcome {
  std::optional<route> what;
  bool complete = false;
};

/// As the session does: bytes as they come, what the parser does not take comes again with the next ones.
outcome request(std::string_view input, std::size_t piece) {
  request_parser parser;
  set_limits(parser);
  std::string waiting;
  bool wants_more = true;
  while (!parser.is_done()) {
    if (wants_more) {
      if (input.empty()) return {};
      auto const size = std::min(piece, input.size());
      waiting += input.substr(0, size);
      input.remove_prefix(size);
    }
    bool const read_header = !parser.is_header_done();
    boost::system::error_code ec;
    auto const taken = parser.put(boost::asio::buffer(waiting), ec);
    require(taken <= waiting.size(), "more was taken than was there");
    waiting.erase(0, taken);
    wants_more = true;
    if (ec == http::error::need_more) continue;
    if (!ec && read_header && parser.is_header_done()) {
      ec = check_header(parser);
      parser.eager(true);
      wants_more = waiting.empty();
    }
    if (ec) return {decide_failure(ec), true};
  }
  return {decide(parser.get(), {"x"}), true};
}

void requests(std::string_view input, std::size_t piece) {
  outcome const whole = request(input, std::max<std::size_t>(input.size(), 1));
  if (whole.what) check(*whole.what);
  outcome const pieces = request(input, piece);
  if (pieces.what) check(*pieces.what);
  // A whole buffer beyond a limit may fail with another reason than its pieces; what is done must be the same.
  if (whole.what && pieces.what) require(whole.what->what == pieces.what->what, "pieces ask for something else");
}

std::string replies(std::string_view input, std::size_t piece) {
  std::string all, buffer;
  try {
    while (true) {
      while (auto const reply = take_reply(buffer)) {
        all += std::to_string(static_cast<int>(reply->what)) + reply->text + '\n';
      }
      if (input.empty()) return all + "more";
      auto const size = std::min(piece, input.size());
      buffer += input.substr(0, size);
      input.remove_prefix(size);
    }
  } catch (resp2_error const&) {
    return all + "error";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 2) return 0;
  std::string_view const input{reinterpret_cast<char const*>(data) + 2, size - 2};
  std::size_t const piece = 1U + data[1] % 64U;
  switch (data[0] % 4) {
    case 0:
    case 1: requests(input, piece); break;
    case 2:
      // An incomplete reply may be refused early or late, but never understood in two ways.
      require(replies(input, std::max<std::size_t>(input.size(), 1)) == replies(input, piece),
              "pieces give other replies");
      break;
    default: try { parse_address(std::string{input});
      } catch (std::invalid_argument const&) {
      }
  }
  return 0;
}
