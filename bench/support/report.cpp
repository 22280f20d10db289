#include "support/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>

namespace conch::bench {

namespace {

std::string number(double value) {
  char text[64];
  double const size = std::abs(value);
  int const digits = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string json_number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "null";
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", *value);
  return text;
}

std::string quartiles(samples const& of) { return number(of.quantile(0.25)) + " … " + number(of.quantile(0.75)); }

std::optional<double> ratio_of(double value, std::optional<double> floor) {
  return floor && *floor != 0 ? std::optional{value / *floor} : std::nullopt;
}

}  // namespace

bool options::wants(std::string_view figure) const {
  return figures.empty() || std::find(figures.begin(), figures.end(), figure) != figures.end();
}

options parse_options(int argc, char** argv, std::string_view what_it_measures) {
  options result;
  auto const usage = [&](std::ostream& out) {
    out << "usage: " << argv[0] << " [OPTION...] [FIGURE...]\n\n"
        << what_it_measures
        << "\n\n"
           "  --json FILE       append the results, one JSON object a line\n"
           "  --repetitions N   of each measurement, interleaved with its floor (5)\n"
           "  --seconds S       of one sample (0.4)\n"
           "  --no-header       rows of the table only\n"
           "  --help            this text\n";
  };
  auto const refuse = [&](std::string const& why) {
    std::cerr << argv[0] << ": " << why << "\n\n";
    usage(std::cerr);
    std::exit(2);
  };
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    auto const value = [&]() -> std::string {
      if (i + 1 == argc) refuse(argument + " needs a value");
      return argv[++i];
    };
    try {
      if (argument == "--help" || argument == "-h") {
        usage(std::cout);
        std::exit(0);
      } else if (argument == "--json") {
        result.json = value();
      } else if (argument == "--repetitions") {
        result.repetitions = std::stoi(value());
      } else if (argument == "--seconds") {
        result.seconds = std::stod(value());
      } else if (argument == "--no-header") {
        result.header = false;
      } else if (argument.starts_with('-')) {
        refuse("unknown option " + argument);
      } else {
        result.figures.push_back(argument);
      }
    } catch (std::logic_error const&) {
      refuse("the value of " + argument + " is not a number");
    }
  }
  if (result.repetitions < 1 || result.seconds <= 0) refuse("--repetitions and --seconds must be positive");
  return result;
}

double samples::mean() const {
  return values_.empty() ? 0
                         : std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double samples::quantile(double share) const {
  if (values_.empty()) return std::nan("");
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  double const place = share * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  std::size_t const above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

void progress(std::string_view what) {
  if (::isatty(STDERR_FILENO) != 0) {
    std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(what.size()), what.data());
  } else if (!what.empty()) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  }
}

report::report(options const& chosen, bool of_peers) : options_{chosen}, of_peers_{of_peers} {
  if (options_.header) {
    std::cout
        << (of_peers
                ? "| figure | case | library | value | quartiles | unit | compared with | its value | its quartiles | "
                  "ratio |\n"
                  "|---|---|---|--:|--:|---|---|--:|--:|--:|\n"
                : "| figure | case | value | quartiles | unit | compared with | its value | its quartiles | ratio |\n"
                  "|---|---|--:|--:|---|---|--:|--:|--:|\n")
        << std::flush;
  }
}

report& report::of(std::string peer) {
  peer_ = std::move(peer);
  return *this;
}

void report::add(std::string_view figure, std::string_view name, samples const& value, std::string_view unit) {
  write(figure, name, value.median(), unit, quartiles(value), std::nullopt);
}

void report::add(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
                 std::string_view what, samples const& floor) {
  write(figure, name, value.median(), unit, quartiles(value), compared{what, floor.median(), quartiles(floor)});
}

void report::add(std::string_view figure, std::string_view name, double value, std::string_view unit) {
  write(figure, name, value, unit, "", std::nullopt);
}

void report::add(std::string_view figure, std::string_view name, double value, std::string_view unit,
                 std::string_view what, double floor) {
  write(figure, name, value, unit, "", compared{what, floor, ""});
}

void report::tails(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
                   std::string_view what, samples const& floor) {
  for (double const percent : {50., 90., 99., 99.9}) {
    char text[16];
    std::snprintf(text, sizeof text, ", p%g", percent);
    add(figure, std::string{name} + text, value.quantile(percent / 100), unit, what, floor.quantile(percent / 100));
  }
}

void report::distribution(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
                          samples const* floor) {
  for (double const percent :
       {0., 1., 5., 10., 20., 30., 40., 50., 60., 70., 80., 90., 95., 98., 99., 99.5, 99.9, 100.}) {
    char text[16];
    std::snprintf(text, sizeof text, ", p%g", percent);
    write_json(figure, std::string{name} + text, value.quantile(percent / 100), unit,
               floor != nullptr ? std::optional{floor->quantile(percent / 100)} : std::nullopt, "");
  }
}

void report::write(std::string_view figure, std::string_view name, double value, std::string_view unit,
                   std::string const& spread, std::optional<compared> const& with) {
  std::optional<double> const floor = with ? std::optional{with->value} : std::nullopt;
  std::optional<double> const ratio = ratio_of(value, floor);
  progress("");
  std::cout << "| " << figure << " | " << name << " | ";
  if (of_peers_) std::cout << peer_ << " | ";
  std::cout << number(value) << " | " << spread << " | " << unit << " | ";
  if (with) {
    std::cout << with->what << " | " << number(with->value) << " | " << with->spread << " | ";
  } else {
    std::cout << " |  |  | ";
  }
  if (ratio) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", *ratio);
    std::cout << text;
  }
  std::cout << " |\n" << std::flush;
  write_json(figure, name, value, unit, floor, with ? with->what : "");
}

void report::write_json(std::string_view figure, std::string_view name, double value, std::string_view unit,
                        std::optional<double> floor, std::string_view what) {
  if (options_.json.empty()) return;
  std::optional<double> const ratio = ratio_of(value, floor);
  std::ofstream out{options_.json, std::ios::app};
  out << "{\"figure\": " << quoted(figure) << ", \"case\": " << quoted(name) << ", \"value\": " << json_number(value)
      << ", \"unit\": " << quoted(unit) << ", \"floor\": " << json_number(floor)
      << ", \"ratio\": " << json_number(ratio) << ", \"peer\": " << quoted(peer_) << ", \"against\": " << quoted(what)
      << "}\n";
  if (!out) throw std::runtime_error("cannot write " + options_.json);
}

}  // namespace conch::bench
