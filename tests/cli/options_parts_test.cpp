// The command line, the configuration file, durations and texts of `conch`.

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <cli/duration.hpp>
#include <cli/exit_code.hpp>
#include <cli/options.hpp>
#include <cli/settings.hpp>
#include <cli/show.hpp>
#include <cli/toml.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace conch::cli {
namespace {

using namespace std::chrono_literals;

/// The exit code and the words with which it fails; "" if it does not.
std::string failure_of(std::function<void()> const& f) {
  try {
    f();
  } catch (failure const& error) {
    return std::to_string(error.code) + ": " + error.what();
  }
  return "";
}

arguments parsed(std::vector<std::string> const& words) { return parse_command_line(words).command.value(); }

TEST(CliDuration, ReadsNumbersWithTheirUnit) {
  EXPECT_EQ(parse_duration("500ms"), duration{500ms});
  EXPECT_EQ(parse_duration("30s"), duration{30s});
  EXPECT_EQ(parse_duration("1.5s"), duration{1500ms});
  EXPECT_EQ(parse_duration("5m"), duration{5min});
  EXPECT_EQ(parse_duration("2h"), duration{2h});
  EXPECT_EQ(parse_duration("1d"), duration{24h});
  EXPECT_EQ(parse_duration("0s"), duration{0});
  EXPECT_EQ(parse_duration("7us"), duration{7us});
  for (char const* wrong : {"", "5", "s", "-5s", "5 s", "5x", "1..5s", "1e3s", "nan", "999999999d", "5sm"}) {
    EXPECT_EQ(parse_duration(wrong), std::nullopt) << wrong;
  }
}

TEST(CliDuration, IsReadable) {
  EXPECT_EQ(readable(850us), "850 µs");
  EXPECT_EQ(readable(1250us), "1.25 ms");
  EXPECT_EQ(readable(29500ms), "29.5 s");
  EXPECT_EQ(readable(310s), "5 m 10 s");
  EXPECT_EQ(readable(26h), "1 d 2 h");
  EXPECT_EQ(readable(-1s), "0 µs");
}

TEST(CliOptions, OfRun) {
  arguments const a =
      parsed({"run", "--wait", "2s", "x", "--kind=semaphore=3", "--lease", "10s", "--grace", "1s", "--no-kill-child",
              "-E", "9", "--json", "--url", "redis://h", "--", "cmd", "--wait", "--"});
  EXPECT_EQ(a.names, (std::vector<std::string>{"x"}));
  EXPECT_EQ(a.child, (std::vector<std::string>{"cmd", "--wait", "--"}));
  EXPECT_EQ(a.wait, duration{2s});
  EXPECT_EQ(a.kind, lock_kind::semaphore);
  EXPECT_EQ(a.size, 3u);
  EXPECT_EQ(a.lease, duration{10s});
  EXPECT_EQ(a.grace, duration{1s});
  EXPECT_EQ(a.conflict_exit_code, 9);
  EXPECT_TRUE(a.json);
  EXPECT_FALSE(a.kill_child);
  EXPECT_EQ(a.connect.url, "redis://h");

  arguments const plain = parsed({"run", "x", "y", "--", "cmd"});
  EXPECT_EQ(plain.wait, std::nullopt);
  EXPECT_EQ(plain.conflict_exit_code, 75);
  EXPECT_TRUE(plain.kill_child);
  EXPECT_EQ(plain.names.size(), 2u);
  EXPECT_EQ(plain.events_fd, std::nullopt);
  EXPECT_EQ(parsed({"run", "--events-fd=3", "x", "--", "cmd"}).events_fd, 3);
  EXPECT_EQ(parsed({"run", "-n", "x", "--", "cmd"}).wait, duration{0});
  EXPECT_EQ(plain.warn_signal, 0);
  EXPECT_EQ(parsed({"run", "--warn", "USR1", "x", "--", "cmd"}).warn_signal, SIGUSR1);
  EXPECT_EQ(parsed({"run", "--warn=SIGTERM", "x", "--", "cmd"}).warn_signal, SIGTERM);
}

TEST(CliOptions, OfReplicas) {
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{"run", "x"}, {"bench"}, {"doctor"}}) {
    EXPECT_EQ(words.front() == "run" ? std::nullopt : parsed(words).connect.sync_replicas, std::nullopt);
    words.insert(words.end(), {"--sync-replicas", "2", "--sync-timeout", "200ms"});
    if (words.front() == "run") words.insert(words.end(), {"--", "cmd"});
    arguments const a = parsed(words);
    EXPECT_EQ(a.connect.sync_replicas, 2u) << words.front();
    EXPECT_EQ(a.connect.sync_timeout, duration{200ms}) << words.front();
  }
}

