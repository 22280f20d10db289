#include "postgres_values.hpp"

#include <memory>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;

namespace {

// The advisory lock prevents a race: two sessions that create the table at once would both find it missing, and one
// would fail.
constexpr char make_table[] = R"(do $$ begin
  perform pg_advisory_xact_lock(hashtext('http_counter'));
  create table if not exists http_counter (key text primary key, value text not null, fence bigint not null default 0);
end $$)";

constexpr char read_value[] = "select value from http_counter where key = $1";

constexpr char write_value[] = R"(insert into http_counter (key, value) values ($1, $2)
  on conflict (key) do update set value = excluded.value)";

// The guarded resource: a writer with a smaller token than the last writer's changes nothing.
constexpr char upsert_guarded[] = R"(insert into http_counter as present (key, value, fence) values ($1, $2, $3)
  on conflict (key) do update set value = excluded.value, fence = excluded.fence where present.fence <= excluded.fence)";

// Keeps the row, because it has the greatest token.
constexpr char remove_value[] = "update http_counter set value = '0' where key = $1";

}  // namespace

postgres_values::postgres_values(asio::io_context& ctx, std::string url, std::chrono::milliseconds limit)
    : ctx_(ctx),
      url_(std::move(url)),
      limit_(limit) {}

asio::awaitable<std::optional<std::string>> postgres_values::get(std::string key) {
  postgres_connection::statement what{read_value, {std::move(key)}};
  auto got = co_await run(std::move(what));
  co_return std::move(got.first);
}

asio::awaitable<void> postgres_values::set(std::string key, std::string value) {
  postgres_connection::statement what{write_value, {std::move(key), std::move(value)}};
  co_await run(std::move(what));
}

asio::awaitable<bool> postgres_values::set_guarded(std::string key, std::string value, std::int64_t fence) {
  postgres_connection::statement what{upsert_guarded, {std::move(key), std::move(value), std::to_string(fence)}};
  auto const got = co_await run(std::move(what));
  co_return got.rows != "0";
}

asio::awaitable<void> postgres_values::remove(std::string key) {
  postgres_connection::statement what{remove_value, {std::move(key)}};
  co_await run(std::move(what));
}

asio::awaitable<void> postgres_values::ping() {
  postgres_connection::statement what{"select 1", {}};
  co_await run(std::move(what));
}

asio::awaitable<postgres_connection::answer> postgres_values::run(postgres_connection::statement what) {
  if (!has_table_) {
    postgres_connection::statement first{make_table, {}};
    co_await run_once(std::move(first));
    has_table_ = true;
  }
  auto got = co_await run_once(std::move(what));
  co_return got;
}

asio::awaitable<postgres_connection::answer> postgres_values::run_once(postgres_connection::statement what) {
  auto connection = idle_.take();
  if (connection == nullptr) {
    connection = std::make_shared<postgres_connection>(ctx_, url_);
  }
  auto exchange = postgres_connection::exchange(connection, std::move(what), limit_);
  auto got = co_await std::move(exchange);
  idle_.give_back(connection);
  co_return got;
}

}  // namespace http_counter
