#include "scene.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <numeric>
#include <utility>

#include "sale.hpp"

namespace live_page {

namespace json = boost::json;

namespace {

constexpr std::size_t max_recent = 12;
constexpr std::size_t max_seconds = 60;
constexpr std::size_t max_log_lines = 40;

std::int64_t number(json::object const& o, std::string_view key) {
  json::value const* const v = o.if_contains(json::string_view(key.data(), key.size()));
  return v != nullptr && v->is_int64() ? v->get_int64() : 0;
}

std::string text(json::object const& o, std::string_view key) {
  json::value const* const v = o.if_contains(json::string_view(key.data(), key.size()));
  return v != nullptr && v->is_string() ? std::string(v->get_string().data(), v->get_string().size()) : std::string();
}

std::string in_seconds(std::chrono::steady_clock::duration d) {
  char shown[32];
  std::snprintf(shown, sizeof shown, "%.2f s", std::chrono::duration<double>(d).count());
  return shown;
}

/// The quantile (`share` from 0 to 1) of sorted numbers; 0 if there are none.
std::int64_t quantile(std::vector<std::int64_t> const& sorted, double share) {
  return sorted.empty() ? 0
                        : sorted[std::min(sorted.size() - 1,
                                          static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

}  // namespace

std::optional<report> parse_report(std::string_view line) {
  boost::system::error_code wrong;
  json::value const parsed = json::parse(json::string_view(line.data(), line.size()), wrong);
  if (wrong || !parsed.is_object()) {
    return std::nullopt;
  }
  json::object const& o = parsed.get_object();
  report r;
  r.what = text(o, "what");
  r.fence = number(o, "fence");
  r.waited = number(o, "waited");
  r.at = number(o, "at");
  r.until = number(o, "until");
  r.round = number(o, "round") != 0;
  r.locked = number(o, "locked") != 0;
  r.value = number(o, "value");
  r.segment = static_cast<std::size_t>(std::max<std::int64_t>(number(o, "segment"), 0));
  r.sold = number(o, "sold");
  r.unsure = number(o, "unsure");
  r.mistakes = number(o, "mistakes");
  r.why = text(o, "why");
  r.client = text(o, "client");
  return r.what.empty() ? std::nullopt : std::optional(std::move(r));
}

scene::worker& scene::at(std::size_t number) {
  if (workers_.size() < number) {
    workers_.resize(number);
  }
  return workers_[number - 1];
}

std::string scene::name_of(std::size_t number) const {
  int const process = number <= workers_.size() ? workers_[number - 1].process : 0;
  return "Worker " + std::to_string(number) + " (process " + std::to_string(process) + ")";
}

void scene::joined(std::size_t number, int process) { at(number).process = process; }

void scene::gone(std::size_t number) {
  worker& w = at(number);
  if (std::exchange(w.ended, true)) return;
  say(name_of(number) + " has ended. If it held the lock, the next worker gets it when its lease has expired.");
  w.waiting = 0;
  if (holder_ == number) holder_ = 0;
  if (stopped_ == number) stopped_ = successor_ = 0;
  for (bool const locked : {true, false}) {
    if (counts(locked)) ++count_of(locked).done;  // the increments that it did not make will be missing
  }
  if (sale_goes()) ++sale_.done;
}

void scene::heard(std::size_t number, report const& r, time_point now) {
  worker& w = at(number);
  if (r.what == "ready") {
    w.ready = true;
    w.client = r.client;
  } else if (r.what == "asks") {
    ++w.waiting;
  } else if (r.what == "granted") {
    granted(number, r, now);
  } else if (r.what == "released") {
    if (holder_ == number) holder_ = 0;
  } else if (r.what == "lost") {
    lost(number, r, now);
  } else if (r.what == "unserved") {
    if (r.fence == 0) w.waiting = std::max<std::int64_t>(w.waiting - 1, 0);
    if (holder_ == number) holder_ = 0;  // its write failed, so it has released the lock
    std::string words = (r.fence == 0 ? "An acquire failed: " : "A write failed: ") + r.why + ".";
    // all workers report the same failure repeatedly
    if (log_.empty() || log_.back().second != words) say(std::move(words));
  } else if (r.what == "refused") {
    ++refused_;
    say(name_of(number) + " ignored its loss and sent its write. The store refused fence " + std::to_string(r.fence) +
        ", because it had seen a greater one.");
  } else if (r.what == "overwrote") {
    say(name_of(number) + " ignored its loss and sent its write with fence " + std::to_string(r.fence) +
        ". The store took it: no later holder had written yet.");
  } else if (r.what == "counted") {
    counted(number, r);
  } else if (r.what == "failed") {
    w.waiting = std::max<std::int64_t>(w.waiting - (r.locked ? 1 : 0), 0);
    if (++count_of(r.locked).failed == 1) say(name_of(number) + " could not add one: " + r.why);
  } else if (r.what == "done") {
    if (counts(r.locked)) ++count_of(r.locked).done;
  } else if (r.what == "looked" && r.segment >= 1 && r.segment <= sale_.left.size()) {
    std::int64_t& left = sale_.left[r.segment - 1];
    left = std::min(left, r.value);
  } else if (r.what == "sold" && sale_goes()) {
    ++sale_.done;
    sale_.sold += r.sold;
    sale_.unsure += r.unsure;
    sale_.mistakes += r.mistakes;
  }
}

void scene::record_grant(std::size_t number, std::int64_t fence, std::int64_t waited) {
  ++passed_;
  ++grants_;
  recent_.push_back({number, fence, waited});
  if (recent_.size() > max_recent) recent_.pop_front();
}

void scene::granted(std::size_t number, report const& r, time_point now) {
  worker& w = at(number);
  w.waiting = std::max<std::int64_t>(w.waiting - 1, 0);
  ++w.grants;
  waits_.push_back(r.waited);
  record_grant(number, r.fence, r.waited);
  holder_ = number;
  fence_ = r.fence;
  until_ = r.until;
  since_ = now;
  hold_ends_ = now + std::chrono::microseconds(r.until - r.at);
  if (stopped_ != 0 && successor_ == 0 && number != stopped_) {
    successor_ = number;
    auto const between = std::chrono::microseconds(r.at - stopped_until_);
    say(name_of(number) + " has the lock now, " + in_seconds(now - stopped_at_) + " after the freeze and " +
        (between.count() >= 0 ? in_seconds(between) + " after that hold expired."
                              : in_seconds(-between) + " BEFORE that hold expired: two holders at once!") +
        " Its fence is " + std::to_string(r.fence) + ", greater than " + std::to_string(stopped_fence_) + ".");
  }
}

void scene::lost(std::size_t number, report const& r, time_point now) {
  if (holder_ == number) holder_ = 0;
  std::string words =
      name_of(number) + " learned that it lost the lock (" + r.why + ", fence " + std::to_string(r.fence) + ")";
  if (continued_ == number) {
    words += ", " + in_seconds(now - continued_at_) + " after it woke up";
    continued_ = 0;
  }
  say(words + ", before it wrote.");
}

void scene::counted_here(std::int64_t fence) { record_grant(0, fence, -1); }

void scene::round(bool goes) {
  if (std::exchange(round_, goes) != goes) {
    say(goes ? "The workers pass the lock on: each holds it for half a second."
             : "The workers stop passing the lock on.");
  }
}

void scene::stopped(std::size_t number, time_point now) {
  stopped_ = number;
  stopped_fence_ = fence_;
  stopped_until_ = until_;
  stopped_at_ = now;
  successor_ = 0;
  say(name_of(number) + " was frozen (SIGSTOP) while it holds the lock, fence " + std::to_string(fence_) +
      ". It can no longer renew its hold, and does not know.");
}

void scene::continued(time_point now) {
  if (stopped_ == 0) return;
  say(name_of(stopped_) + " wakes up (SIGCONT).");
  continued_ = std::exchange(stopped_, 0);
  continued_at_ = now;
  successor_ = 0;
}

// ---- counts ---------------------------------------------------------------------------------------------

void scene::count_begins(bool locked, int target, std::size_t workers) {
  count& c = count_of(locked);
  c = {};
  c.target = target;
  c.workers = workers;
  say(std::to_string(workers) + " workers add one " + std::to_string(target) + " times, " +
      (locked ? "with" : "without") + " the lock.");
}

void scene::counted(std::size_t number, report const& r) {
  count& c = count_of(r.locked);
  if (r.locked && holder_ == number) holder_ = 0;
  ++c.confirmed;
  c.value = r.value;
  auto const at = static_cast<std::size_t>(std::clamp<std::int64_t>(r.value, 0, c.target));
  c.writers.resize(static_cast<std::size_t>(c.target) + 1);
  std::size_t& writer = c.writers[at];
  if (writer != 0) {
    bool const first = c.example.empty();
    c.example =
        (writer == number ? "Two coroutines of worker " + std::to_string(number) + " both wrote "
                          : "Workers " + std::to_string(writer) + " and " + std::to_string(number) + " both wrote ") +
        std::to_string(r.value) + ": two increments, one of them lost.";
    if (first) say(c.example);
  }
  writer = number;
}

void scene::count_ends(bool locked, std::optional<std::int64_t> value) {
  count& c = count_of(locked);
  c.workers = 0;
  c.in_the_end = value;
  std::string words =
      std::string(locked ? "With" : "Without") + " the lock: " + std::to_string(c.confirmed) + " increments";
  if (value) {
    c.value = *value;
    std::int64_t const lost = c.confirmed - *value;
    words += ", and the counter is " + std::to_string(*value) + ": " + (lost == 0 ? "none" : std::to_string(lost)) +
             " lost.";
  } else {
    words += "; the counter could not be read.";
  }
  if (c.failed != 0) words += " " + std::to_string(c.failed) + " more failed, and may have been made.";
  say(words);
}

// ---- the sale -------------------------------------------------------------------------------------------

void scene::sale_begins(int items, std::size_t segments, std::size_t workers) {
  sale_ = {};
  sale_.items = items;
  sale_.workers = workers;
  auto const each = static_cast<int>(segments);
  for (int i = 0; i < each; ++i) {
    sale_.stock.push_back(items / each + (i < items % each ? 1 : 0));
  }
  sale_.left = sale_.stock;
  say("The flash sale has begun: " + std::to_string(items) + " items in " + std::to_string(segments) +
      " segments, each with a holder of its own.");
}

void scene::sale_ends(std::optional<std::int64_t> left) {
  sale_.workers = 0;
  if (left) {
    std::int64_t const gone = sale_.items - *left;
    bool const good = flash_sale::adds_up(gone, sale_.sold, sale_.unsure) && sale_.mistakes == 0;
    sale_.verdict = std::to_string(gone) + " of " + std::to_string(sale_.items) +
                    " are gone from the stock; the buyers have " + std::to_string(sale_.sold) +
                    (sale_.unsure == 0 ? "" : ", and do not know about " + std::to_string(sale_.unsure)) + ": " +
                    (good ? "nothing sold twice, nothing lost." : "this does not add up!");
  } else {
    sale_.verdict = "The stock could not be read.";
  }
  say("The flash sale has ended: " + sale_.verdict);
}

// ---- what is shown --------------------------------------------------------------------------------------

void scene::inspected(inspection seen) {
  auto const same = std::find_if(workers_.begin(), workers_.end(),
                                 [&](worker const& w) { return !seen.holder.empty() && w.client == seen.holder; });
  if (same != workers_.end()) seen.holder = "worker " + std::to_string(same - workers_.begin() + 1);
  seen_ = std::move(seen);
}

void scene::lock_servers(std::vector<lock_server> servers) {
  for (lock_server const& s : servers) {
    auto const before =
        std::find_if(servers_.begin(), servers_.end(), [&](lock_server const& old) { return old.url == s.url; });
    if (before != servers_.end() && before->up != s.up)
      say("The lock's server " + s.url + (s.up ? " answers again." : " does not answer."));
  }
  servers_ = std::move(servers);
}

std::string_view scene::state_of(std::size_t number, time_point now) const {
  worker const& w = workers_[number - 1];
  if (w.ended) return "has ended";
  if (!w.ready) return "starts";
  if (stopped_ == number)
    return has_expired(now) || holder_ != number ? "is frozen, and its hold has expired"
                                                 : "is frozen while it holds the lock";
  if (holder_ == number) return "holds the lock";
  return w.waiting != 0 ? "waits" : "is idle";
}

void scene::second_passed() {
  std::sort(waits_.begin(), waits_.end());
  series_.push_back({grants_, quantile(waits_, 0.5), quantile(waits_, 0.99)});
  if (series_.size() > max_seconds) series_.pop_front();
  waits_.clear();
  grants_ = 0;
}

void scene::say(std::string text) {
  log_.emplace_back(++log_id_, std::move(text));
  if (log_.size() > max_log_lines) log_.pop_front();
}

json::object scene::to_json(count const& c) {
  json::object o{{"runs", c.workers != 0},
                 {"target", c.target},
                 {"confirmed", c.confirmed},
                 {"value", c.value},
                 {"lost", std::max<std::int64_t>(c.confirmed - c.value, 0)},
                 {"ended", c.in_the_end.has_value()},
                 {"example", c.example}};
  return o;
}

json::object scene::sale_to_json() const {
  json::array segments;
  for (std::size_t i = 0; i < sale_.stock.size(); ++i) {
    segments.push_back(json::array{sale_.stock[i], sale_.stock[i] - sale_.left[i]});
  }
  std::int64_t const left = std::accumulate(sale_.left.begin(), sale_.left.end(), std::int64_t{0});
  return {{"runs", sale_goes()},  {"items", sale_.items},     {"sold", sale_.items - left},
          {"segments", segments}, {"verdict", sale_.verdict}, {"unavailable", no_sale_}};
}

std::string scene::to_json(time_point now) const {
  std::size_t const holder = has_expired(now) ? 0 : holder_;
  json::array workers;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    worker const& w = workers_[i];
    workers.push_back(json::object{{"number", i + 1},
                                   {"process", w.process},
                                   {"state", w.ended   ? "ended"
                                             : w.ready ? "here"
                                                       : "starts"},
                                   {"does", json::string_view(state_of(i + 1, now))},
                                   {"stopped", stopped_ == i + 1},
                                   {"holds", holder == i + 1},
                                   {"waiting", w.waiting},
                                   {"grants", w.grants}});
  }
  json::array recent;
  for (grant const& g : recent_) {
    // as text: JavaScript's numbers have 53 bits
    recent.push_back(json::array{g.worker, std::to_string(g.fence), g.waited});
  }
  json::array series;
  for (second const& s : series_) {
    series.push_back(json::array{s.grants, s.p50, s.p99});
  }
  json::array log;
  for (auto const& [id, words] : log_) {
    log.push_back(json::array{id, words});
  }
  json::array servers;
  for (lock_server const& s : servers_) {
    servers.push_back(json::object{{"url", s.url}, {"up", s.up}});
  }
  json::array waiter_names;
  for (std::string const& one : seen_.waiter_names) waiter_names.emplace_back(one);
  auto const held = std::chrono::duration_cast<std::chrono::milliseconds>(now - since_).count();
  json::object const o{
      {"lock", lock_},
      {"kept_by", kept_by_},
      {"workers", workers},
      {"servers", servers},
      {"kill_command", kill_command_},
      {"holder", holder},
      {"fence", std::to_string(fence_)},
      {"held_ms", holder == 0 ? 0 : held},
      {"seen", json::object{{"holder", seen_.holder},
                            {"fence", std::to_string(seen_.fence)},
                            {"waiting", seen_.waiting},
                            {"holder_name", seen_.holder_name},
                            {"waiter_names", waiter_names},
                            {"trouble", seen_.trouble}}},
      {"refused", refused_},
      {"passed", passed_},
      {"recent", recent},
      {"series", series},
      {"round", round_},
      {"stopped", stopped_},
      {"with", to_json(with_)},
      {"without", to_json(without_)},
      {"sale", sale_to_json()},
      {"log", log},
  };
  return json::serialize(o);
}

}  // namespace live_page
