// The command where replicas must have the lock.

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "cli/command.hpp"
#include "integration/replicas_fixture.hpp"

namespace conch::test {
namespace {

class WithReplicas : public Command {
 protected:
  /// The words, and where the master is.
  std::vector<std::string> at_master(std::vector<std::string> words) const {
    words.insert(words.begin() + 1, {"--url", servers_.url()});
    return words;
  }

  replicated_server servers_{1};
  redis_probe master_{servers_.master(), 10s}, replica_{servers_.replica(0), 10s};
};

TEST_F(WithReplicas, RunStartsTheCommandWhenTheyHaveTheLock) {
  program p = run({"a", "--url", servers_.url(), "--sync-replicas", "1"}, "echo held; sleep 600");
  p.wait_for("held");
  EXPECT_EQ(replica_.integer({"EXISTS", lock_key("a")}), 1);
  EXPECT_GT(replica_.integer({"PTTL", lock_key("a")}), 10000) << "the lease, and not a claim of three seconds";
}

// A script can tell it from a lock that is not free.
TEST_F(WithReplicas, RunHasACodeOfItsOwnWhereTooFewHaveIt) {
  std::vector<std::string> const one_attempt =
      at_master({"run", "a", "--sync-replicas", "2", "--sync-timeout", "100ms", "--no-wait", "--", "true"});
  EXPECT_EQ(result_of(one_attempt), 80) << output_;
  EXPECT_NE(output_.find("conch: a: too few replicas have the lock: "), std::string::npos) << output_;
  EXPECT_NE(output_.find(" of 2 replicas"), std::string::npos) << output_;
  wait_until([&] { return master_.integer({"EXISTS", lock_key("a")}) == 0; }, "it is not given back");

  std::vector<std::string> const waits = at_master({"run", "a", "--sync-replicas", "2", "--sync-timeout", "100ms",
                                                    "--wait", "5s", "-E", "7", "--json", "--", "true"});
  EXPECT_EQ(result_of(waits), 80) << output_;
  EXPECT_NE(output_.find(R"("exit_code":80})"), std::string::npos) << output_;

  program holder = run({"a", "--url", servers_.url()}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of(one_attempt), 75) << output_;
}

TEST_F(WithReplicas, TheNumberMayStandInTheFile) {
  std::ofstream{file("conch.toml")} << "sync-replicas = 2\nsync-timeout = '100ms'\n";
  std::filesystem::permissions(file("conch.toml"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(result_of(at_master({"run", "a", "-n", "--config", file("conch.toml"), "--", "true"})), 80) << output_;
  EXPECT_EQ(result_of(at_master({"run", "a", "--config", file("conch.toml"), "--sync-replicas", "1", "--sync-timeout",
                                 "1s", "--", "true"})),
            0)
      << output_;
}

TEST_F(WithReplicas, ThereAreNoneOfSeveralServers) {
  EXPECT_EQ(result_of({"run", "a", "--url", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--sync-replicas", "1",
                       "--", "true"}),
            64)
      << output_;
  EXPECT_NE(output_.find("several servers decide"), std::string::npos) << output_;
}

TEST_F(WithReplicas, BenchMeasuresWhatTheyCost) {
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "1"})), 0) << output_;
  EXPECT_NE(output_.find("(minimum 3 and the acknowledgement of 1 replica)"), std::string::npos) << output_;
  EXPECT_NE(output_.find("(minimum 2 and the acknowledgement of 1 replica)"), std::string::npos) << output_;
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "1", "--json"})), 0) << output_;
  EXPECT_NE(output_.find(R"("sync_replicas":1)"), std::string::npos) << output_;
  EXPECT_EQ(result_of(at_master({"bench", "--time", "50ms", "--sync-replicas", "2", "--sync-timeout", "100ms"})), 80)
      << output_;
}

