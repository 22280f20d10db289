// `conch list`, `conch watch`, `conch doctor`, `conch bench`.

#include <csignal>
#include <fstream>
#include <sstream>

#include "cli/command.hpp"
#include "cli/on_terminal.hpp"
#include "support/certificates.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class List : public Command {};

TEST_F(List, ShowsWhatIsHeldByScanAndNeverByKeys) {
  EXPECT_EQ(result_of({"list"}), 0);
  EXPECT_EQ(output_, "");
  program one = run({"jobs:1"}, "echo held; sleep 600");
  program two = run({"jobs:2", "other}%"}, "echo held; sleep 600");
  one.wait_for("held");
  two.wait_for("held");
  for (int i = 0; i < 3000; ++i) probe_.command({"SET", "something:" + std::to_string(i), "x"});
  probe_.command({"SET", "conch:{no lock}", "x"});
  EXPECT_EQ(result_of({"list"}), 0);
  EXPECT_NE(output_.find("jobs:1: mutex, held, 0 waiting\n  "), std::string::npos) << output_;
  EXPECT_NE(output_.find("jobs:2: mutex, held"), std::string::npos) << output_;
  EXPECT_NE(output_.find("other}%: mutex, held"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("no lock"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"list", "jobs:?", "--json"}), 0);
  EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 2) << output_;
  EXPECT_EQ(result_of({"list", "ot*}%"}), 0);
  EXPECT_TRUE(output_.starts_with("other}%: ")) << output_;
  auto const calls = probe_.commandstats();
  EXPECT_GT(calls.at("scan"), 2);
  EXPECT_FALSE(calls.contains("keys"));
}

TEST_F(List, SaysThatTheRightIsMissing) {
  probe_.command({"ACL", "SETUSER", "default", "-scan"});
  EXPECT_EQ(result_of({"list"}), 77);
  EXPECT_NE(output_.find("scan"), std::string::npos) << output_;
}

TEST_F(List, GivesTheNamesToTheShellThatCompletes) {
  program holder = run({"jobs", "job-2"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"list", "--names"}), 0);
  EXPECT_EQ(output_, "job-2\njobs\n");
  program p = shell("exec bash -c '. " CONCH_COMPLETION
                    "/conch.bash; COMP_WORDS=($CONCH unlock jo); COMP_CWORD=2; _conch; echo names ${COMPREPLY[*]}'");
  EXPECT_EQ(p.wait_for("names"), "names job-2 jobs");
}

TEST_F(List, CompletesNamesAtTheServerThatWasTyped) {
  redis_server other{{.tcp = true}};
  program holder =
      conch({"run", "--url", other.url(), "jobs", "ns:item", "--", "/bin/sh", "-c", "echo held; sleep 600"});
  holder.wait_for("held");
  // As readline calls it: its words end at ':' and '=' too.
  auto const completed = [&](std::string const& typed) {
    program p =
        shell("exec bash -c '. " CONCH_COMPLETION "/conch.bash; COMP_WORDBREAKS=\" =:\"; COMP_LINE=\"$CONCH " + typed +
              "\"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(${COMP_LINE//:/ : }); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
              "_conch; "
              "echo names ${COMPREPLY[*]}'");
    return p.wait_for("names");
  };
  EXPECT_EQ(completed("unlock --url " + other.url() + " jo"), "names jobs");
  EXPECT_EQ(completed("unlock --url=" + other.url() + " jo"), "names jobs");
  EXPECT_EQ(completed("unlock --url " + other.url() + " ns:i"), "names item");
  EXPECT_EQ(completed("run x --kind=sh"), "names shared");
}

TEST_F(List, SaysWhichServerIsAway) {
  server_.kill();
  EXPECT_EQ(result_of({"list"}), 69);
  EXPECT_NE(output_.find(server_.url() + ": "), std::string::npos) << output_;
}

