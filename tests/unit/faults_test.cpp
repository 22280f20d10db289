#include "servers/redis/faults.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>

namespace conch::engine {

using namespace protocol;

void PrintTo(fault f, std::ostream* out) {
  constexpr std::string_view names[] = {"none",          "no_script", "try_later", "reconnect",  "wrong_type",
                                        "access_denied", "refused",   "malformed", "tls_failed", "not_supported"};
  *out << names[static_cast<std::size_t>(f)];
}

}  // namespace conch::engine

namespace conch::redis {
namespace {

using protocol::fault;

struct meaning {
  std::string_view words;
  fault what;
};

// The words are those of Redis 7.0.15 (src/server.c createSharedObjects, src/cluster.c, src/script.c).
TEST(Faults, GiveEveryErrorOfTheServerItsMeaning) {
  meaning const table[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", fault::no_script},
      {"LOADING Redis is loading the dataset in memory", fault::try_later},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", fault::try_later},
      {"TRYAGAIN Multiple keys request during rehashing of slot", fault::try_later},
      {"CLUSTERDOWN The cluster is down", fault::try_later},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", fault::try_later},
      {"NOREPLICAS Not enough good replicas to write.", fault::try_later},
      {"NOMASTERLINK Can't SYNC while not connected with my master", fault::try_later},
      {"UNKILLABLE Sorry the script already executed write commands against the dataset.", fault::try_later},
      {"ERR max number of clients reached", fault::try_later},
      {"ERR max number of clients + cluster connections reached", fault::try_later},
      {"ERR max concurrent connections exceeded", fault::try_later},
      {"ERR too many connections", fault::try_later},
      {"ERR Script killed by user with SCRIPT KILL. script: 62c31b9f, on @user_script:1.", fault::try_later},
      {"ERR server is shutting down", fault::try_later},
      {"ERR Connection refused", fault::try_later},
      {"ERR Connection timed out", fault::try_later},
      {"ERR Connection reset by peer", fault::try_later},
      {"ERR Server ejected", fault::try_later},
      {"upstream failure", fault::try_later},
      {"no upstream host", fault::try_later},
      {"READONLY You can't write against a read only replica.", fault::reconnect},
      {"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
       fault::reconnect},
      {"REDIRECT 127.0.0.1:6380", fault::reconnect},
      {"ERR WAIT cannot be used with replica instances.", fault::reconnect},
      {"NOAUTH Authentication required.", fault::access_denied},
      {"ERR invalid password", fault::access_denied},
      {"ERR AUTH <password> called without any password configured for the default user.", fault::access_denied},
      {"ERR Client sent AUTH, but no password is set", fault::access_denied},
      {"ERR ACL failure in script: User conch has no permissions to run the 'get' command", fault::access_denied},
      {"WRONGPASS invalid username-password pair or user is disabled.", fault::access_denied},
      {"NOPERM this user has no permissions to run the 'publish' command", fault::access_denied},
      {"DENIED Redis is running in protected mode because protected mode is enabled ...", fault::access_denied},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", fault::wrong_type},
      {"WRONGTYPE conch:{a} holds something that is not a lock", fault::wrong_type},
      {"OOM command not allowed when used memory > 'maxmemory'.", fault::refused},
      {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
       fault::refused},
      {"EXECABORT Transaction discarded because of previous errors.", fault::refused},
      {"NOTBUSY No scripts in execution right now.", fault::refused},
      {"NOPROTO unsupported protocol version", fault::refused},
      {"MOVED 3999 127.0.0.1:6381", fault::refused},
      {"ASK 3999 127.0.0.1:6381", fault::refused},
      {"CROSSSLOT Keys in request don't hash to the same slot", fault::refused},
      {"ERR Script attempted to access a non local key in a cluster node", fault::try_later},
      {"ERR Attempted to access a non local key in a cluster node", fault::try_later},  // Valkey 9.1.2
      {"Script attempted to access a non local key in a cluster node", fault::try_later},
      {"ERR unknown command 'FOO', with args beginning with: ", fault::refused},
  };
  for (auto const& [words, what] : table) EXPECT_EQ(classify(words), what) << words;
}

TEST(Faults, LookAtTheFirstWordOnlyAndAtAllOfIt) {
  EXPECT_EQ(classify("LOADING"), fault::try_later);
  EXPECT_EQ(classify("ERR NOSCRIPT"), fault::refused);
  EXPECT_EQ(classify("BUSYKEY Target key name already exists."), fault::refused);
  EXPECT_EQ(classify("BUSYGROUP Consumer Group name already exists"), fault::refused);
  EXPECT_EQ(classify("loading"), fault::refused);
  EXPECT_EQ(classify("ERRx max number of clients reached"), fault::refused);
  EXPECT_EQ(classify(" LOADING"), fault::refused);
}

// As 6.2.14 says it.
TEST(Faults, OfAScriptMeanTheSameBefore7) {
  std::string const script = "ERR Error running script (call to f_62c31b9fadb68298fe6219a6294c5899c72b71d7): ";
  meaning const table[] = {
      {"@user_script:106: WRONGTYPE Operation against a key holding the wrong kind of value", fault::wrong_type},
      {"@user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", fault::reconnect},
      {"@user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.", fault::refused},
      {"@user_script:39: @user_script: 39: The user executing the script can't run this command or subcommand",
       fault::access_denied},
      {"@user_script:9: @user_script: 9: Script attempted to access a non local key in a cluster node",
       fault::try_later},
      {"@user_script:3: Script killed by user with SCRIPT KILL...", fault::try_later},
      {"@user_script:7: user_script:7: attempt to index a nil value", fault::refused},
      {"@user_script", fault::refused},
      {"@user_script:", fault::refused},
      {"@user_script:7: ", fault::refused},
      {"@user_script:7: @user_script:", fault::refused},
      {"", fault::refused},
  };
  for (auto const& [words, what] : table) EXPECT_EQ(classify(script + std::string{words}), what) << words;
}

TEST(Faults, ReportWhatNobodyHasHeardOf) {
  EXPECT_EQ(classify(""), fault::refused);
  EXPECT_EQ(classify("SOMETHING new"), fault::refused);
}

TEST(Faults, APeerThatDoesNotSpeakRespIsRecognisedByItsFirstBytes) {
  struct row {
    std::string first, words;
  };
  for (auto const& [first, words] : std::initializer_list<row>{
           {"HTTP/1.1 400 Bad Request\r\n", "; this looks like HTTP, not like Redis"},
           {"<!DOCTYPE HTML PUBLIC", "; this looks like HTTP, not like Redis"},
           {"SSH-2.0-OpenSSH_9.2p1\r\n", "; this looks like SSH, not like Redis"},
           {"220 mail.test ESMTP\r\n", "; this looks like a server of mail or FTP, not like Redis"},
           {std::string{"\x15\x03\x03\0\x02\x02\x0a", 7}, "; this looks like TLS: the URL then begins with rediss://"},
           {"ERROR\r\n", ""},
           {"", ""},
           {"H", ""},
       }) {
    EXPECT_EQ(stranger(first), words) << first;
  }
}

}  // namespace
}  // namespace conch::redis
