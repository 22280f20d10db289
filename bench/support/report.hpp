// What every end-to-end benchmark has in common: its options, its samples, its table and its JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conch::bench {

struct options {
  std::vector<std::string> figures;  // empty: all the program has
  std::string json;                  // empty: none; else one object a line is appended
  int repetitions = 5;
  double seconds = 0.4;  // of one sample
  bool header = true;

  bool wants(std::string_view figure) const;
};

/// Ends the program for --help (exit code 0) and for what it does not understand (2).
options parse_options(int argc, char** argv, std::string_view what_it_measures);

/// Repetitions of one measurement.
class samples {
 public:
  void add(double value) { values_.push_back(value); }
  void add(samples const& others) { values_.insert(values_.end(), others.values_.begin(), others.values_.end()); }
  bool empty() const noexcept { return values_.empty(); }
  std::size_t size() const noexcept { return values_.size(); }
  double mean() const;
  double median() const { return quantile(0.5); }
  double quantile(double share) const;

 private:
  std::vector<double> values_;
};

/// What figures of conch are compared with, as the tables name it. The first says what the library costs above its own
/// protocol, and nothing about the protocol: the least that keeps a queue and a fence is shown beside it.
inline constexpr std::string_view own_scripts = "conch's own scripts, raw (overhead over the own protocol)";
inline constexpr std::string_view least_scripts = "the least with a line and a fence";

/// A B A B …: what the machine does meanwhile to one, it does to the other.
template <class A, class B>
std::pair<samples, samples> interleave(int repetitions, A&& a, B&& b) {
  std::pair<samples, samples> result;
  for (int i = 0; i < repetitions; ++i) {
    result.first.add(a());
    result.second.add(b());
  }
  return result;
}

/// Says on stderr what is going on, on one line that is overwritten.
void progress(std::string_view what);

class report {
 public:
  /// `of_peers`: the table says in a column of its own whose the figures are.
  explicit report(options const& chosen, bool of_peers = false);

  /// The library whose figures come now; at first conch.
  report& of(std::string peer);

  /// The median of `value`, with its quartiles.
  void add(std::string_view figure, std::string_view name, samples const& value, std::string_view unit);
  /// The same beside `floor`, which was measured in the same run; `what` names it, and the ratio with it: one that
  /// flatters is a defect.
  void add(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
           std::string_view what, samples const& floor);
  void add(std::string_view figure, std::string_view name, double value, std::string_view unit);
  void add(std::string_view figure, std::string_view name, double value, std::string_view unit, std::string_view what,
           double floor);

  /// p50, p90, p99, p99.9 of single measurements, all together, each in a row beside the same quantile of `floor`.
  void tails(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
             std::string_view what, samples const& floor);

  /// Single measurements of all repetitions together, as quantiles "NAME, p0" to "NAME, p100". For pictures: not in the
  /// table.
  void distribution(std::string_view figure, std::string_view name, samples const& value, std::string_view unit,
                    samples const* floor = nullptr);

 private:
  struct compared {
    std::string_view what;
    double value;
    std::string spread;
  };
  void write_json(std::string_view figure, std::string_view name, double value, std::string_view unit,
                  std::optional<double> floor, std::string_view what);
  void write(std::string_view figure, std::string_view name, double value, std::string_view unit,
             std::string const& spread, std::optional<compared> const& with);

  options const& options_;
  bool of_peers_;
  std::string peer_ = "conch";
};

}  // namespace conch::bench