TEST_F(List, DoesNotEndWithZeroWhereItsOutputCannotBeWritten) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  for (std::string const command :
       {"list", "list --json", "status a", "status a --json", "--help", "run --help", "--version", "doctor"}) {
    program p = shell("$CONCH " + command + " > /dev/full; echo code $?");
    EXPECT_EQ(p.wait_for("code "), "code 74") << command;
    EXPECT_NE(p.output().find("standard output: No space left on device"), std::string::npos) << p.output();
  }
}

TEST_F(List, DoesNotEndWithZeroWhereItsOutputIsClosed) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  for (std::string const command : {"list", "status a --json", "--help", "doctor"}) {
    program p = shell("$CONCH " + command + " 3>&1 >&-; echo code $?");
    EXPECT_EQ(p.wait_for("code "), "code 74") << command << ": " << p.output();
  }
}

TEST_F(List, WaitsForAReaderWhoseEndOfThePipeDoesNotBlock) {
  std::vector<std::string> words{"run"};
  for (int i = 0; i < 300; ++i)
    words.push_back("a rather long name of a lock, so that all of them do not fit into a pipe: " + std::to_string(i));
  words.insert(words.end(), {"--", "/bin/sh", "-c", "echo held; sleep 600"});
  program holder = conch(words);
  holder.wait_for("held");
  program p = shell(
      "/usr/bin/python3 -c 'import fcntl, os, subprocess, sys, time\n"
      "r, w = os.pipe()\n"
      "fcntl.fcntl(w, 1031, 4096)\n"
      "os.set_blocking(w, False)\n"
      "p = subprocess.Popen([sys.argv[1], \"list\", \"--names\"], stdout=w)\n"
      "os.close(w)\n"
      "n = 0\n"
      "while True:\n"
      "  got = os.read(r, 100)\n"
      "  n += got.count(b\"\\n\")\n"
      "  if not got: break\n"
      "print(\"lines\", n, \"code\", p.wait())' $CONCH");
  EXPECT_EQ(p.wait_for("lines "), "lines 300 code 0");
}

TEST_F(List, MatchesNamesAndNotTheirSpellingInKeys) {
  program holder = run({"a%b", "a}b", "a-b", "a-}b"}, "echo held; sleep 600");
  holder.wait_for("held");
  EXPECT_EQ(result_of({"list", "--names", "a?b"}), 0);
  EXPECT_EQ(output_, "a%b\na-b\na}b\n");
  EXPECT_EQ(result_of({"list", "--names", "a[%}]b"}), 0);
  EXPECT_EQ(output_, "a%b\na}b\n");
}

/// What `run` says of a server, the commands say that talk to it by themselves.
TEST_F(List, SaysWhatTheLibrarySays) {
  redis_server_options const tcp{.tcp = true};
  redis_server replica{tcp}, node{{.tcp = true, .arguments = {"--cluster-enabled", "yes"}}}, silent{tcp};
  redis_probe{replica}.command({"REPLICAOF", "127.0.0.1", "1"});
  silent.stop();
  std::string const sentinel = "redis-sentinel://127.0.0.1:" + std::to_string(replica.port()) + "?sentinelMasterId=m";
  std::string const cluster = "redis-cluster://127.0.0.1:" + std::to_string(replica.port());
  struct row {
    std::string url, says;
    int code;
  };
  for (row const& one : std::vector<row>{{replica.url(), "the server is a replica", 69},
                                         {node.url(), "the server is a Cluster node", 76},
                                         {silent.url(), silent.url() + ": no answer to the greeting yet", 69},
                                         {sentinel, "this is not a Sentinel", 76},
                                         {cluster, "the server is not a node of a Cluster", 64},
                                         {"redis://127.0.0.1:65536", "the port must be a number from 1 to 65535", 78},
                                         {server_.url() + "x", server_.url() + "x: No such file or directory", 69}}) {
    for (char const* const command : {"list", "watch", "bench"}) {
      EXPECT_EQ(result_of({command, "--url", one.url}), one.code) << command << ' ' << one.url;
      EXPECT_NE(output_.find(one.says), std::string::npos) << command << ": " << output_;
    }
    if (one.code == 69) continue;
    EXPECT_EQ(result_of({"doctor", "--url", one.url}), 2);
    EXPECT_TRUE(output_.find(one.says) != std::string::npos ||
                output_.find("role: a node of a Cluster") != std::string::npos)
        << output_;
    EXPECT_EQ(output_.find("firewall"), std::string::npos) << output_;
  }
  silent.cont();
}

