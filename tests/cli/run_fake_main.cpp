// `conch run` with a library that tells a story: run_fake STORY... :: WORDS of conch.

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/duration.hpp"
#include "cli/exit_code.hpp"
#include "cli/fake_locks.hpp"
#include "cli/options.hpp"
#include "cli/process.hpp"
#include "cli/run.hpp"

namespace conch::test {
namespace {

duration time_of(std::string_view text) { return cli::parse_duration(text).value(); }

error_code error_of(std::string const& name) {
  static std::map<std::string, errc> const all{{"timed_out", errc::timed_out},
                                               {"lost", errc::lost},
                                               {"closed", errc::closed},
                                               {"unreachable", errc::unreachable},
                                               {"access_denied", errc::access_denied},
                                               {"wrong_type", errc::wrong_type},
                                               {"server_refused", errc::server_refused},
                                               {"protocol", errc::protocol},
                                               {"invalid_name", errc::invalid_name},
                                               {"invalid_config", errc::invalid_config},
                                               {"invalid_url", errc::invalid_url},
                                               {"not_supported", errc::not_supported},
                                               {"would_deadlock", errc::would_deadlock},
                                               {"tls_failed", errc::tls_failed},
                                               {"not_replicated", errc::not_replicated}};
  return make_error_code(all.at(name), "as the story says");
}

/// "what" or "what=value"; a renewal is "renewal=AT=VALID_FOR".
void read_word(std::string const& word, lock_story& into) {
  auto const equals = word.find('=');
  std::string const what = word.substr(0, equals);
  std::string const value = equals == std::string::npos ? std::string{} : word.substr(equals + 1);
  if (what == "refused") {
    into.refused = error_of(value);
  } else if (what == "until_stopped") {
    into.until_stopped = true;
  } else if (what == "granted_when_stopped") {
    into.granted_when_stopped = true;
  } else if (what == "valid_for") {
    into.valid_for = time_of(value);
  } else if (what == "lease") {
    into.lease = time_of(value);
  } else if (what == "renewal") {
    auto const between = value.find('=');
    into.renewals.push_back({time_of(value.substr(0, between)), time_of(value.substr(between + 1))});
  } else if (what == "endangered_at") {
    into.endangered_at.push_back(time_of(value));
  } else if (what == "safe_at") {
    into.safe_at.push_back(time_of(value));
  } else if (what == "lost_at") {
    into.lost_at = time_of(value);
  } else if (what == "not_held_at_check") {
    into.is_held_at_check = false;
  } else if (what == "release_fails") {
    into.release_fails = error_of(value);
  } else if (what == "fault") {
    into.fault = value;
  } else {
    throw cli::failure{cli::exit_code::usage, "the story does not know " + word};
  }
}

int run(std::vector<std::string> const& words) {
  cli::arguments given;
  try {
    auto const separator = std::find(words.begin(), words.end(), "::");
    lock_story story;
    std::for_each(words.begin(), separator, [&](std::string const& word) { read_word(word, story); });
    given = *cli::parse_command_line({separator + 1, words.end()}).command;
    boost::asio::io_context context{1};
    fake_locks locks{context, story};
    return cli::run_under(context, given, locks, given.grace.value_or(std::chrono::milliseconds{500}));
  } catch (cli::failure const& error) {
    cli::say(given, error.what(), error.code);
    return error.code;
  }
}

}  // namespace
}  // namespace conch::test

int main(int argc, char** argv) {
  conch::cli::let_signals_in();
  return conch::test::run(std::vector<std::string>(argv + 1, argv + argc));
}