TEST(CliOptions, ThatAreWrongAreToldWithACode) {
  struct row {
    std::vector<std::string> words;
    char const* told;
  };
  for (row const& one : std::vector<row>{
           {{}, "the command is missing"},
           {{"rum"}, "there is no command 'rum'"},
           {{"--url", "x", "run"}, "the command comes first"},
           {{"run", "--", "cmd"}, "the NAME of the lock is missing"},
           {{"run", "x"}, "missing '-- CMD'"},
           {{"run", "x", "--"}, "missing '-- CMD'"},
           {{"run", "x", "--wait", "5", "--", "cmd"}, "'5' is not a duration"},
           {{"run", "x", "--wait", "5s", "-n", "--", "cmd"}, "do not go together"},
           {{"run", "x", "--wai", "5s", "--", "cmd"}, "--wai"},
           {{"run", "x", "--kind", "sempahore=3", "--", "cmd"}, "not 'sempahore=3'"},
           {{"run", "x", "--kind", "semaphore", "--", "cmd"}, "not 'semaphore'"},
           {{"run", "x", "--kind", "mutex=3", "--", "cmd"}, "not 'mutex=3'"},
           {{"run", "x", "--kind", "striped=1001", "--", "cmd"}, "from 1 to 1000"},
           {{"run", "x", "--kind", "semaphore=-1", "--", "cmd"}, "from 1 to 1000000"},
           {{"run", "x", "y", "--kind", "shared", "--", "cmd"}, "several NAMEs are mutexes"},
           {{"run", "x", "x", "--", "cmd"}, "duplicate NAME"},
           {{"run", "", "--", "cmd"}, "1 to 512 bytes"},
           {{"run", "x", "--url", "", "--", "cmd"}, "--url is empty"},
           {{"list", "--key-prefix", ""}, "--key-prefix is empty"},
           {{"run", "x", "-E", "256", "--", "cmd"}, "from 0 to 255"},
           {{"run", "x", "--warn", "KILL", "--", "cmd"}, "--warn is one of HUP, INT, "},
           {{"run", "x", "--warn", "usr1", "--", "cmd"}, "not 'usr1'"},
           {{"run", "x", "--warn", "", "--", "cmd"}, "not ''"},
           {{"run", "x", "--fixed-lease", "--max-hold", "5s", "--", "cmd"}, "do not go together"},
           {{"run", "x", "--sync-replicas", "101", "--", "cmd"}, "from 0 to 100"},
           {{"bench", "--sync-replicas", "all"}, "not 'all'"},
           {{"run", "x", "--sync-timeout", "1", "--", "cmd"}, "'1' is not a duration"},
           {{"status", "x", "--sync-replicas", "1"}, "--sync-replicas"},
           {{"status"}, "the NAME of the lock is missing"},
           {{"unlock", "x", "y"}, "takes one NAME"},
           {{"watch", "--every", "0s"}, "--every must be 100ms to 1d, not '0s'"},
           {{"watch", "--every", "99ms"}, "--every must be 100ms to"},
           {{"watch", "--every", "25h"}, "--every must be 100ms to"},
           {{"bench", "--time", "0s"}, "--time must be 10ms to 10m, not '0s'"},
           {{"bench", "--time", "11m"}, "--time must be 10ms to"},
           {{"unlock", "x", "--fence", "0"}, "from 1 to"},
           {{"unlock", "x", "--fence", "1x"}, "not '1x'"},
       }) {
    std::string const told = failure_of([&] { parse_command_line(one.words); });
    EXPECT_TRUE(told.starts_with("64: ")) << told;
    EXPECT_NE(told.find(one.told), std::string::npos) << told;
    EXPECT_NE(told.find("--help"), std::string::npos) << told;
  }
}