TEST_F(List, TakesAPasswordThatTheServerDoesNotAskForAsRunDoes) {
  for (std::vector<std::string> words :
       std::vector<std::vector<std::string>>{{"run", "a", "--", "true"}, {"status", "a"}, {"list"}, {"doctor"}}) {
    program p = shell("CONCH_PASSWORD=superfluous $CONCH " + words[0] + (words.size() > 1 ? " a" : "") +
                      (words.size() > 2 ? " -- true" : "") + "; echo code $?");
    EXPECT_EQ(p.wait_for("code "), words[0] == "doctor" ? "code 1" : "code 0") << p.output();
  }
}

class Watch : public Command {};

TEST_F(Watch, WritesALineForEachChangeWhereThereIsNoTerminal) {
  program watch = conch({"watch", "--every", "100ms"});
  {
    program holder = run({"a"}, "echo held; sleep 600");
    EXPECT_NE(watch.wait_for("2").find("a: mutex, held, 0 waiting;"), std::string::npos);
    holder.signal(SIGTERM);
    EXPECT_EQ(holder.wait_for_end(), 128 + SIGTERM);
  }
  EXPECT_TRUE(watch.wait_for("2").ends_with(" a: free"));
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.wait_for_end(), 128 + SIGTERM);
}

TEST_F(Watch, EndsWhenNobodyReadsAnyMore) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  program p = shell("$CONCH watch --every 100ms | head -n 1; echo code $?");
  p.wait_for("code 0");
  EXPECT_EQ(p.wait_for_end(), 0) << "nothing changes: no write would have told it";
}

TEST_F(Watch, ComesBackWithTheServer) {
  program watch = conch({"watch", "--every", "100ms"});
  program holder = run({"a"}, "echo held; sleep 600");
  watch.wait_for("2");
  server_.restart(false);
  watch.wait_for("conch: the lock server cannot be reached: unix:");
  program another = run({"b"}, "sleep 600");
  while (watch.wait_for("2", 60s).find(" b: mutex, held") == std::string::npos) {
  }
  server_.restart(false);
  watch.wait_for("conch: the lock server cannot be reached: unix:");  // each time
}

TEST_F(Watch, IsAScreenOnATerminalAndQEndsIt) {
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  on_terminal t{{"/usr/bin/env", "HOME=" + folder_.string(), "CONCH_URL=" + server_.url(), CONCH_COMMAND, "watch",
                 "--every", "100ms"}};
  t.wait_for("1 lock, 0 waiting");
  t.wait_for("HOLDER");
  t.wait_for("a ");
  t.wait_for("held");
  program waiting = run({"a"}, "true");
  t.wait_for("1 lock, 1 waiting");
  t.type("q");
  EXPECT_EQ(t.wait_for_end(), 0);
  EXPECT_NE(t.output().find("\x1b[?1049l"), std::string::npos) << "the previous screen";
}

class Doctor : public Command {};

TEST_F(Doctor, AServerThatIsAwayIsToldWithoutALockThatNobodyHasNamed) {
  for (std::vector<std::string> const& words : {std::vector<std::string>{"list"}, {"watch"}, {"doctor"}}) {
    std::vector<std::string> all{"--url", "redis://127.0.0.1:1"};
    all.insert(all.begin(), words.begin(), words.end());
    result_of(all);
    EXPECT_NE(output_.find("redis://127.0.0.1:1: Connection refused"), std::string::npos) << output_;
    EXPECT_EQ(output_.find("conch-doctor"), std::string::npos) << output_;
  }
}

