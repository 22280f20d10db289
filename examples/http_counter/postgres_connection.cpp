#include "postgres_connection.hpp"

#include "as_tuple.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "value_store.hpp"

namespace http_counter {

namespace asio = boost::asio;

namespace {

struct clears_result {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result = std::unique_ptr<PGresult, clears_result>;

[[noreturn]] void fail(std::string_view doing, std::string_view why) {
  std::string text = "PostgreSQL: " + std::string(doing) + ": " + std::string(why);
  while (text.back() == '\n') {
    text.pop_back();
  }
  throw store_error(text);
}

}  // namespace

postgres_connection::postgres_connection(asio::io_context& ctx, std::string url)
    : url_(std::move(url)),
      strand_(asio::make_strand(ctx)),
      timer_(strand_),
      socket_(strand_) {}

bool postgres_connection::is_open() {
  char byte = 0;
  auto const got = ::recv(watched_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return connection_ != nullptr && got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

asio::awaitable<postgres_connection::answer> postgres_connection::exchange(std::shared_ptr<postgres_connection> self,
                                                                           statement what,
                                                                           std::chrono::milliseconds limit) {
  auto const executor = self->strand_;
  auto running = run(std::move(self), std::move(what), limit);
  answer got = co_await asio::co_spawn(executor, std::move(running), asio::use_awaitable);
  co_return got;
}

asio::awaitable<postgres_connection::answer> postgres_connection::run(std::shared_ptr<postgres_connection> self,
                                                                      statement what, std::chrono::milliseconds limit) {
  self->timer_.expires_after(limit);
  auto too_late = [self](boost::system::error_code error) {
    if (!error) {
      self->socket_.close(error);  // cancels the wait
    }
  };
  self->timer_.async_wait(std::move(too_late));
  if (self->connection_ == nullptr) {
    co_await self->connect();
  }
  answer got = co_await self->ask(std::move(what));
  self->timer_.cancel();
  co_return got;
}

asio::awaitable<void> postgres_connection::connect() {
  connection_.reset(PQconnectStart(url_.c_str()));
  if (connection_ == nullptr || PQstatus(connection_.get()) == CONNECTION_BAD) {
    fail("connect", connection_ == nullptr ? "no memory" : PQerrorMessage(connection_.get()));
  }
  auto next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED) {
      fail("connect", PQerrorMessage(connection_.get()));
    }
    watch_socket();
    co_await wait(next == PGRES_POLLING_READING ? descriptor::wait_read : descriptor::wait_write);
    next = PQconnectPoll(connection_.get());
  }
  watch_socket();
  PQsetnonblocking(connection_.get(), 1);
}

/// While connecting, libpq may switch to the socket of another address.
void postgres_connection::watch_socket() {
  int const present = PQsocket(connection_.get());
  if (present == watched_ && socket_.is_open()) {
    return;
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
  int const copy = ::dup(present);
  if (copy < 0) {
    fail("connect", "no file descriptor is left");
  }
  socket_.assign(copy);
  watched_ = present;
}

asio::awaitable<void> postgres_connection::wait(descriptor::wait_type until) {
  auto waited = co_await socket_.async_wait(until, as_tuple);
  if (std::get<0>(waited) || !socket_.is_open()) {
    fail("wait", "no answer in time");
  }
}

asio::awaitable<postgres_connection::answer> postgres_connection::ask(statement what) {
  PGconn* const c = connection_.get();
  std::vector<char const*> values;
  for (std::string const& one : what.parameters) {
    values.push_back(one.c_str());
  }
  auto const count = static_cast<int>(values.size());
  if (PQsendQueryParams(c, what.text, count, nullptr, values.data(), nullptr, nullptr, 0) == 0) {
    fail("send", PQerrorMessage(c));
  }
  for (int more = PQflush(c); more != 0; more = PQflush(c)) {
    if (more < 0) {
      fail("send", PQerrorMessage(c));
    }
    co_await wait(descriptor::wait_write);
  }
  answer got;
  std::string refused;
  while (true) {
    while (PQisBusy(c) != 0) {
      co_await wait(descriptor::wait_read);
      if (PQconsumeInput(c) == 0) {
        fail("read", PQerrorMessage(c));
      }
    }
    result const part(PQgetResult(c));
    if (part == nullptr) {
      break;
    }
    auto const status = PQresultStatus(part.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      refused = PQresultErrorMessage(part.get());
      continue;
    }
    got.rows = PQcmdTuples(part.get());
    if (PQntuples(part.get()) != 0 && PQgetisnull(part.get(), 0, 0) == 0) {
      got.first = PQgetvalue(part.get(), 0, 0);
    }
  }
  if (!refused.empty()) {
    fail("refused", refused);
  }
  co_return got;
}

}  // namespace http_counter