TEST_F(WithReplicas, DoctorComparesTheirClocksWithTheMasters) {
  // Their clock is that of this machine.
  EXPECT_EQ(result_of(at_master({"doctor"})), 1) << output_;
  EXPECT_NE(output_.find("replica clocks: up to "), std::string::npos) << output_;
  EXPECT_EQ(output_.find("bad      replica clocks"), std::string::npos) << output_;
  EXPECT_NE(output_.find("warning  replicas: 1, which may lag"), std::string::npos) << output_;
  EXPECT_LE(result_of(at_master({"doctor", "--sync-replicas", "1"})), 1) << output_;
  EXPECT_NE(output_.find("ok       replicas: 1, and all of them have a lock before it counts"), std::string::npos)
      << output_;
  EXPECT_EQ(result_of(at_master({"doctor", "--sync-replicas", "2", "--sync-timeout", "100ms"})), 2) << output_;
  EXPECT_NE(output_.find("bad      replicas: 1, and sync-replicas is 2"), std::string::npos) << output_;

  servers_.replica(0).kill();
  wait_until(
      [&] {
        return master_.command({"INFO", "replication"}).find("connected_slaves:0") != std::string::npos;
      },
      "the master keeps its replica");
  EXPECT_EQ(result_of(at_master({"doctor"})), 1) << output_;
  EXPECT_EQ(output_.find("replica clocks"), std::string::npos) << output_;
}

/// It answers OK to everything but TIME, where it shows a clock that is ahead by `ahead`.
class wrong_clock {
 public:
  explicit wrong_clock(std::chrono::microseconds ahead) : ahead_{ahead} {
    accept();
    thread_ = std::thread{[this] { ctx_.run(); }};
  }
  ~wrong_clock() {
    ctx_.stop();
    thread_.join();
  }
  wrong_clock(wrong_clock const&) = delete;
  wrong_clock& operator=(wrong_clock const&) = delete;

  std::string port() const { return std::to_string(port_); }

 private:
  struct one {
    asio::ip::tcp::socket socket;
    std::array<char, 4096> in{};
    std::string out{};
  };

  void accept() {
    acceptor_.async_accept([this](error_code ec, asio::ip::tcp::socket s) {
      if (ec) return;
      answer(std::make_shared<one>(one{std::move(s)}));
      accept();
    });
  }
  /// doctor asks, and waits for the answer.
  void answer(std::shared_ptr<one> const& c) {
    c->socket.async_read_some(asio::buffer(c->in), [this, c](error_code ec, std::size_t size) {
      if (ec) return;
      std::string const question{c->in.data(), size};
      c->out = question.find("TIME") == std::string::npos ? "+OK\r\n" : time_of_it();
      asio::write(c->socket, asio::buffer(c->out));
      answer(c);
    });
  }
  std::string time_of_it() const {
    auto const now =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()) +
        ahead_;
    auto const bulk = [](std::string const& text) {
      return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    };
    return "*2\r\n" + bulk(std::to_string(now.count() / 1'000'000)) + bulk(std::to_string(now.count() % 1'000'000));
  }

  std::chrono::microseconds const ahead_;
  asio::io_context ctx_{1};
  asio::ip::tcp::acceptor acceptor_{ctx_, {asio::ip::address_v4::loopback(), 0}};
  std::uint16_t const port_ = acceptor_.local_endpoint().port();
  std::thread thread_;
};

// D27. The replica says that it is elsewhere, where a clock is an hour ahead.
TEST_F(WithReplicas, DoctorFindsAClockThatIsWrong) {
  wrong_clock const wrong{1h};
  replica_.command({"CONFIG", "SET", "replica-announce-ip", "127.0.0.1"});
  replica_.command({"CONFIG", "SET", "replica-announce-port", wrong.port()});
  // It says so when it connects to its master.
  EXPECT_GE(master_.integer({"CLIENT", "KILL", "TYPE", "replica"}), 1);
  std::string const announced = "ip=127.0.0.1,port=" + wrong.port() + ",state=online";
  wait_until(
      [&] {
        return master_.command({"INFO", "replication"}).find(announced) != std::string::npos;
      },
      "the replica is not where it says");
  EXPECT_EQ(result_of(at_master({"doctor"})), 2) << output_;
  EXPECT_NE(output_.find("bad      replica clocks: up to "), std::string::npos) << output_;
  EXPECT_NE(output_.find("run NTP on each server"), std::string::npos) << output_;
  EXPECT_EQ(result_of(at_master({"doctor", "--json"})), 2) << output_;
  EXPECT_NE(output_.find(R"("verdict":"bad","what":"replica clocks")"), std::string::npos) << output_;
}

}  // namespace
}  // namespace conch::test
