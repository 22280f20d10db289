#include "director.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <csignal>
#include <exception>
#include <utility>

#include "assets.hpp"
#include "from_options.hpp"
#include "random_word.hpp"
#include "sale.hpp"
#include "worker.hpp"

namespace live_page {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;
using http_counter::action;
using http_counter::route;
using steady = std::chrono::steady_clock;

namespace {

constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);

constexpr int target = 1000;   // increments per count
constexpr int coroutines = 5;  // in each worker
constexpr auto round_limit = 60s;
constexpr auto after_successor = 2s;   // a frozen worker wakes up this long after another worker got the lock,
constexpr auto stopped_at_most = 15s;  // and after this long in any case
constexpr std::size_t shown_waiters = 5;
constexpr auto inspect_every = 500ms;  // asks the lock's server while the page has viewers

flash_sale::settings sale_settings(std::string const& name) {
  flash_sale::settings s;
  s.name = sale_name(name);
  s.order = 60ms;  // long enough to be seen
  s.buyers = 20;
  return s;
}

/// As `conch status` names it: "conch-http-counter@pod-7:4711 (round)".
template <class Client>
std::string name_of(Client const& c) {
  std::string const name = c.label.empty() ? "client " + c.client : c.label;
  return c.note.empty() ? name : name + " (" + c.note + ')';
}

/// The query may name local files.
std::string without_query(std::string const& url) { return url.substr(0, url.find('?')); }

/// The sale locks segments (conch::striped_mutex), which not every kind of server offers.
std::string why_no_sale(http_counter::options const& chosen) {
  std::string const lock = chosen.lock_servers.empty() ? chosen.redis : chosen.lock_servers.front();
  if (chosen.lock_servers.size() > 1 || lock.starts_with("redlock:"))
    return "the sale needs a striped_mutex, which a quorum of servers does not offer";
  if (lock.starts_with("zookeeper")) return "the sale needs a striped_mutex, which ZooKeeper does not offer";
  return {};
}

/// Takes the same time for every wrong token of a length, so that timing does not reveal its correct part.
bool is_same(std::string_view given, std::string_view wanted) {
  unsigned different = given.size() == wanted.size() ? 0 : 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    different |= static_cast<unsigned>(wanted[i] ^ (given.empty() ? '\0' : given[i % given.size()]));
  }
  return different == 0;
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  for (auto at = text.find(mark); at != text.npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
}

std::int64_t to_number(std::optional<std::string> const& text) {
  std::int64_t value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

}  // namespace

director::director(asio::io_context& ctx, conch::client& locks, http_counter::value_store& values,
                   http_counter::counter& number, http_counter::options const& chosen)
    : strand_(asio::make_strand(ctx)),
      locks_(locks),
      lock_(locks, chosen.name),
      values_(values),
      counter_(number),
      name_(chosen.name),
      own_id_(locks.id()),
      token_(chosen.workers == 0 ? std::string() : http_counter::random_word()),
      no_sale_(why_no_sale(chosen)),
      scene_(chosen.name, http_counter::shown_lock_servers(chosen)),
      next_(strand_),
      next_look_(strand_),
      round_end_(strand_),
      stop_end_(strand_) {
  if (chosen.workers != 0) {
    crew_.emplace(strand_, static_cast<std::size_t>(chosen.workers), settings_for_workers(chosen));
    for (std::size_t i = 1; i <= crew_->size(); ++i) {
      scene_.joined(i, crew_->process(i));
    }
    crew_->listen([this](std::size_t worker, std::string_view line) { on_report(worker, line); });
  }
  scene_.no_sale(no_sale_);
  scene_.kill_command(chosen.kill_command);
  start(publish());
  start(inspect());
}

void director::start(asio::awaitable<void> what) { asio::co_spawn(strand_, std::move(what), asio::detached); }

asio::awaitable<void> director::stop() {
  auto ended = asio::co_spawn(strand_, stop_workers(), asio::use_awaitable);
  co_await std::move(ended);
}

asio::awaitable<void> director::stop_workers() {
  stopping_ = true;
  for (auto* const timer : {&next_, &next_look_, &round_end_, &stop_end_}) timer->cancel();
  if (crew_) {
    co_await crew_->dismiss(3s);
  }
}

// ---- reports and the feed -------------------------------------------------------------------------------

void director::on_report(std::size_t worker, std::string_view line) {
  auto const now = steady::now();
  changed_ = true;
  if (line.empty()) {
    if (!stopping_) scene_.gone(worker);
  } else if (auto const r = parse_report(line)) {
    bool const was_replaced = scene_.is_replaced();
    scene_.heard(worker, *r, now);
    if (r->what == "granted" && r->round && std::exchange(stop_next_holder_, false)) stop_worker(worker);
    if (!was_replaced && scene_.is_replaced()) restart(stop_end_, after_successor, [this] { continue_worker(); });
  }
  for (bool const locked : {true, false}) {
    if (scene_.count_is_complete(locked) && !std::exchange(ending_count_[locked], true)) start(end_count(locked));
  }
  if (scene_.sale_is_complete() && !std::exchange(ending_sale_, true)) start(end_sale());
}

void director::counted(std::int64_t fence) {
  asio::post(strand_, [this, fence] {
    scene_.counted_here(fence);
    changed_ = true;
  });
}

asio::awaitable<void> director::publish() {
  auto second = steady::now();
  while (!stopping_) {
    auto const now = steady::now();
    bool const passed = now >= second;
    if (passed) {
      scene_.second_passed();
      second = now + std::chrono::seconds(1);
    }
    if (passed || (changed_ && feed_.listeners() != 0)) {
      changed_ = false;
      feed_.publish(scene_.to_json(now));
    }
    next_.expires_after(100ms);
    co_await next_.async_wait(as_tuple);
  }
}

std::vector<lock_server> director::servers(bool answered) const {
  std::vector<lock_server> all;
  for (auto const& each : locks_.stats().servers) all.push_back({without_query(each.url), each.connected});
  if (all.empty()) all.push_back({scene_.kept_by(), answered});
  return all;
}

// A quorum cannot inspect a lock, and a client connects only when it is used. So the page tries a lock of its own to
// see which servers answer.
asio::awaitable<void> director::touch_servers() {
  if (locks_.stats().servers.empty()) co_return;
  conch::mutex own(locks_, name_ + ":page");
  auto tried = co_await own.async_try_acquire(as_tuple);
  auto& [error, hold] = tried;
  if (hold) co_await hold.async_release(as_tuple);
}

// The workers report only their own holds, so ask the server about other clients.
asio::awaitable<void> director::inspect() {
  while (!stopping_) {
    if (feed_.listeners() != 0) {
      co_await touch_servers();
      auto looked = co_await lock_.async_inspect(as_tuple);
      auto const& [error, status] = looked;
      inspection seen;
      if (error) {
        // A quorum cannot be inspected: the page shows its servers instead.
        if (error != conch::errc::not_supported) seen.trouble = error.message();
      } else {
        seen.waiting = static_cast<std::int64_t>(status.waiting);
        if (!status.holders.empty()) {
          seen.fence = status.holders.front().fence;
          seen.holder = status.holders.front().client == own_id_ ? "this server" : status.holders.front().client;
          seen.holder_name = name_of(status.holders.front());
        }
        for (conch::lock_waiter const& one : status.waiters) {
          if (seen.waiter_names.size() == shown_waiters) break;
          seen.waiter_names.push_back(name_of(one));
        }
      }
      scene_.inspected(std::move(seen));
      scene_.lock_servers(servers(!error));
      changed_ = true;
    }
    if (!stopping_) {
      next_look_.expires_after(inspect_every);
      co_await next_look_.async_wait(as_tuple);
    }
  }
}

std::string director::document(std::string_view nonce) const {
  std::string text(page_html);
  replace(text, "/*page.css*/", page_css);
  replace(text, "/*page.js*/", page_js);
  replace(text, "{{nonce}}", nonce);
  return text;
}

// ---- the buttons ----------------------------------------------------------------------------------------

asio::awaitable<http_counter::page::outcome> director::act(route asked) {
  if (token_.empty()) {
    co_return outcome{http::status::conflict, "this server has no workers: start it with --workers"};
  }
  if (!is_same(asked.token, token_)) {
    co_return outcome{http::status::forbidden, "this needs the token that the server printed when it started"};
  }
  auto done = asio::co_spawn(strand_, run_button(std::move(asked)), asio::use_awaitable);
  outcome const result = co_await std::move(done);
  co_return result;
}

asio::awaitable<http_counter::page::outcome> director::run_button(route asked) {
  outcome result{http::status::conflict, "all workers have ended"};
  changed_ = true;
  if (stopping_ || crew_->here() == 0) {
    co_return result;
  }
  switch (asked.what) {
    case action::page_count: result = co_await count(asked.locked); break;
    case action::page_sale: result = co_await sale(); break;
    case action::page_round: result = round(asked.go); break;
    case action::page_stop: result = stop_holder(); break;
    default: break;
  }
  co_return result;
}

void director::tell_all(boost::json::object const& order) {
  std::string const line = boost::json::serialize(order);
  for (std::size_t i = 1; i <= crew_->size(); ++i) crew_->tell(i, line);
}

asio::awaitable<http_counter::page::outcome> director::count(bool locked) {
  if (scene_.counts(locked)) {
    co_return outcome{http::status::conflict, "it is already running"};
  }
  if (locked && scene_.stopped_worker() != 0) {
    co_return outcome{http::status::conflict, "a worker is frozen: wait until it wakes up"};
  }
  if (locked && scene_.round_goes()) round(false);
  scene_.count_begins(locked, target, crew_->here());
  std::exception_ptr failure;
  try {
    co_await begin_count(locked);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    scene_.count_ends(locked, std::nullopt);
    std::rethrow_exception(failure);
  }
  co_return outcome{};
}

asio::awaitable<void> director::begin_count(bool locked) {
  if (locked) {
    co_await counter_.reset(true);
  } else {
    co_await values_.remove(counter_key(name_, false));
  }
  int left = target;
  auto parts = static_cast<int>(crew_->here());
  for (std::size_t i = 1; i <= crew_->size() && parts > 0; ++i) {
    if (!crew_->is_here(i)) continue;
    int const times = left / parts--;
    left -= times;
    boost::json::object const order{{"do", "count"}, {"locked", locked}, {"times", times}, {"coroutines", coroutines}};
    crew_->tell(i, boost::json::serialize(order));
  }
}

asio::awaitable<void> director::end_count(bool locked) {
  std::optional<std::int64_t> value;
  try {
    std::optional<std::string> const text = co_await values_.get(counter_key(name_, locked));
    value = to_number(text);
  } catch (std::exception const&) {
  }
  scene_.count_ends(locked, value);
  ending_count_[locked] = false;
  changed_ = true;
}

asio::awaitable<http_counter::page::outcome> director::sale() {
  if (scene_.sale_goes()) {
    co_return outcome{http::status::conflict, "it is already running"};
  }
  if (!no_sale_.empty()) {
    co_return outcome{http::status::conflict, no_sale_};
  }
  flash_sale::settings const s = sale_settings(name_);
  scene_.sale_begins(s.items, s.segments, crew_->here());
  std::exception_ptr failure;
  try {
    co_await begin_sale();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    scene_.sale_ends(std::nullopt);
    std::rethrow_exception(failure);
  }
  co_return outcome{};
}

asio::awaitable<void> director::begin_sale() {
  flash_sale::settings const s = sale_settings(name_);
  co_await flash_sale::clear(s, values_);
  co_await flash_sale::stock_up(s, values_);
  for (std::size_t i = 1; i <= crew_->size(); ++i) {
    boost::json::object const order{{"do", "sell"},
                                    {"items", s.items},
                                    {"segments", s.segments},
                                    {"buyers", s.buyers},
                                    {"first", static_cast<int>(i) * s.buyers},
                                    {"order_ms", s.order.count()}};
    crew_->tell(i, boost::json::serialize(order));
  }
}

asio::awaitable<void> director::end_sale() {
  flash_sale::settings const s = sale_settings(name_);
  std::optional<std::int64_t> left;
  try {
    flash_sale::stock_report const r = co_await flash_sale::count(s, values_);
    co_await flash_sale::clear(s, values_);
    left = r.left;
  } catch (std::exception const&) {
  }
  scene_.sale_ends(left);
  ending_sale_ = false;
  changed_ = true;
}

http_counter::page::outcome director::round(bool goes) {
  scene_.round(goes);
  stop_next_holder_ = stop_next_holder_ && goes;
  tell_all({{"do", "round"}, {"go", goes}});
  if (goes) {
    restart(round_end_, round_limit, [this] { round(false); });
  }
  return {};
}

http_counter::page::outcome director::stop_holder() {
  if (scene_.stopped_worker() != 0) {
    return {http::status::conflict, "a worker is already frozen"};
  }
  if (crew_->here() < 2) {
    return {http::status::conflict, "this needs at least two workers"};
  }
  if (scene_.counts(true)) {
    return {http::status::conflict, "a count with the lock is running: wait for its end"};
  }
  round(true);
  stop_next_holder_ = true;  // a worker that has just got the lock holds it for another half second
  return {};
}

void director::stop_worker(std::size_t worker) {
  crew_->signal(worker, SIGSTOP);
  scene_.stopped(worker, steady::now());
  restart(stop_end_, stopped_at_most, [this] { continue_worker(); });
}

void director::continue_worker() {
  crew_->signal(scene_.stopped_worker(), SIGCONT);
  scene_.continued(steady::now());
}

/// Replaces the timer's previous action.
void director::restart(asio::steady_timer& timer, std::chrono::milliseconds time, std::function<void()> then) {
  timer.expires_after(time);
  timer.async_wait([this, then = std::move(then)](boost::system::error_code error) {
    if (error || stopping_) return;
    changed_ = true;
    then();
  });
}

}  // namespace live_page
