#include "integration/offers.hpp"

#include "integration/places.hpp"

#include <conch/blocking.hpp>
#include <conch/conch.hpp>
#include <conch/election.hpp>
#include <conch/reentrant_shared_mutex.hpp>
#include <conch/striped_mutex.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

namespace conch::test {

namespace {

using result = asio::awaitable<error_code>;

/// A use of one client: its error, also where it throws it.
template <class Use>
auto with_client(Use use) {
  return [use](asio::any_io_executor on, config const& settings, std::string const& lock) -> result {
    error_code failed;
    try {
      client c{on, settings};
      failed = co_await use(c, lock);
    } catch (boost::system::system_error const& e) {
      failed = e.code();
    }
    co_return failed;
  };
}

/// Takes it and gives it back.
result take(mutex m) {
  auto const got = co_await m.async_acquire(as_tuple);
  co_return std::get<0>(got);
}

feature lock_of_one_call(std::string name, std::function<result(client&, std::string const&)> use,
                         std::vector<std::string> named_as = {}) {
  return {std::move(name), with_client(std::move(use)), std::move(named_as)};
}

result use_shared_mutex(client& c, std::string lock) {
  shared_mutex m{c, lock};
  auto const reader = co_await m.async_acquire_shared(as_tuple);
  if (std::get<0>(reader)) co_return std::get<0>(reader);
  auto const other = co_await m.async_acquire_shared(as_tuple);
  co_return std::get<0>(other);
}

result use_semaphore(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const two = co_await s.async_acquire(2, as_tuple);
  if (std::get<0>(two)) co_return std::get<0>(two);
  auto const one = co_await s.async_acquire(as_tuple);
  co_return std::get<0>(one);
}

result use_striped_mutex(client& c, std::string lock) {
  striped_mutex m{c, lock, 2};
  auto const one = co_await m.async_acquire_any(as_tuple);
  if (std::get<0>(one)) co_return std::get<0>(one);
  auto const other = co_await m.async_acquire_any(as_tuple);
  co_return std::get<0>(other);
}

result use_reentrant_mutex(client& c, std::string lock) {
  reentrant_mutex m{c, lock};
  owner const me;
  auto const outer = co_await m.async_acquire(me, as_tuple);
  if (std::get<0>(outer)) co_return std::get<0>(outer);
  auto const inner = co_await m.async_acquire(me, as_tuple);
  co_return std::get<0>(inner);
}

result use_reentrant_shared_mutex(client& c, std::string lock) {
  reentrant_shared_mutex m{c, lock};
  owner const me;
  auto const outer = co_await m.async_acquire(me, as_tuple);
  if (std::get<0>(outer)) co_return std::get<0>(outer);
  auto const inner = co_await m.async_acquire_shared(me, as_tuple);
  co_return std::get<0>(inner);
}

result use_multi_lock(client& c, std::string lock) {
  multi_lock both{{mutex{c, lock + " b"}, mutex{c, lock + " a"}}};
  auto const got = co_await both.async_acquire(as_tuple);
  co_return std::get<0>(got);
}

result use_with_lock(client& c, std::string lock) {
  mutex m{c, lock};
  auto body = [](hold&) -> asio::awaitable<void> { co_return; };
  co_await with_lock(m, body);
  co_return error_code{};
}

result use_extend(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await h.async_extend(20s, as_tuple);
  co_return std::get<0>(told);
}

result use_interval(client& c, std::string lock) {
  mutex m{c, lock};
  auto const got = co_await m.async_acquire({.at_least = 100ms}, as_tuple);
  co_return std::get<0>(got);
}

result use_detach(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await h.async_detach(as_tuple);
  co_return std::get<0>(told);
}

/// A text that the server has given; where it gives none, that of another one.
result use_adopt(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto told = co_await h.async_detach(as_tuple);
  if (std::get<0>(told)) {
    auto const released = co_await h.async_release(as_tuple);
    EXPECT_FALSE(std::get<0>(released));
    client elsewhere{c.get_executor(), "memory://detached"};
    mutex there{elsewhere, lock};
    hold other = co_await there.async_acquire();
    told = co_await other.async_detach(as_tuple);
  }
  auto const adopted = co_await m.async_adopt(std::get<1>(told), as_tuple);
  co_return std::get<0>(adopted);
}

result use_requested(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  error_code heard = asio::error::would_block;
  h.async_requested([&](error_code ec) { heard = ec; });
  client other{c.get_executor(), c.settings()};
  mutex of_other{other, lock};
  auto const asked = co_await of_other.async_request_release(as_tuple);
  auto const told = [&] { return heard != asio::error::would_block; };
  co_await until(told, "what async_requested says");
  if (!std::get<0>(asked)) {
    EXPECT_EQ(std::get<1>(asked), 1u);
  }
  co_return heard;
}

result use_inspect(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await m.async_inspect(as_tuple);
  if (!std::get<0>(told)) {
    EXPECT_EQ(std::get<1>(told).held, 1u);
  }
  co_return std::get<0>(told);
}

result use_why(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await m.async_why(as_tuple);
  if (!std::get<0>(told)) {
    EXPECT_EQ(std::get<1>(told).links.size(), 1u);
  }
  co_return std::get<0>(told);
}

result use_election(client& c, std::string lock) {
  election e{c, lock};
  auto const led = co_await e.async_campaign(as_tuple);
  co_return std::get<0>(led);
}

result use_leader(client& c, std::string lock) {
  election const e{c, lock};
  auto const now = co_await e.async_leader(as_tuple);
  co_return std::get<0>(now);
}

result use_observe(client& c, std::string lock) {
  election e{c, lock};
  leadership mine = co_await e.async_campaign();
  auto const now = co_await e.async_observe(0, as_tuple);
  if (!std::get<0>(now)) {
    EXPECT_EQ(std::get<1>(now).term, mine.term());
  }
  co_return std::get<0>(now);
}

result use_force_release(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await m.async_force_release(as_tuple);
  if (!std::get<0>(told)) {
    EXPECT_EQ(std::get<1>(told), 1u);
  }
  co_return std::get<0>(told);
}

result use_request_release(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  auto const told = co_await m.async_request_release(as_tuple);
  if (!std::get<0>(told)) {
    EXPECT_EQ(std::get<1>(told), 1u);
  }
  co_return std::get<0>(told);
}

result use_wait_free(client& c, std::string lock) {
  mutex m{c, lock};
  auto const told = co_await m.async_wait_free(20s, as_tuple);
  co_return std::get<0>(told);
}

result use_drain(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const told = co_await s.async_drain(as_tuple);
  if (!std::get<0>(told)) {
    EXPECT_EQ(std::get<1>(told).permits(), 3u);
  }
  co_return std::get<0>(told);
}

result use_release_of_a_part(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const all = co_await s.async_acquire(3, as_tuple);
  if (std::get<0>(all)) co_return std::get<0>(all);
  auto const told = co_await s.async_release(std::get<1>(all), 2, as_tuple);
  co_return std::get<0>(told);
}

result use_set_permits(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const told = co_await s.async_set_permits(5, as_tuple);
  co_return std::get<0>(told);
}

result use_set_permits_if_unset(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const told = co_await s.async_set_permits_if_unset(5, as_tuple);
  co_return std::get<0>(told);
}

result use_add_permits(client& c, std::string lock) {
  semaphore s{c, lock, 3};
  auto const told = co_await s.async_add_permits(2, as_tuple);
  co_return std::get<0>(told);
}

result use_downgrade(client& c, std::string lock) {
  shared_mutex m{c, lock};
  auto const writer = co_await m.async_acquire(as_tuple);
  if (std::get<0>(writer)) co_return std::get<0>(writer);
  auto const told = co_await m.async_downgrade(std::get<1>(writer), as_tuple);
  co_return std::get<0>(told);
}

result use_guard(client& c, std::string lock) {
  mutex m{c, lock};
  hold h = co_await m.async_acquire();
  EXPECT_TRUE(static_cast<bool>(h.guard()));
  co_return error_code{};
}

/// On a thread: what it calls blocks.
template <class Lock, class Call>
result use_blocking(config const& settings, std::string const& lock, Call call) {
  error_code failed;
  try {
    blocking::client c{settings};
    Lock m{c, lock};
    call(m);
  } catch (boost::system::system_error const& e) {
    failed = e.code();
  }
  co_return failed;
}

result use_blocking_mutex(asio::any_io_executor, config const& settings, std::string const& lock) {
  auto const call = [](blocking::mutex& m) {
    m.lock();
    m.unlock();
  };
  return use_blocking<blocking::mutex>(settings, lock, call);
}

result use_blocking_shared_mutex(asio::any_io_executor, config const& settings, std::string const& lock) {
  auto const call = [](blocking::shared_mutex& m) {
    m.lock_shared();
    m.unlock_shared();
  };
  return use_blocking<blocking::shared_mutex>(settings, lock, call);
}

/// Servers of tests have no replicas: the grant is then one that too few have.
result use_sync_replicas(asio::any_io_executor on, config settings, std::string lock) {
  settings.sync_replicas = 1;
  settings.sync_timeout = 50ms;
  error_code failed;
  try {
    client c{on, settings};
    mutex m{c, lock};
    auto const got = co_await m.async_try_acquire(as_tuple);
    failed = std::get<0>(got);
  } catch (boost::system::system_error const& e) {
    failed = e.code();
  }
  co_return failed == errc::not_replicated ? error_code{} : failed;
}

result use_credentials_provider(asio::any_io_executor on, config settings, std::string lock) {
  settings.credentials_provider = [](std::string const&, credentials_handler done) { done({}, {}); };
  error_code failed;
  try {
    client c{on, settings};
    mutex m{c, lock};
    failed = co_await take(m);
  } catch (boost::system::system_error const& e) {
    failed = e.code();
  }
  co_return failed;
}

std::filesystem::path page(std::string const& name) { return std::filesystem::path{guide_file}.parent_path() / name; }

std::string text_of(std::string const& name) {
  std::ifstream file{page(name)};
  std::stringstream all;
  all << file.rdbuf();
  if (all.str().empty()) throw std::runtime_error{"docs/" + name + " cannot be read"};
  return all.str();
}

std::vector<std::string> cells(std::string const& line) {
  std::vector<std::string> all;
  std::stringstream row{line};
  std::string cell;
  std::getline(row, cell, '|');  // before the first
  while (std::getline(row, cell, '|')) {
    std::erase(cell, '`');
    auto const first = cell.find_first_not_of(' ');
    all.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return all;
}

/// A cell may list several names.
std::vector<std::string> names_in(std::string const& cell) {
  std::vector<std::string> all;
  for (std::size_t from = 0; from <= cell.size();) {
    auto const to = std::min(cell.find(", ", from), cell.size());
    all.push_back(cell.substr(from, to - from));
    from = to + 2;
  }
  return all;
}

}  // namespace

std::vector<feature> const& all_features() {
  std::vector<std::string> const of_semaphore{"semaphore"};
  std::vector<std::string> const of_inspect{"async_inspect"};
  static std::vector<feature> const all{
      lock_of_one_call("mutex",
                       [](client& c, std::string const& lock) {
                         return take(mutex{c, lock});
                       }),
      lock_of_one_call("multi_lock", use_multi_lock),
      lock_of_one_call("election", use_election),
      lock_of_one_call("shared_mutex", use_shared_mutex),
      lock_of_one_call("semaphore", use_semaphore),
      lock_of_one_call("striped_mutex", use_striped_mutex),
      lock_of_one_call("reentrant_mutex", use_reentrant_mutex),
      lock_of_one_call("reentrant_shared_mutex", use_reentrant_shared_mutex),
      {"blocking::mutex", use_blocking_mutex},
      {"blocking::shared_mutex", use_blocking_shared_mutex},
      lock_of_one_call("with_lock", use_with_lock),
      lock_of_one_call("hold::async_extend", use_extend),
      lock_of_one_call("acquire_options::at_least", use_interval),
      lock_of_one_call("hold::async_detach", use_detach),
      lock_of_one_call("async_adopt", use_adopt),
      lock_of_one_call("hold::async_requested", use_requested),
      lock_of_one_call("async_inspect", use_inspect),
      lock_of_one_call("async_why", use_why),
      lock_of_one_call("async_force_release", use_force_release),
      lock_of_one_call("async_request_release", use_request_release),
      lock_of_one_call("election::async_leader", use_leader, of_inspect),
      lock_of_one_call("election::async_observe", use_observe, of_inspect),
      lock_of_one_call("async_wait_free", use_wait_free),
      lock_of_one_call("semaphore::async_drain", use_drain),
      lock_of_one_call("semaphore::async_release of a part", use_release_of_a_part, of_semaphore),
      lock_of_one_call("semaphore::async_set_permits", use_set_permits),
      lock_of_one_call("semaphore::async_set_permits_if_unset", use_set_permits_if_unset),
      lock_of_one_call("semaphore::async_add_permits", use_add_permits),
      lock_of_one_call("shared_mutex::async_downgrade", use_downgrade, {"shared_mutex"}),
      lock_of_one_call("hold::guard()", use_guard),
      {"config::sync_replicas", use_sync_replicas},
      {"config::credentials_provider", use_credentials_provider},
  };
  return all;
}

std::vector<std::pair<std::string, bool>> offered_by_the_page(std::string const& kind_of_server) {
  std::vector<std::pair<std::string, bool>> all;
  std::stringstream text{text_of("deployments.md")};
  std::string line;
  std::ptrdiff_t column = -1;
  while (std::getline(text, line)) {
    std::vector<std::string> const row = line.starts_with('|') ? cells(line) : std::vector<std::string>{};
    if (row.empty()) {
      column = -1;
    } else if (row[0] == "feature") {
      auto const found = std::find_if(row.begin(), row.end(), [&](std::string const& cell) {
        auto const names = names_in(cell);
        return std::find(names.begin(), names.end(), kind_of_server) != names.end();
      });
      if (found == row.end()) throw std::runtime_error{"docs/deployments.md has no column " + kind_of_server};
      column = found - row.begin();
    } else if (column >= 0 && !row[0].starts_with("---")) {
      std::string const& says = row.at(static_cast<std::size_t>(column));
      if (says != "yes" && says != "no")
        throw std::runtime_error{"docs/deployments.md says '" + says + "' of " + row[0]};
      for (std::string const& name : names_in(row[0])) all.emplace_back(name, says == "yes");
    }
  }
  return all;
}

std::vector<std::string> not_there_by(std::string const& page_name) {
  std::string const text = text_of(page_name);
  std::string const begins = "Not supported (`errc::not_supported`):";
  auto const at = text.find(begins);
  if (at == std::string::npos) throw std::runtime_error{"docs/" + page_name + " has no list of missing features"};
  std::string const line = text.substr(at + begins.size(), text.find('\n', at) - at - begins.size());
  std::vector<std::string> all;
  for (std::size_t from = line.find('`'); from != std::string::npos;) {
    auto const to = line.find('`', from + 1);
    all.push_back(line.substr(from + 1, to - from - 1));
    from = line.find('`', to + 1);
  }
  return all;
}

void expect_as_the_page_says(world& w, std::string const& kind_of_server, config const& settings) {
  auto const says = offered_by_the_page(kind_of_server);
  auto const& features = all_features();
  ASSERT_EQ(says.size(), features.size()) << "the table and this test have different rows";
  auto const body = [&]() -> asio::awaitable<void> {
    for (std::size_t i = 0; i < features.size(); ++i) {
      feature const& f = features[i];
      auto const& [name, is_offered] = says[i];
      EXPECT_EQ(name, f.name);
      std::string const lock = "offers " + f.name;
      error_code const ec = co_await f.use(w.ctx.get_executor(), settings, lock);
      if (is_offered) {
        EXPECT_FALSE(ec) << f.name << ": " << ec.message();
        continue;
      }
      EXPECT_EQ(ec, errc::not_supported) << f.name << ": " << ec.message();
      std::vector<std::string> names = f.named_as;
      auto const colons = f.name.rfind("::");
      names.push_back(colons == std::string::npos ? f.name : f.name.substr(colons + 2));
      bool const is_named = std::any_of(names.begin(), names.end(),
                                        [&](auto const& one) { return ec.message().find(one) != std::string::npos; });
      EXPECT_TRUE(is_named) << f.name << " is not named: " << ec.message();
    }
  };
  w.run(body, 120s);
}

}  // namespace conch::test