TEST_F(Doctor, FindsAFitServerFit) {
  probe_.command({"CONFIG", "SET", "appendonly", "yes"});
  int const verdict = result_of({"doctor"});
  EXPECT_EQ(verdict, expect_hand_over() ? 1 : 0) << output_;
  for (char const* line :
       {"ok       reachable", "ok       TLS", "ok       round trip", "ok       version", "ok       role: master",
        "ok       eviction", "ok       persistence", "ok       replicas", "ok       rights: all"}) {
    EXPECT_NE(output_.find(line), std::string::npos) << line << " in\n" << output_;
  }
  EXPECT_EQ(probe_.integer({"EXISTS", "conch:{conch-doctor"}), 0);
}

TEST_F(Doctor, FindsWhatIsDoubtfulAndWhatIsBad) {
  EXPECT_EQ(result_of({"doctor"}), 1) << output_;
  EXPECT_NE(output_.find("warning  persistence"), std::string::npos) << output_;
  EXPECT_NE(output_.find("-> set appendonly yes"), std::string::npos) << output_;
  probe_.command({"CONFIG", "SET", "maxmemory", "100mb"});
  probe_.command({"CONFIG", "SET", "maxmemory-policy", "volatile-ttl"});
  EXPECT_EQ(result_of({"doctor", "--json"}), 2) << output_;
  EXPECT_NE(output_.find(R"("verdict":"bad","what":"eviction")"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"doctor", "--url", "unix://" + file("none.sock")}), 2);
  EXPECT_NE(output_.find("bad      reachable"), std::string::npos) << output_;
}