TEST(CliOptions, HelpAnswersEverywhereAndNamesTheExitCodes) {
  for (std::vector<std::string> const& words :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"help"},
                                             {"-h"},
                                             {"run", "--help"},
                                             {"help", "run"},
                                             {"status", "-h"},
                                             {"unlock", "x", "--help"},
                                             {"run", "x", "--help", "--", "cmd"}}) {
    request const r = parse_command_line(words);
    EXPECT_FALSE(r.command);
    EXPECT_NE(r.text.find("Exit codes"), std::string::npos);
    EXPECT_NE(r.text.find("CONCH_PASSWORD"), std::string::npos);
  }
  EXPECT_NE(parse_command_line({"help", "run"}).text.find("--no-kill-child"), std::string::npos);
  EXPECT_TRUE(parse_command_line({"--version"}).text.starts_with("conch "));
}

TEST(CliToml, ReadsKeysAndValues) {
  std::vector<toml_entry> const all = parse_toml(
      "# a file\n\n url = \"unix:///x\" # where\nuser='a\\b#'\r\npassword=\"q\\\"\\\\\\t\"\nn = 17\nb=true", "f");
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].key, "url");
  EXPECT_EQ(all[0].value, "unix:///x");
  EXPECT_EQ(all[0].line, 3u);
  EXPECT_EQ(all[1].value, "a\\b#");
  EXPECT_EQ(all[2].value, "q\"\\\t");
  EXPECT_EQ(all[3].value, "17");
  EXPECT_EQ(all[4].value, "true");
}

TEST(CliToml, RefusesWhatIsNotInTheSubsetWithTheLineAndWithoutTheText) {
  for (char const* wrong : {"password = secret", "password = \"secret", "password \"secret\"", "[secret]",
                            "= \"secret\"", "password = \"secret\" x", "password = \"secret\\x\"",
                            "password = ", "password = 'secret'\npassword = 'secret'"}) {
    std::string const told = failure_of([&] { parse_toml(std::string{"\n"} + wrong, "file"); });
    EXPECT_TRUE(told.starts_with("78: file:2: ") || told.starts_with("78: file:3: ")) << wrong << " -> " << told;
    EXPECT_EQ(told.find("secret"), std::string::npos) << told;
  }
}

/// What the provider gives.
credentials login_of(connection const& all) {
  credentials given;
  if (all.settings.credentials_provider)
    all.settings.credentials_provider("", [&](error_code, credentials found) { given = std::move(found); });
  return given;
}

