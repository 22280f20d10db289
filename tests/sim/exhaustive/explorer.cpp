#include "sim/exhaustive/explorer.hpp"

#include "sim/exhaustive/checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <list>
#include <thread>

namespace conch::sim {

namespace {

using clock = std::chrono::steady_clock;

class exploration {
 public:
  exploration(scope const& s, exploring const& how) : scope_{s}, how_{how} {}

  explored run() {
    begin();
    std::vector<std::thread> pool;
    for (unsigned i = 0; i < std::max(how_.threads, 1U); ++i) pool.emplace_back([this] { work(); });
    watch();
    for (std::thread& t : pool) t.join();
    explored result{now(), std::move(found_), !stop_ && left_.empty()};
    if (!how_.checkpoint.empty() && !result.found) note();
    return result;
  }

 private:
  struct part {
    part_left what;
    bool taken = false;
  };

  std::string of() const {
    return scope_.name + " steps " + std::to_string(scope_.limits.steps) + " faults " +
           std::to_string(scope_.limits.faults);
  }

  void begin() {
    checkpoint c;
    if (!how_.checkpoint.empty()) c = read_checkpoint(how_.checkpoint, of());
    if (c.parts == 0) {
      activate(how_.broken);
      for (path& p : first_parts()) c.left.push_back({std::move(p), {}});
      activate(nullptr);
      c.parts = c.left.size();
    }
    counts_ = {c.runs, c.orders, c.cut_off, 0, c.states, c.seconds, 0};
    before_ = counts_;
    parts_ = c.parts;
    for (part_left& one : c.left) left_.push_back({std::move(one), false});
  }

  /// Enough that no thread is idle for long at the end.
  std::vector<path> first_parts() {
    std::deque<path> open{path{}};
    std::vector<path> leaves;
    std::size_t const wanted = how_.threads <= 1 ? 1 : 16 * how_.threads;
    while (!open.empty() && open.size() + leaves.size() < wanted) {
      path const p = open.front();
      open.pop_front();
      visited none;
      walk w{{how_.reduced.sleep_sets, false}, none, scope_.limits.steps, p};
      w.begin();
      schedule order{scope_.limits, w};
      (void)run_once(order);
      auto const below = w.split();
      if (below.empty()) leaves.push_back(p);
      open.insert(open.end(), below.begin(), below.end());
    }
    leaves.insert(leaves.end(), open.begin(), open.end());
    return leaves;
  }

  /// Nothing: it came to what is explored elsewhere.
  std::optional<outcome> run_once(schedule& order) {
    try {
      return scope_.run(order, false);
    } catch (needless const&) {
      return std::nullopt;
    }
  }

  void work() {
    activate(how_.broken);
    for (part* p = next_part(); p != nullptr; p = next_part()) {
      walk w{how_.reduced, visited_, scope_.limits.steps, p->what.below, p->what.at};
      bool more = true;
      while (more && !stop_) {
        w.begin();
        schedule order{scope_.limits, w};
        auto const o = run_once(order);
        count(order, o, w);
        more = w.advance();
        std::lock_guard const lock{guard_};
        p->what.at = w.at();
        shares_[p] = w.share_done();
      }
      if (!more) done(p);
    }
    activate(nullptr);
  }

  part* next_part() {
    std::lock_guard const lock{guard_};
    if (stop_) return nullptr;
    auto const free = std::find_if(left_.begin(), left_.end(), [](part const& p) { return !p.taken; });
    if (free == left_.end()) return nullptr;
    free->taken = true;
    return &*free;
  }

  void done(part* p) {
    std::lock_guard const lock{guard_};
    shares_.erase(p);
    left_.remove_if([p](part const& one) { return &one == p; });
  }

  void count(schedule const& order, std::optional<outcome> const& o, walk const& w) {
    std::lock_guard const lock{guard_};
    ++counts_.runs;
    counts_.deepest = std::max<std::uint64_t>(counts_.deepest, order.taken());
    if (o) ++counts_.orders;
    if (o && order.was_cut_off()) ++counts_.cut_off;
    if (o && o->failed()) {
      if (!found_) found_ = broken_promise{*o, w.at()};
      stop_ = true;
    }
    if (counts_.runs - before_.runs >= how_.most_runs) stop_ = true;
  }

  tally now() {
    std::lock_guard const lock{guard_};
    tally t = counts_;
    t.states = before_.states + visited_.count();
    t.seconds = before_.seconds + seconds_taken();
    t.share = static_cast<double>(parts_ - left_.size());
    for (auto const& [which, share] : shares_) t.share += share;
    t.share /= static_cast<double>(std::max<std::size_t>(parts_, 1));
    return t;
  }

  void watch() {
    auto said = clock::now(), noted = said;
    while (!stop_ && !all_done()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
      if (seconds_taken() >= how_.most_seconds) stop_ = true;
      if (how_.progress && clock::now() - said >= std::chrono::seconds{1}) {
        said = clock::now();
        how_.progress(now());
      }
      if (!how_.checkpoint.empty() && clock::now() - noted >= std::chrono::seconds{10}) {
        noted = clock::now();
        note();
      }
    }
  }

  /// Processor time: a busy machine does not count.
  double seconds_taken() const { return static_cast<double>(std::clock() - began_) / CLOCKS_PER_SEC; }

  bool all_done() {
    std::lock_guard const lock{guard_};
    return left_.empty();
  }

  void note() {
    tally const t = now();
    std::lock_guard const lock{guard_};
    checkpoint c{of(), t.runs, t.orders, t.cut_off, t.states, t.seconds, parts_, {}};
    for (part const& p : left_) c.left.push_back(p.what);
    write(c, how_.checkpoint);
  }

  scope const& scope_;
  exploring const& how_;
  visited visited_;
  std::mutex guard_;
  std::atomic<bool> stop_{false};
  std::list<part> left_;
  std::map<part const*, double> shares_;
  std::size_t parts_ = 0;
  tally counts_, before_;
  std::optional<broken_promise> found_;
  std::clock_t const began_ = std::clock();
};

}  // namespace

explored explore(scope const& s, exploring const& how) { return exploration{s, how}.run(); }

outcome run_path(scope const& s, path const& p, mutant const* broken, bool traced) {
  activate(broken);
  visited none;
  walk w{{true, false}, none, s.limits.steps, p};
  w.begin();
  schedule order{s.limits, w};
  outcome o;
  try {
    o = s.run(order, traced);
  } catch (needless const&) {
    o.words = "this order is explored elsewhere";
  }
  activate(nullptr);
  return o;
}

}  // namespace conch::sim
