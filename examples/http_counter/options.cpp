#include "options.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/program_options.hpp>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace http_counter {

namespace po = boost::program_options;

namespace {

// Not po::value<unsigned>, which reads -1 as 4294967295.
long long in_range(char const* option, long long value, long long least, long long most) {
  if (value < least || value > most) {
    throw usage_error(std::string("--") + option + " must be from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", got " + std::to_string(value));
  }
  return value;
}

// `127.0.0.1:8080` or `[::1]:8080`
void parse_endpoint(std::string_view text, options& into) {
  auto const colon = text.rfind(':');
  std::string_view address = text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  } else if (address.find(':') != address.npos) {
    throw usage_error("--listen: an IPv6 address needs brackets, as in [::1]:8080");
  }
  std::string_view const port = colon == text.npos ? "" : text.substr(colon + 1);
  auto const [end, failure] = std::from_chars(port.data(), port.data() + port.size(), into.port);
  boost::system::error_code unknown;
  auto const parsed = boost::asio::ip::make_address(std::string(address), unknown);
  if (port.empty() || failure != std::errc{} || end != port.data() + port.size() || unknown) {
    throw usage_error("--listen must be ADDRESS:PORT, as in 127.0.0.1:8080, got '" + std::string(text) + "'");
  }
  into.address = parsed.to_string();
}

}  // namespace

std::optional<options> parse_options(int argc, char const* const* argv) {
  options result;
  if (char const* const url = std::getenv("CONCH_URL")) {
    result.redis = url;
  }
  std::string listen;
  std::string redis;
  long long wait = 0;
  long long lease = 0;
  long long request_timeout = 0;
  long long threads = 0;
  long long workers = 0;
  po::options_description known("Options");
  auto add = known.add_options();
  add("help,h", "print this");
  add("listen", po::value(&listen)->default_value("127.0.0.1:8080")->value_name("ADDR:PORT"),
      "where to listen; port 0: any free port (it is printed)");
  add("host", po::value(&result.hosts)->value_name("NAME"),
      "another name of this server that requests may use as Host, besides its addresses and localhost; may be "
      "repeated");
  add("redis", po::value(&redis)->value_name("URL"),  // no default here: --help shows it
      "the server that keeps counter and lock: redis://, unix://, memory:// or postgresql://; or redlock:// with a "
      "list of "
      "servers for the lock, the first of which keeps the counter (default: "
      "$CONCH_URL, else redis://127.0.0.1:6379). Set a URL with a password in $CONCH_URL only: all users of the "
      "machine can "
      "read arguments");
  add("lock-server", po::value(&result.lock_servers)->value_name("URL"),
      "a server for the lock only, while --redis keeps the counter: redis://, rediss:// (TLS), redis-sentinel://, "
      "zookeeper:// or unix://; "
      "repeat it for a lock over several servers");
  add("name", po::value(&result.name)->default_value(result.name)->value_name("NAME"),
      "name of the counter and of its lock");
  add("wait-ms", po::value(&wait)->default_value(result.wait.count())->value_name("N"),
      "how long a request waits for the lock before the server answers 503");
  add("lease-ms", po::value(&lease)->default_value(result.lease.count())->value_name("N"),
      "how long the lock stays taken if this server dies");
  add("request-timeout-ms", po::value(&request_timeout)->default_value(result.request_timeout.count())->value_name("N"),
      "how long a client may take to send a request, or keep an idle connection");
  add("threads", po::value(&threads)->default_value(result.threads)->value_name("N"), "number of threads");
  add("workers", po::value(&workers)->default_value(result.workers)->value_name("N"),
      "processes that the buttons of the page at / control, up to 16; the buttons need the token in the printed "
      "address (0: no buttons)");

  add("kill-command", po::value(&result.kill_command)->value_name("COMMAND"),
      "a command that kills the lock's server, to be shown on the page");

  po::variables_map given;
  try {
    // No abbreviations and no positional arguments, so that a typing error is reported.
    constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::positional_options_description const none;
    po::command_line_parser parser(argc, argv);
    po::store(parser.options(known).positional(none).style(style).run(), given);
    po::notify(given);
  } catch (po::error const& error) {
    throw usage_error(error.what());
  }
  if (given.contains("help")) {
    std::cout << "conch-http-counter: a counter over HTTP, kept in Redis or PostgreSQL, guarded by a lock\n\n"
              << known
              << "\nPOST /counter adds one (POST /counter?lock=off without the lock), GET /counter "
                 "shows it,\nDELETE /counter sets it to 0. GET / is a page that shows the lock live. GET /stats, "
                 "/metrics and /healthz "
                 "show the server's state.\nAfter SIGTERM or SIGINT it answers the requests in flight, "
                 "then exits.\n";
    return std::nullopt;
  }

  constexpr long long day = 24LL * 3600 * 1000;
  parse_endpoint(listen, result);
  if (redis.find('@') != redis.npos) {
    throw usage_error(
        "--redis: set a URL with a password in the environment as CONCH_URL; all users of the machine can read "
        "arguments");
  }
  for (std::string const& url : result.lock_servers) {
    if (url.find('@') != url.npos) {
      throw usage_error("--lock-server: no user or password here; all users of the machine can read arguments");
    }
  }
  if (given.contains("redis")) {
    result.redis = redis;
  }
  if (result.redis.empty()) {  // of a script whose variable is not set: another server would be a surprise
    throw usage_error(given.contains("redis") ? "--redis is empty" : "CONCH_URL is empty");
  }
  if (result.name.empty() || result.name.size() > 512) {
    throw usage_error("--name must have 1 to 512 bytes");
  }
  result.wait = std::chrono::milliseconds(in_range("wait-ms", wait, 0, 600'000));
  result.lease = std::chrono::milliseconds(in_range("lease-ms", lease, 100, day));
  result.request_timeout = std::chrono::milliseconds(in_range("request-timeout-ms", request_timeout, 50, 600'000));
  result.workers = static_cast<int>(in_range("workers", workers, 0, 16));
  if (result.workers != 0 && result.redis.starts_with("memory:")) {
    throw usage_error("--workers: workers are processes and cannot share memory://; use a server");
  }
  result.threads = static_cast<int>(in_range("threads", threads, 1, 256));
  return result;
}

}  // namespace http_counter