/// A folder, and an environment in which nothing of conch is set.
class CliSettings : public testing::Test {
 protected:
  CliSettings() {
    std::string pattern = (std::filesystem::temp_directory_path() / "conch-cli-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    for (char const* name : {"CONCH_URL", "CONCH_USER", "CONCH_PASSWORD"}) ::unsetenv(name);
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  }
  ~CliSettings() override { std::filesystem::remove_all(folder_); }

  std::string write(std::string const& name, std::string const& text, mode_t mode = 0600) const {
    std::string const path = folder_ + '/' + name;
    std::ofstream{path} << text;
    ::chmod(path.c_str(), mode);
    return path;
  }

  std::string folder_;
};

TEST_F(CliSettings, ComeFromTheCommandLineThenTheEnvironmentThenTheFile) {
  EXPECT_EQ(read_connection({}).settings.url, "redis://127.0.0.1:6379");
  write("conch.toml",
        "url = 'redis://file'\nuser = 'u'\npassword = 'p'\nkey-prefix = 'mine:'\ntls-ca-file = 'ca.pem'\n");
  connection const of_file = read_connection({});
  EXPECT_EQ(of_file.settings.url, "redis://file");
  EXPECT_EQ(of_file.settings.key_prefix, "mine:");
  EXPECT_EQ(of_file.settings.tls.ca_file, folder_ + "/ca.pem") << "beside the file";
  EXPECT_EQ(login_of(of_file).user, "u");
  EXPECT_EQ(login_of(of_file).password, "p");
  ::setenv("CONCH_URL", "redis://environment", 1);
  ::setenv("CONCH_PASSWORD", "e", 1);
  EXPECT_EQ(read_connection({}).settings.url, "redis://environment");
  EXPECT_EQ(login_of(read_connection({})).password, "e");
  connection_options given;
  given.url = "redis://line";
  given.user = "other";
  given.password_file = write("password", "from a file\n");
  EXPECT_EQ(read_connection(given).settings.url, "redis://line");
  EXPECT_EQ(login_of(read_connection(given)).user, "other");
  EXPECT_EQ(login_of(read_connection(given)).password, "from a file");
}

TEST_F(CliSettings, AFileThatTheCommandLineNamesGoesBeforeTheEnvironment) {
  ::setenv("CONCH_URL", "redis://environment", 1);
  ::setenv("CONCH_USER", "e", 1);
  ::setenv("CONCH_PASSWORD", "e", 1);
  connection_options given;
  given.config_file = write("named.toml", "url = 'redis://named'\nuser = 'n'\npassword = 'n'\n");
  EXPECT_EQ(read_connection(given).settings.url, "redis://named");
  EXPECT_EQ(login_of(read_connection(given)).user, "n");
  EXPECT_EQ(login_of(read_connection(given)).password, "n");
  given.config_file = write("url.toml", "url = 'redis://named'\n");
  EXPECT_EQ(login_of(read_connection(given)).password, "e") << "the file does not say it";
  given.url = "redis://line";
  EXPECT_EQ(read_connection(given).settings.url, "redis://line");
}

TEST_F(CliSettings, AVariableThatIsSetAndEmptyIsNamedAndDoesNotLeadToAnotherServer) {
  for (char const* const name : connection_variables()) {
    SCOPED_TRACE(name);
    for (char const* const one : connection_variables()) ::unsetenv(one);
    ::setenv(name, "", 1);
    EXPECT_EQ(failure_of([] { read_connection({}); }),
              "78: " + std::string{name} + " is empty: give it a value, or unset it");
    write("conch.toml", "url = 'redis://file'\nuser = 'f'\npassword = 'f'\n");
    EXPECT_NE(failure_of([] { read_connection({}); }), "")
        << "the file that is always read comes after the environment";
    std::filesystem::remove(folder_ + "/conch.toml");
    connection_options given;
    given.config_file = write("named.toml", "url = 'redis://named'\nuser = 'n'\npassword = 'n'\n");
    EXPECT_EQ(failure_of([&] { read_connection(given); }), "") << "what the command line names comes first";
  }
}

TEST_F(CliSettings, AUserInTheUrlIsNotAPassword) {
  connection_options given;
  for (char const* url : {"redis://orders@h", "redlock://a,orders@b", "unix://orders@/a:b"}) {
    given.url = url;
    std::string const told = failure_of([&] { read_connection(given); });
    EXPECT_TRUE(told.starts_with("64: --url: give the user with --user")) << told;
  }
  for (char const* url : {"redis://orders:p@h", "redis://:p@h", "redlock://a@x,:p@b", "redis://u:p@ss@h"}) {
    given.url = url;
    EXPECT_NE(failure_of([&] { read_connection(given); }).find("give the password in CONCH_PASSWORD"),
              std::string::npos)
        << url;
  }
}

TEST_F(CliSettings, OfReplicasComeFromTheCommandLineOrTheFile) {
  EXPECT_EQ(read_connection({}).settings.sync_replicas, 0u);
  write("conch.toml", "sync-replicas = 2\nsync-timeout = '200ms'\n");
  EXPECT_EQ(read_connection({}).settings.sync_replicas, 2u);
  EXPECT_EQ(read_connection({}).settings.sync_timeout, duration{200ms});
  connection_options given;
  given.sync_replicas = 0;
  given.sync_timeout = duration{1s};
  EXPECT_EQ(read_connection(given).settings.sync_replicas, 0u);
  EXPECT_EQ(read_connection(given).settings.sync_timeout, duration{1s});
  for (char const* wrong : {"sync-replicas = 'all'", "sync-replicas = '-1'", "sync-timeout = '1'"}) {
    write("conch.toml", wrong);
    std::string const told = failure_of([] { read_connection({}); });
    EXPECT_TRUE(told.starts_with("78: sync-")) << told;
  }
  for (char const* empty :
       {"url = ''", "user = 'u'\npassword = \"\"", "key-prefix = ''", "sync-replicas = ''", "tls-ca-file = ''"}) {
    write("conch.toml", empty);
    std::string const told = failure_of([] { read_connection({}); });
    EXPECT_TRUE(told.starts_with("78: ") && told.ends_with(" is empty")) << told;
  }
}

TEST_F(CliSettings, OfADelayComeFromTheCommandLineOrTheFile) {
  EXPECT_EQ(read_connection({}).settings.lock_delay, duration{0});
  write("conch.toml", "lock-delay = '15s'\n");
  EXPECT_EQ(read_connection({}).settings.lock_delay, duration{15s});
  connection_options const given = parsed({"run", "x", "--lock-delay", "1m", "--", "cmd"}).connect;
  EXPECT_EQ(read_connection(given).settings.lock_delay, duration{1min});
  write("conch.toml", "lock-delay = '15'\n");
  EXPECT_TRUE(failure_of([] { read_connection({}); }).starts_with("78: lock-delay: '15'"));
}

TEST_F(CliSettings, TheLabelIsThatOfTheCommandLineElseThatOfTheFile) {
  EXPECT_EQ(read_connection({}).settings.label, std::nullopt) << "the command makes one";
  write("conch.toml", "label = 'nightly'\n");
  EXPECT_EQ(read_connection({}).settings.label, "nightly");
  EXPECT_EQ(read_connection(parsed({"run", "x", "--label", "of the line", "--", "cmd"}).connect).settings.label,
            "of the line");
  EXPECT_TRUE(failure_of([] { parsed({"run", "x", "--label", "", "--", "cmd"}); }).starts_with("64: --label is empty"));
}

TEST_F(CliSettings, RefuseAFileThatOthersCanRead) {
  write("conch.toml", "password = 'p'\n", 0640);
  std::string const told = failure_of([] { read_connection({}); });
  EXPECT_TRUE(told.starts_with("78: ")) << told;
  EXPECT_NE(told.find("mode 0640"), std::string::npos) << told;
  std::filesystem::remove(folder_ + "/conch.toml");
  connection_options given;
  given.password_file = write("password", "p", 0604);
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("mode 0604"), std::string::npos);
  given.password_file = folder_ + "/none";
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("No such file"), std::string::npos);
  given = {};
  given.config_file = folder_ + "/none.toml";
  EXPECT_TRUE(failure_of([&] { read_connection(given); }).starts_with("78: "));
}

