// A program behind the address of a PostgreSQL server that speaks its protocol, and says what no server does.

#include "integration/fixture.hpp"
#include "support/free_port.hpp"
#include "support/redis_server.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>

namespace conch::test {
namespace {

/// A message of the protocol: a letter, and how long the rest is.
std::string number(std::uint32_t n, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(n >> (8 * i) & 0xff);
  return text;
}

std::string message(char kind, std::string const& content) {
  return kind + number(static_cast<std::uint32_t>(content.size() + 4)) + content;
}

std::string columns(std::size_t count) {
  std::string all = number(static_cast<std::uint32_t>(count), 2);
  for (std::size_t i = 0; i < count; ++i)
    all += std::string("x\0", 2) + number(0) + number(0, 2) + number(25) + number(0xffff, 2) + number(0xffffffff) +
           number(0, 2);
  return message('T', all);
}

std::string row(std::vector<std::string> const& values) {
  std::string all = number(static_cast<std::uint32_t>(values.size()), 2);
  for (std::string const& one : values) all += number(static_cast<std::uint32_t>(one.size())) + one;
  return message('D', all);
}

std::string end_of_result() { return message('C', std::string("SELECT 1\0", 9)); }
std::string ready() { return message('Z', "I"); }
std::string result(std::vector<std::string> const& values) {
  return columns(values.size()) + row(values) + end_of_result();
}

/// A setting that libpq keeps for good.
std::string setting(std::string const& name, std::string const& value) {
  return message('S', name + '\0' + value + '\0');
}

/// Answers the two questions of a new connection as a server would, and each statement with what it is told to say.
class hostile_postgresql {
 public:
  /// What is sent again and again until the client ends the connection: instead of the answer to the first question, to
  /// the second, or to a statement.
  enum class endless { nothing, login, settings, greeting, statement };

  explicit hostile_postgresql(std::string answer, endless where = endless::nothing, std::string again = {})
      : answer_{std::move(answer)},
        again_{std::move(again)},
        endless_{where},
        port_{find_free_port()} {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int const on = 1;
    ::setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listening_, 8) != 0) {
      throw std::system_error{errno, std::generic_category(), "listen"};
    }
    accepting_ = std::thread{[this] { accept(); }};
  }
  ~hostile_postgresql() {
    ::shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    {
      std::lock_guard const lock{mutex_};
      for (int const one : sockets_) ::shutdown(one, SHUT_RDWR);
    }
    for (std::thread& one : talking_) one.join();
    for (int const one : sockets_) ::close(one);
    ::close(listening_);
  }
  hostile_postgresql(hostile_postgresql const&) = delete;
  hostile_postgresql& operator=(hostile_postgresql const&) = delete;

  std::string url() const { return "postgresql://u@127.0.0.1:" + std::to_string(port_) + "/d?sslmode=disable"; }
  /// The most that a client has taken on one connection.
  std::size_t most_taken() const { return most_taken_; }
  int statements() const { return statements_; }

 private:
  void accept() {
    for (int s = ::accept(listening_, nullptr, nullptr); s >= 0; s = ::accept(listening_, nullptr, nullptr)) {
      std::lock_guard const lock{mutex_};
      sockets_.push_back(s);
      talking_.emplace_back([this, s] { talk(s); });
    }
  }

  static bool read(int s, std::size_t size, std::string& into) {
    into.resize(size);
    for (std::size_t at = 0; at < size;) {
      auto const got = ::recv(s, into.data() + at, size - at, 0);
      if (got <= 0) return false;
      at += static_cast<std::size_t>(got);
    }
    return true;
  }

  static std::size_t number_in(std::string const& text) {
    std::size_t n = 0;
    for (char const c : text) n = n * 256 + static_cast<unsigned char>(c);
    return n;
  }

