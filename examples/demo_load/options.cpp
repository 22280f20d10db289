#include "options.hpp"

#include <boost/program_options.hpp>
#include <iostream>
#include <string_view>

namespace demo_load {

namespace po = boost::program_options;

namespace {

int in_range(char const* option, long long value, int most) {
  if (value < 1 || value > most) {
    throw usage_error(std::string("--") + option + " must be from 1 to " + std::to_string(most) + ", got " +
                      std::to_string(value));
  }
  return static_cast<int>(value);
}

server_address parse_url(std::string_view const url) {
  constexpr std::string_view scheme = "http://";
  std::string_view rest = url;
  if (rest.starts_with(scheme)) {
    rest.remove_prefix(scheme.size());
    rest = rest.substr(0, rest.find('/'));
    auto const colon = rest.rfind(':');
    std::string_view host = rest.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) {
      host = host.substr(1, host.size() - 2);
    }
    if (colon != rest.npos && !host.empty() && colon + 1 < rest.size()) {
      return {std::string(host), std::string(rest.substr(colon + 1))};
    }
  }
  throw usage_error("--url must be http://HOST:PORT, got '" + std::string(url) + "'");
}

}  // namespace

std::optional<options> parse_options(int argc, char const* const* argv) {
  options result;
  std::vector<std::string> urls;
  std::string lock;
  long long requests = 0;
  long long connections = 0;
  long long limit = 0;
  po::options_description known("Options");
  auto add = known.add_options();
  add("help,h", "print this");
  add("url", po::value(&urls)->value_name("URL"), "a counter server, http://HOST:PORT; may be repeated");
  add("requests", po::value(&requests)->default_value(result.requests)->value_name("N"), "number of increments");
  add("connections", po::value(&connections)->default_value(result.connections)->value_name("N"),
      "concurrent connections, spread over the servers");
  add("lock", po::value(&lock)->default_value("on")->value_name("on|off"), "off: increment without the lock");
  add("reset", po::bool_switch(&result.reset), "first set the counter to 0");
  add("max-seconds", po::value(&limit)->default_value(result.limit.count())->value_name("N"),
      "give up after this time");

  po::variables_map given;
  try {
    constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::positional_options_description const none;
    po::command_line_parser parser(argc, argv);
    po::store(parser.options(known).positional(none).style(style).run(), given);
    po::notify(given);
  } catch (po::error const& error) {
    throw usage_error(error.what());
  }
  if (given.contains("help")) {
    std::cout << "conch-demo-load: increments the counter of conch-http-counter servers\n\n"
              << known
              << "\nPrints the result as a line of text and as a line of JSON, in which \"counter\" is the\n"
                 "final value on the first server. Exit code 0 if every increment was confirmed.\n";
    return std::nullopt;
  }
  if (urls.empty()) {
    throw usage_error("--url is missing");
  }
  for (auto const& url : urls) {
    result.servers.push_back(parse_url(url));
  }
  if (lock != "on" && lock != "off") {
    throw usage_error("--lock must be on or off, got '" + lock + "'");
  }
  result.locked = lock == "on";
  result.requests = in_range("requests", requests, 100'000'000);
  result.connections = in_range("connections", connections, 10'000);
  result.limit = std::chrono::seconds(in_range("max-seconds", limit, 86'400));
  return result;
}

}  // namespace demo_load