TEST_F(CliSettings, RefuseWhatMakesNoSense) {
  connection_options given;
  given.url = "redis://:secret@h";
  std::string const told = failure_of([&] { read_connection(given); });
  EXPECT_TRUE(told.starts_with("64: ")) << told;
  EXPECT_EQ(told.find("secret"), std::string::npos);
  given.url = "redlock://a,u:secret@b";
  EXPECT_TRUE(failure_of([&] { read_connection(given); }).starts_with("64: "));
  given.url = "unix:///a@b";
  EXPECT_EQ(failure_of([&] { read_connection(given); }), "");
  given.url = "memory://";
  EXPECT_TRUE(failure_of([&] { read_connection(given); }).starts_with("78: "));
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("only inside one process"), std::string::npos);
  given = {};
  given.user = "u";
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("a user without a password"), std::string::npos);
  given = {};
  given.config_file = write("typo.toml", "ulr = 'x'\n");
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("typo.toml:1: there is no setting ulr"),
            std::string::npos);
}

TEST_F(CliSettings, PutTheLoginIntoTheUrlOfAServerThatTakesNoProvider) {
  connection_options given;
  given.user = "u@x";
  given.password_file = write("password", "a:b/c\n");
  auto const url_for = [&](std::string const& url) {
    given.url = url;
    connection const c = read_connection(given);
    EXPECT_FALSE(c.settings.credentials_provider) << url;
    return c.settings.url;
  };
  EXPECT_EQ(url_for("postgresql://h:1,i/db?sslmode=require"), "postgresql://u%40x:a%3Ab%2Fc@h:1,i/db?sslmode=require");
  EXPECT_EQ(url_for("postgres:///db?host=/run"), "postgres://u%40x:a%3Ab%2Fc@/db?host=/run");
  EXPECT_EQ(url_for("zookeeper://h,i/chroot"), "zookeeper://u%40x:a%3Ab%2Fc@h,i/chroot");
  given.url = "redis://h";
  EXPECT_TRUE(read_connection(given).settings.credentials_provider);
}