  bool say(int s, std::string const& words) {
    for (std::size_t at = 0; at < words.size();) {
      auto const sent = ::send(s, words.data() + at, words.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }

  void flood(int s) {
    if (!say(s, endless_ == endless::login ? message('R', number(0)) : columns(1))) return;
    std::string many;
    while (many.size() < 16'384) many += again_;
    for (std::size_t taken = 0; say(s, many);) {
      taken += many.size();
      if (taken > most_taken_) most_taken_ = taken;
      std::this_thread::sleep_for(1ms);  // as a network would: libpq reads whatever is there
    }
  }

  void talk(int s) {
    std::string text;
    if (!read(s, 4, text) || !read(s, number_in(text) - 4, text)) return;
    if (endless_ == endless::login) return flood(s);
    if (!say(s, message('R', number(0)) + setting("server_version", "15.0") + setting("client_encoding", "UTF8") +
                    message('K', number(77) + number(1)) + ready())) {
      return;
    }
    std::string name;  // of the statement
    for (int questions = 0; read(s, 1, text);) {
      char const kind = text[0];
      if (!read(s, 4, text) || !read(s, number_in(text) - 4, text)) return;
      if (kind == 'Q') {
        bool const first = questions++ == 0;
        if (endless_ == (first ? endless::settings : endless::greeting)) return flood(s);
        if (!say(s,
                 (first ? result({"77", "f", "t", "", ""}) : result({"1000000", "1800000000000000", "1.1", "12345"})) +
                     ready()))
          return;
      } else if (kind == 'B') {
        name = text.c_str() + 1;  // behind the name of the portal, which is empty
      } else if (kind == 'S') {
        if (!say(s, message('2', ""))) return;
        bool const of_connection = name == "conch_hear" || name == "conch_proves";
        if (of_connection && say(s, result({"{1}"}) + ready())) continue;
        ++statements_;
        if (endless_ == endless::statement) return flood(s);
        if (!say(s, answer_ + ready())) return;
      }
    }
  }

  std::string const answer_, again_;
  endless const endless_;
  std::uint16_t const port_;
  int listening_ = -1;
  std::thread accepting_;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> talking_;
  std::atomic<std::size_t> most_taken_{0};
  std::atomic<int> statements_{0};
};

class PostgresqlHostile : public testing::Test {
 protected:
  error_code error_at(std::string const& url) {
    error_code seen;
    auto const body = [&]() -> asio::awaitable<void> {
      config c;
      c.url = url;
      c.offline_timeout = 1500ms;
      c.reconnect_min = 5ms;
      c.reconnect_max = 50ms;
      client here{w.ctx.get_executor(), c};
      mutex m{here, "hostile"};
      auto r = co_await m.async_acquire({.wait = 20s}, as_tuple);
      auto& [ec, h] = r;
      EXPECT_FALSE(h.valid());
      seen = ec;
    };
    w.run(body, 60s);
    return seen;
  }

  world w;
};

/// Sizes are bounded whatever is sent: rows, one row that does not end, notices, settings.
TEST_F(PostgresqlHostile, AnAnswerThatDoesNotEndIsCutOff) {
  using endless = hostile_postgresql::endless;
  std::string const rows = row({"{1}"});
  std::string const one_row = 'D' + number(0x3fffffff) + number(1, 2) + number(0x3ffffff0) + std::string(10'000, '1');
  std::string const all[] = {rows, one_row};
  for (endless const where : {endless::settings, endless::greeting, endless::statement}) {
    for (std::string const& again : all) {
      hostile_postgresql server{"", where, again};
      error_code const ec = error_at(server.url());
      EXPECT_EQ(ec, errc::unreachable) << ec.message();
      EXPECT_GT(server.most_taken(), 0u);
      EXPECT_LT(server.most_taken(), std::size_t{24} << 20) << "with what the kernel keeps between them";
    }
  }
}

/// libpq keeps all settings that a server reports, and goes through them for each: what is between two notifications
/// counts, too.
TEST_F(PostgresqlHostile, SettingsThatDoNotEndAreCutOff) {
  using endless = hostile_postgresql::endless;
  std::string settings;
  for (int n = 0; n < 1000; ++n) settings += setting("s" + std::to_string(n), "");
  std::string const notification = message('A', number(1) + std::string("c\0x\0", 4));
  for (endless const where : {endless::login, endless::statement}) {
    hostile_postgresql server{"", where, settings + (where == endless::login ? "" : notification)};
    error_code const ec = error_at(server.url());
    EXPECT_EQ(ec, errc::unreachable) << ec.message();
    bool const is_cut = ec.message().find("sends more than the greeting") != std::string::npos ||
                        ec.message().find("an answer is longer than any") != std::string::npos;
    EXPECT_TRUE(is_cut) << ec.message();
  }
}

/// With these times and tokens one cannot reckon.
TEST_F(PostgresqlHostile, NumbersThatNoFunctionAnswersGrantNothing) {
  for (std::string const answer :
       {"{1,9223372036854775807,1800000000000000}", "{1,100,9223372036854775807}", "{1,100,-9223372036854775808}",
        "{0,9223372036854775807,1800000000000000,1}", "{0,1000,1800000000000000,-9223372036854775808}",
        "{2,9223372036854775807,9223372036854775807}", "{9223372036854775807}", "{-9223372036854775808}", "{1,2"}) {
    hostile_postgresql server{result({answer})};
    error_code const ec = error_at(server.url());
    EXPECT_TRUE(ec == errc::unreachable || ec == errc::protocol) << answer << ": " << ec.message();
    EXPECT_GT(server.statements(), 0);
  }
}

TEST_F(PostgresqlHostile, RowsOfOtherShapesGrantNothing) {
  std::vector<std::string> const many(1600, "{1,100,1800000000000000}");
  for (std::string const& answer : {result(many), result({}), columns(1) + end_of_result(),
                                    message('C', std::string("SELECT 1\0", 9)), message('I', "")}) {
    hostile_postgresql server{answer};
    error_code const ec = error_at(server.url());
    EXPECT_TRUE(ec == errc::unreachable || ec == errc::protocol) << ec.message();
  }
}

}  // namespace
}  // namespace conch::test