TEST_F(Doctor, NamesEachRightThatIsMissing) {
  // The user of the guide lacks only what the page says that it may lack.
  probe_.command({"ACL", "SETUSER", "default", "-evalsha", "-mget", "-client|kill"});
  EXPECT_EQ(result_of({"doctor"}), 2);
  EXPECT_NE(output_.find("bad      right evalsha: missing: no lock can be acquired"), std::string::npos) << output_;
  EXPECT_NE(output_.find("warning  right mget: missing"), std::string::npos) << output_;
  EXPECT_NE(output_.find("ok       right client|kill: missing"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("right get:"), std::string::npos) << output_;
}

TEST_F(Doctor, LooksAtEachServerOfAQuorumAndAtTheirClocks) {
  redis_server_options const tcp{.tcp = true};
  redis_server one{tcp}, two{tcp}, three{tcp};
  std::string url = "redlock://";
  for (redis_server const* s : {&one, &two, &three})
    url += (s == &one ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(s->port());
  EXPECT_EQ(result_of({"doctor", "--url", url}), 1) << output_;
  EXPECT_NE(output_.find("ok       clocks: up to "), std::string::npos) << output_;
  expect_hand_over();
  EXPECT_NE(output_.find("redis://127.0.0.1:" + std::to_string(two.port()) + ": version"), std::string::npos)
      << output_;
  three.kill();
  EXPECT_EQ(result_of({"doctor", "--url", url}), 2) << output_;
  EXPECT_NE(output_.find("ok       servers: "), std::string::npos) << output_;
  std::string const two_of_four = url + ",127.0.0.1:1";
  EXPECT_EQ(result_of({"doctor", "--url", two_of_four}), 2) << output_;
  EXPECT_NE(output_.find("bad      servers: "), std::string::npos) << "two of four are no majority: " << output_;
}

TEST_F(Doctor, SeesThatTwoUrlsOfAQuorumAreOneServer) {
  redis_server_options const tcp{.tcp = true};
  redis_server one{tcp}, two{tcp};
  std::string const port = std::to_string(one.port()), other = std::to_string(two.port());
  EXPECT_EQ(
      result_of({"doctor", "--url", "redlock://127.0.0.1:" + port + ",localhost:" + port + ",127.0.0.1:" + other}), 1)
      << output_;
  EXPECT_NE(output_.find("warning  servers: "), std::string::npos) << output_;
  EXPECT_NE(output_.find("is the same server as"), std::string::npos) << output_;
  EXPECT_NE(output_.find("name each server once"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"doctor", "--url",
                       "redlock://127.0.0.1:" + port + ",localhost:" + port + ",127.0.0.1:" + port + "/1"}),
            2);
  EXPECT_NE(output_.find("bad      servers: "), std::string::npos) << output_;
}

TEST_F(Doctor, SeesThatClientsOfAnEarlierVersionHaveUsedTheServer) {
  EXPECT_LE(result_of({"doctor"}), 1);
  EXPECT_NE(output_.find("ok       versions of conch"), std::string::npos) << output_;
  std::ifstream file{CONCH_OLD_SCRIPT};  // the renewals of 0.2.0
  std::stringstream script;
  script << file.rdbuf();
  probe_.command({"SCRIPT", "LOAD", script.str()});
  EXPECT_EQ(result_of({"doctor"}), 1);
  EXPECT_NE(output_.find("warning  versions of conch: clients of 0.2.0 have used this server"), std::string::npos)
      << output_;
  probe_.command({"ACL", "SETUSER", "default", "-script|exists"});
  EXPECT_LE(result_of({"doctor"}), 1);
  EXPECT_NE(output_.find("ok       versions of conch: not known"), std::string::npos) << output_;
}

TEST_F(Doctor, SeesWhetherOthersCanReadLabels) {
  EXPECT_LE(result_of({"doctor"}), 1);
  EXPECT_NE(output_.find("ok       label: conch@"), std::string::npos) << output_;
  probe_.command({"ACL", "SETUSER", "default", "resetkeys", "~conch:{conch-*"});
  EXPECT_EQ(result_of({"doctor"}), 1) << output_;
  EXPECT_NE(output_.find("warning  label: conch@"), std::string::npos) << output_;
  EXPECT_NE(output_.find("-> let the user read and write the keys KEY_PREFIX{*}:i"), std::string::npos) << output_;
  EXPECT_NE(output_.find("       hand-over: median "), std::string::npos) << "locks work: " << output_;
  EXPECT_EQ(result_of({"run", "--verbose", "conch-job", "--", "true"}), 0);
  EXPECT_NE(output_.find("conch info: this user may not keep labels and notes at the server"), std::string::npos)
      << output_;
  probe_.command({"ACL", "SETUSER", "default", "~conch:{*}:i"});
  EXPECT_LE(result_of({"doctor"}), 1);
  EXPECT_NE(output_.find("ok       label: conch@"), std::string::npos) << output_;
}

TEST_F(Doctor, DoesNotCallRightsFineWhereThePasswordIsMissing) {
  probe_.command({"CONFIG", "SET", "requirepass", "abracadabra"});
  EXPECT_EQ(result_of({"doctor"}), 2);
  EXPECT_EQ(output_.find("ok       rights"), std::string::npos) << output_;
  EXPECT_NE(output_.find("NOAUTH"), std::string::npos) << output_;
  EXPECT_NE(output_.find("-> set user and password"), std::string::npos) << output_;
}

TEST_F(Doctor, KnowsTheRightsThatTheScriptsUse) {
  // What conch itself and the scripts call under load is what doctor asks for.
  program all = shell(
      "for k in mutex exclusive shared semaphore=3 striped=2; do for i in 1 2 3; do $CONCH run --kind $k $k -- sleep "
      "0.02 & done; done; wait; echo "
      "done");
  all.wait_for("done");
  auto const calls = probe_.commandstats();
  probe_.command({"CONFIG", "RESETSTAT"});
  EXPECT_LE(result_of({"doctor"}), 1);
  auto const asked = probe_.commandstats();
  for (auto const& [name, count] : calls) {
    if (name == "hello" || name == "quit" || name.starts_with("config") || name == "info") continue;
    EXPECT_TRUE(asked.contains(name)) << name << " is used, and doctor does not ask for it";
  }
}

TEST_F(Doctor, VerifiesTheCertificate) {
  certificates files;
  files.authority("ca");
  files.authority("other");
  files.signed_by("ca", "server", "IP:127.0.0.1");
  redis_server_options options;
  options.tls = true;
  options.arguments = {"--tls-cert-file",   files.certificate("server"), "--tls-key-file",
                       files.key("server"), "--tls-auth-clients",        "no"};
  redis_server secure{options};
  auto const config_with = [&](std::string const& authority) {
    std::ofstream{file("conch.toml")} << "tls-ca-file = '" << files.certificate(authority) << "'\n";
    std::filesystem::permissions(file("conch.toml"),
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return file("conch.toml");
  };
  EXPECT_EQ(result_of({"doctor", "--url", secure.url(), "--config", config_with("ca")}), 1) << output_;
  EXPECT_NE(output_.find("ok       TLS: TLSv1."), std::string::npos) << output_;
  EXPECT_EQ(result_of({"list", "--url", secure.url(), "--config", config_with("ca")}), 0) << output_;
  EXPECT_EQ(result_of({"run", "a", "--url", secure.url(), "--config", config_with("ca"), "--", "true"}), 0) << output_;
  EXPECT_EQ(result_of({"list", "--url", secure.url(), "--config", config_with("other")}), 78) << output_;
  EXPECT_EQ(result_of({"doctor", "--url", secure.url(), "--config", config_with("other")}), 2) << output_;
  EXPECT_NE(output_.find("certificate"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"run", "a", "--url", secure.url(), "--config", config_with("other"), "--", "true"}), 78)
      << output_;
}

TEST_F(Doctor, DoesNotCallAServerReachableThatDoesNotAnswer) {
  server_.stop();
  EXPECT_EQ(result_of({"doctor"}), 2);
  EXPECT_EQ(output_.find("ok       reachable"), std::string::npos) << output_;
  EXPECT_NE(output_.find("bad      reachable: "), std::string::npos) << output_;
  server_.cont();
}

TEST_F(Doctor, KnowsTlsAtOneEndOnly) {
  certificates files;
  files.authority("ca");
  files.signed_by("ca", "server", "IP:127.0.0.1");
  redis_server_options options;
  options.tls = true;
  options.arguments = {"--tls-cert-file",   files.certificate("server"), "--tls-key-file",
                       files.key("server"), "--tls-auth-clients",        "no"};
  redis_server secure{options};
  redis_server plain{redis_server_options{.tcp = true}};
  EXPECT_EQ(result_of({"doctor", "--url", "redis" + secure.url().substr(secure.url().find("://"))}), 2);
  EXPECT_NE(output_.find("rediss://"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("firewall"), std::string::npos) << output_;
  EXPECT_EQ(result_of({"doctor", "--url", "rediss://127.0.0.1:" + std::to_string(plain.port())}), 2);
  EXPECT_EQ(output_.find("tls-ca-file"), std::string::npos) << output_;
  EXPECT_NE(output_.find("TLS"), std::string::npos) << output_;
}

TEST_F(Doctor, SaysThatTheMemoryIsFull) {
  probe_.command({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(result_of({"doctor"}), 2);
  EXPECT_NE(output_.find("bad      memory: "), std::string::npos) << output_;
  EXPECT_NE(output_.find("raise maxmemory, or remove keys"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("from one connection to another"), std::string::npos) << output_;
  probe_.command({"CONFIG", "SET", "maxmemory", "0"});
}

TEST_F(Doctor, SaysOfAReplicaThatItIsOneAndNothingOfItsFailovers) {
  redis_server master{redis_server_options{.tcp = true}};
  probe_.command({"REPLICAOF", "127.0.0.1", std::to_string(master.port())});
  EXPECT_EQ(result_of({"doctor"}), 2);
  EXPECT_NE(output_.find("the server is a replica"), std::string::npos) << output_;
  EXPECT_NE(output_.find("name the master in the URL"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("replicas: none"), std::string::npos) << output_;
}

class Bench : public Command {};

TEST_F(Bench, MeasuresCyclesAndHandOvers) {
  EXPECT_EQ(result_of({"bench", "--time", "20ms"}), 0) << output_;
  for (char const* line : {"round trip", "acquire + release", "cycles/s", "hand-over"})
    EXPECT_NE(output_.find(line), std::string::npos) << output_;
  EXPECT_EQ(result_of({"bench", "--time", "20ms", "--json"}), 0);
  EXPECT_TRUE(output_.starts_with(R"({"server":"unix://)")) << output_;
  EXPECT_NE(output_.find(R"("hand_over":{"count":)"), std::string::npos) << output_;
}

}  // namespace
}  // namespace conch::test