TEST_F(CliSettings, TakeAUserWithoutAPasswordWhereTheServerMayKnowAnotherProof) {
  connection_options given;
  given.user = "app";
  given.url = "postgresql://h/db";
  EXPECT_EQ(read_connection(given).settings.url, "postgresql://app@h/db");
  given.url = "zookeeper://h";
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("a user without a password"), std::string::npos);
}

TEST_F(CliSettings, RefuseTwoPasswords) {
  connection_options given;
  given.config_file = write("conch.toml", "url = 'postgresql://u:p@h/db'\npassword = 'q'\n");
  EXPECT_NE(failure_of([&] { read_connection(given); }).find("two passwords"), std::string::npos);
}

TEST_F(CliSettings, KnowEachServerOfAQuorum) {
  connection_options given;
  given.url = "redlock://a:1,b,c/2";
  connection const c = read_connection(given);
  EXPECT_TRUE(c.quorum);
  EXPECT_EQ(c.servers, (std::vector<std::string>{"redis://a:1", "redis://b", "redis://c/2"}));
}

TEST(CliShow, SpellsTwoNamesInTwoWaysAndNothingThatATerminalObeys) {
  std::vector<std::string> const names{"\x1b",
                                       "\\x1b",
                                       "a\nb",
                                       "a\\x0ab",
                                       "für €",
                                       "\xff",
                                       "\xe2\x80\xae"
                                       "evil",
                                       "a",
                                       "a ",
                                       " a",
                                       "a\xc2\xa0"};
  std::set<std::string> texts, lines;
  for (std::string const& name : names) {
    lock_status s;
    s.held = s.taken = 1;
    s.holders.push_back({.client = "\x1b[2J", .fence = 4096});
    s.holders.front().asked_by = "\xe2\x80\xae";
    std::string const text = as_text(name, s, {}), line = one_line(as_json(name, s));
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    for (std::string const& one : {text, line}) {
      EXPECT_EQ(one.find('\x1b'), std::string::npos) << one;
      EXPECT_EQ(one.find("\xe2\x80\xae"), std::string::npos) << one;
    }
    texts.insert(text);
    lines.insert(line);
  }
  EXPECT_EQ(texts.size(), names.size());
  EXPECT_EQ(lines.size(), names.size());
}

TEST(CliShow, StatusForPeopleAndAsJson) {
  lock_status s;
  EXPECT_EQ(as_text("x", s, {}), "x: free\n");
  s.kind = lock_status::kind_of_lock::striped_mutex;
  s.held = s.taken = 1;
  s.limit = 4;
  s.waiting = 2;
  lock_holder h;
  h.client = "0123";
  h.fence = 9'007'199'254'740'993;  // not a double
  h.since = std::chrono::system_clock::time_point{1'700'000'000s};
  h.lease_left = 29500ms;
  h.segment = 3;
  s.holders.push_back(h);
  EXPECT_EQ(as_text("x", s, h.since + 65s),
            "x: striped_mutex, 1 of 4 segments held, 2 waiting\n"
            "  client 0123, segment 3, fence 9007199254740993, since 2023-11-14 22:13:20 UTC (1 m 5 s), 29.5 s left, "
            "not confirmed yet\n");
  EXPECT_EQ(
      one_line(as_json("x", s)),
      R"({"name":"x","kind":"striped_mutex","locked":true,"held":1,"taken":1,"limit":4,"waiting":2,"holders":[{"client":"0123","fence":"9007199254740993",)"
      R"("since":"2023-11-14 22:13:20 UTC","lease_left_ms":29500,"confirmed":false,"permits":1,"segment":3}],"waiters":[]})"
      "\n");
}

}  // namespace
}  // namespace conch::cli
