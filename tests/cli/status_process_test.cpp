// `conch status`, `conch unlock`, and how the command finds its server.

#include <sys/stat.h>

#include <fstream>

#include "cli/command.hpp"
#include "cli/on_terminal.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class Status : public Command {
 protected:
  std::string write(std::string const& name, std::string const& text) const {
    std::ofstream{file(name)} << text;
    ::chmod(file(name).c_str(), 0600);
    return file(name);
  }
};

TEST_F(Status, TellsHoldersAndWaiters) {
  EXPECT_EQ(result_of({"status", "a"}), 0);
  EXPECT_EQ(output_, "a: free\n");
  program holder = run({"a"}, "echo fence $CONCH_FENCE; sleep 600");
  std::string const fence = holder.wait_for("fence ").substr(6);
  program waiting = run({"a"}, "true");
  wait_until_in_line("a");
  EXPECT_EQ(result_of({"status", "a", "b"}), 0);
  EXPECT_TRUE(output_.starts_with("a: mutex, held, 1 waiting\n  sh@")) << output_;
  EXPECT_NE(output_.find("fence " + fence), std::string::npos) << output_;
  EXPECT_TRUE(output_.ends_with("b: free\n")) << output_;
  EXPECT_EQ(result_of({"status", "--json", "a"}), 0);
  EXPECT_TRUE(output_.starts_with(
      R"({"name":"a","kind":"mutex","locked":true,"held":1,"taken":1,"limit":1,"waiting":1,"holders":[{"client":")"))
      << output_;
  EXPECT_NE(output_.find("\"fence\":\"" + fence + '"'), std::string::npos) << output_;
}

TEST_F(Status, UnlockTakesFromTheHolderWithTheFence) {
  program holder = run({"a"}, "echo fence $CONCH_FENCE; sleep 600");
  std::string const fence = holder.wait_for("fence ").substr(6);
  EXPECT_EQ(result_of({"unlock", "a", "--yes", "--fence", std::to_string(std::stoll(fence) + 4096)}), 1);
  EXPECT_EQ(output_, "a: there is no holder with this fence\n");
  EXPECT_TRUE(is_held("a"));
  EXPECT_EQ(result_of({"unlock", "a", "--fence", fence}), 64) << "nobody can be asked";
  EXPECT_EQ(result_of({"unlock", "a", "--yes", "--fence", fence, "--json"}), 0);
  EXPECT_EQ(output_, "{\"name\":\"a\",\"taken_from\":1}\n");
  EXPECT_EQ(holder.wait_for_end(), 79);
  EXPECT_EQ(result_of({"unlock", "a", "--yes"}), 1);
  EXPECT_EQ(output_, "a: nobody holds it\n");
}

TEST_F(Status, SaysWhatIsWrongWithACode) {
  EXPECT_EQ(result_of({"status", "a", "--url", "unix://" + file("none.sock")}), 69);
  EXPECT_NE(output_.find("No such file"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"status", "a", "--url", "http://x"}), 78);
  EXPECT_EQ(result_of({"status", "--json", "a", "--url", "http://x"}), 78);
  EXPECT_TRUE(output_.starts_with("{\"error\":\"")) << output_;
  probe_.command({"SET", "conch:{a}", "no lock"});
  EXPECT_EQ(result_of({"status", "a"}), 76);
  EXPECT_EQ(result_of({"run", "a", "--", "true"}), 76);
}

TEST_F(Status, FindsServerAndPasswordInAFileThatIsItsOwn) {
  EXPECT_EQ(probe_.command({"ACL", "SETUSER", "ops", "on", ">a secret", "~*", "&*", "+@all"}), "OK");
  EXPECT_EQ(probe_.command({"CONFIG", "SET", "requirepass", "another"}), "OK");
  std::string const config =
      write("conch.toml", "url = \"" + server_.url() + "\"\nuser = 'ops'\npassword-file = 'password'\n");
  write("password", "a secret\n");
  EXPECT_EQ(result_of({"status", "a"}), 77) << "without it";
  EXPECT_EQ(result_of({"status", "a", "--config", config}), 0) << output_;
  EXPECT_EQ(result_of({"status", "a", "--user", "ops", "--password-file", file("password")}), 0) << output_;
  write("password", "a wrong secret\n");
  EXPECT_EQ(result_of({"status", "a", "--config", config}), 77);
  EXPECT_EQ(output_.find("secret"), std::string::npos) << output_;
  ::chmod(config.c_str(), 0644);
  EXPECT_EQ(result_of({"status", "a", "--config", config}), 78);
}

TEST_F(Status, AsksEachServerOfAQuorum) {
  redis_server_options const tcp{.tcp = true};
  redis_server one{tcp}, two{tcp}, three{tcp};
  std::string const address = "127.0.0.1:";
  std::string const url = "redlock://" + address + std::to_string(one.port()) + ',' + address +
                          std::to_string(two.port()) + ',' + address + std::to_string(three.port());
  program holder = run({"--url", url, "a"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"status", "--url", url, "a"}), 0);
  std::size_t held = 0;
  for (std::size_t at = 0; (at = output_.find("a: mutex, held", at)) != std::string::npos; ++at) ++held;
  EXPECT_GE(held, 2u) << output_;
  EXPECT_EQ(result_of({"unlock", "--url", url, "a", "--yes"}), 0);
  EXPECT_EQ(output_.find("taken from 2"), std::string::npos) << "one holder at several servers: " << output_;
  EXPECT_EQ(holder.wait_for_end(), 79);
  EXPECT_EQ(result_of({"run", "--url", url, "--kind", "semaphore=2", "s", "--", "true"}), 64);
}

/// `redlock://` with three servers, and a job that holds "a".
class OfAQuorum : public Command {
 protected:
  static std::string address(redis_server const& server) { return "127.0.0.1:" + std::to_string(server.port()); }
  static inline redis_server_options const tcp{.tcp = true};
  redis_server one_{tcp}, two_{tcp}, three_{tcp};
  std::string const url_ = "redlock://" + address(one_) + ',' + address(two_) + ',' + address(three_);
};

TEST_F(OfAQuorum, TheFenceOfEachServerTakesTheLockFromItsHolderAtAllServers) {
  int taken = 0;
  for (redis_server* const shown : {&one_, &two_, &three_}) {
    program holder = run({"--url", url_, "a"}, "echo held; sleep 600");
    holder.wait_for("held");
    redis_probe here{*shown};
    if (here.integer({"EXISTS", "conch:{a}"}) == 0) {  // two votes are enough
      holder.signal(SIGTERM);
      holder.wait_for_end(60s);
      continue;
    }
    ++taken;
    EXPECT_EQ(result_of({"status", "--url", "redis://" + address(*shown), "a"}), 0);
    std::string const fence = std::to_string(number_behind(output_, "fence "));
    EXPECT_EQ(result_of({"unlock", "--url", url_, "a", "--yes", "--fence", fence}), 0) << output_;
    EXPECT_EQ(output_, "a: taken from 1 holder\n");
    EXPECT_EQ(holder.wait_for_end(), 79);
  }
  EXPECT_GE(taken, 1);
  program holder = run({"--url", url_, "a"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"unlock", "--url", url_, "a", "--yes", "--fence", "4096"}), 1) << output_;
  EXPECT_EQ(result_of({"status", "--url", url_, "a"}), 0);
  EXPECT_NE(output_.find("mutex, held"), std::string::npos) << output_;
}

TEST_F(OfAQuorum, UnlockAsksOnceAndSaysThatNobodyHoldsIt) {
  std::vector<std::string> const words{
      "/usr/bin/env", "HOME=" + folder_.string(), CONCH_COMMAND, "unlock", "a", "--url", url_};
  on_terminal free{words};
  EXPECT_EQ(free.wait_for_end(), 1) << free.output();
  program holder = run({"--url", url_, "a"}, "echo held; sleep 600");
  holder.wait_for("held");
  on_terminal asked{words};
  asked.wait_for("[y/N]");
  asked.type("y\n");
  EXPECT_EQ(asked.wait_for_end(), 0) << asked.output();
  EXPECT_EQ(holder.wait_for_end(), 79);
}

TEST_F(OfAQuorum, OneServerNamedTwiceIsRefusedByEachCommand) {
  std::string const twice = "redlock://" + address(one_) + ',' + address(two_) + ',' + address(two_);
  for (std::vector<std::string> words :
       std::vector<std::vector<std::string>>{{"run", "a", "--url", twice, "--", "true"},
                                             {"status", "a"},
                                             {"list"},
                                             {"watch"},
                                             {"unlock", "a", "--yes"},
                                             {"bench"}}) {
    if (words[0] != "run") words.insert(words.end(), {"--url", twice});
    EXPECT_EQ(result_of(words), 78) << words[0] << ": " << output_;
    EXPECT_NE(output_.find("two of the servers are the same"), std::string::npos) << output_;
  }
}

TEST_F(OfAQuorum, BenchMeasuresWhatIsLeft) {
  one_.kill();
  EXPECT_EQ(result_of({"bench", "--time", "10ms", "--url", url_}), 0) << output_;
}

TEST_F(OfAQuorum, DoctorCountsWhoCanVote) {
  one_.kill();
  two_.kill();
  EXPECT_EQ(result_of({"doctor", "--url", url_}), 2);
  EXPECT_NE(output_.find("bad      servers: 1 can be used, and 2 votes are needed"), std::string::npos) << output_;
}

}  // namespace
}  // namespace conch::test
