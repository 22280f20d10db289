// Commands as statements, answers and notifications of a PostgreSQL server, and what its errors mean. Without a server.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "servers/postgresql/codec.hpp"
#include "servers/postgresql/faults.hpp"
#include "servers/postgresql/schema.hpp"

namespace conch::postgresql {
namespace {

using protocol::fault;
using namespace std::chrono_literals;

sender const who{"0123456789abcdef0123456789abcdef", "conch:"};
std::string const client{who.client};

std::vector<std::string> values(statement const& s) {
  std::vector<std::string> all;
  for (int n = 0; n < s.size(); ++n) all.emplace_back(s.value(n), static_cast<std::size_t>(s.length(n)));
  return all;
}

TEST(PostgresqlCodec, ANameOfAnyBytesIsSentAsBytes) {
  std::string const name{"a\0}'\\", 5};
  statement const s =
      encode(protocol::acquire_command{.name = name, .id = 7, .lease = 30s, .claim = 3s, .retention = 600s}, who);
  EXPECT_STREQ(s.name(), "conch_acquire");
  EXPECT_EQ(values(s), (std::vector<std::string>{"conch:{" + name + "}", client + ".7", "t", "f", "30000", "3000",
                                                 "600000", "0", "0"}));
  EXPECT_EQ(s.format(0), 1);
  EXPECT_EQ(s.format(1), 0);
}

TEST(PostgresqlCodec, ManyRenewalsAreOneStatement) {
  std::string const odd{"\xff}", 2};
  protocol::renewal const items[] = {{"a", {7, 1}, 30s, 0, 12}, {odd, 8, 1s}};
  statement const s = encode(protocol::renew_command{items, false, true}, who);
  EXPECT_STREQ(s.name(), "conch_renew_permits");
  EXPECT_EQ(values(s), (std::vector<std::string>{R"({"\\x636f6e63683a7b617d","\\x636f6e63683a7bff7d7d"})",
                                                 "{" + client + "." + engine::to_text({7, 1}) + "," + client + ".8}",
                                                 "{12,NULL}", "{30000,1000}", "0"}));
}

TEST(PostgresqlCodec, EveryStatementThatIsSentIsPrepared) {
  std::string const all = preparation(who);
  engine::permit const share{engine::permit_kind::semaphore, 5, 2, 0, "-"};
  protocol::renewal const renewal[] = {{"a", 7, 1s}};
  protocol::attempt const attempt[] = {{"a", 7, 1s}};
  std::vector<protocol::command> const commands{
      protocol::acquire_command{.name = "a", .id = 7},
      protocol::acquire_command{.name = "a", .id = 7, .permit = &share},
      protocol::acquire_command{.name = "a", .id = 7, .origin = "x.1 5"},
      protocol::acquire_command{.name = "a", .id = 7, .permit = &share, .origin = "x.1 5"},
      protocol::acquire_all_command{attempt},
      protocol::release_command{.name = "a", .id = 7},
      protocol::release_command{.name = "a", .id = 7, .permit = &share},
      protocol::renew_command{renewal},
      protocol::renew_command{renewal, false, true},
      protocol::inspect_command{"a"},
      protocol::introduce_command{"a", "who", 1s},
      protocol::identify_command{"a"},
      protocol::force_command{"a"},
      protocol::request_command{"a"},
      protocol::requested_command{"a"},
      protocol::watch_command{"a", 7},
      protocol::unwatch_command{"a", 7},
      protocol::limit_command{"a"},
      protocol::kill_command{1, "2"},
      protocol::subscribe_command{},
      protocol::prove_publish_command{},
      protocol::ping_command{}};
  for (protocol::command const& c : commands) {
    statement const s = encode(c, who);
    auto const at = all.find("prepare " + std::string{s.name()} + (s.size() == 0 ? " as" : "("));
    ASSERT_NE(at, std::string::npos) << s.name();
    std::string_view const prepared = std::string_view{all}.substr(at, all.find(';', at) - at);
    EXPECT_EQ(std::count(prepared.begin(), prepared.end(), '$'), s.size()) << s.name();
    std::string const function = "function conch." + std::string{s.name()}.substr(6) + "(";
    if (s.size() == 0) continue;
    EXPECT_NE(schema().find(function), std::string_view::npos) << function;
  }
}

TEST(PostgresqlCodec, AnAnswerIsAListOfNumbers) {
  std::vector<std::int64_t> numbers;
  auto const read = [&](std::string_view text) {
    reply r;
    r.row = {text};
    return to_answer(r, numbers).what;
  };
  EXPECT_EQ(read("{1,-2,9007199254740991,-9007199254740991}"), fault::none);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -2, 9007199254740991, -9007199254740991}));
  EXPECT_EQ(read("{}"), fault::none);
  EXPECT_TRUE(numbers.empty());
  // A number with which the protocol could not reckon, as the greatest of 64 bits, is none that a function gives.
  for (char const* wrong :
       {"", "{", "1", "{1,NULL}", "{a}", "{9223372036854775808}", "{1,}x", "{9223372036854775807}",
        "{-9223372036854775808}", "{1,0,9223372036854775807}", "{9007199254740992}", "{-9007199254740992}"})
    EXPECT_EQ(read(wrong), fault::malformed) << wrong;
  EXPECT_EQ(to_answer({}, numbers).what, fault::malformed);
  EXPECT_EQ(to_answer({"40P01", "deadlock detected", {}}, numbers).what, fault::try_later);
}

template <class Push>
Push const* as(std::optional<protocol::push> const& p) {
  return p ? std::get_if<Push>(&*p) : nullptr;
}

TEST(PostgresqlCodec, ReadsWhatIsNotified) {
  std::string name;
  std::string const key = " 636f6e63683a7b617d", id = " " + client + ".7";
  auto p = read_push("+" + id + " 1234 1800000000000000 3000 0 0" + key, who, name);
  auto const* grant = as<protocol::pushed_grant>(p);
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->name, "a");
  EXPECT_EQ(grant->id.count, 7u);
  EXPECT_EQ(grant->fence, 1234);
  EXPECT_EQ(grant->claim, 3s);
  p = read_push("+" + id + " 1234 1800000000000000 3000 103 2" + key, who, name);
  grant = as<protocol::pushed_grant>(p);
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->kind, engine::permit_kind::segments);
  EXPECT_EQ(grant->chosen, 2u);
  EXPECT_NE(as<protocol::revocation>(read_push("!" + id + key, who, name)), nullptr);
  EXPECT_NE(as<protocol::request_to_let_go>(read_push("*" + id + key, who, name)), nullptr);
  p = read_push("=" + id + key, who, name);
  auto const* const freed = as<protocol::end_of_hold>(p);
  ASSERT_NE(freed, nullptr);
  EXPECT_EQ(freed->name, "a");
  EXPECT_EQ(freed->id.count, 7u);
  p = read_push("~" + id + " 250" + key, who, name);
  auto const* const end = as<protocol::end_of_lease>(p);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->left, 250ms);
}

TEST(PostgresqlCodec, BelievesNothingElse) {
  std::string name;
  std::string const key = " 636f6e63683a7b617d", id = client + ".7";
  std::vector<std::string> const wrong{"",
                                       "+",
                                       "hello",
                                       "+ " + id,
                                       "- " + id + key,
                                       "! other.7" + key,
                                       "! " + id,
                                       "! " + id + " 636f6e63683a7b617",
                                       "! " + id + " 636F6E63683A7B617D",
                                       "! " + id + " 7b617d",
                                       "! " + id + " 636f6e63683a7b7d",
                                       "+ " + id + " 1 2 0 0 0" + key,
                                       "+ " + id + " 1 2 99999999999 0 0" + key,
                                       "+ " + id + " 1 -2 3000 0 0" + key,
                                       "+ " + id + " 1 2 3000 7 0" + key,
                                       "+ " + id + " 1 2 3000 103 -1" + key,
                                       "+ " + id + " 1 2 3000 103 4294967298" + key};
  for (std::string const& one : wrong) EXPECT_FALSE(read_push(one, who, name)) << one;
  auto const p = read_push("+ " + id + " 9999999999999999 2 3000 0 0" + key, who, name);
  auto const* const grant = as<protocol::pushed_grant>(p);
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->fence, 0) << "of which no token can be made";
}

TEST(PostgresqlFaults, EachStateHasItsMeaning) {
  std::pair<char const*, fault> const all[] = {
      {"CN001", fault::wrong_type},    {"40001", fault::try_later},     {"40P01", fault::try_later},
      {"55P03", fault::try_later},     {"57014", fault::try_later},     {"57P03", fault::try_later},
      {"53300", fault::try_later},     {"53200", fault::try_later},     {"57P01", fault::reconnect},
      {"57P02", fault::reconnect},     {"57P05", fault::reconnect},     {"08006", fault::reconnect},
      {"25006", fault::reconnect},     {"26000", fault::reconnect},     {"3F000", fault::reconnect},
      {"42883", fault::reconnect},     {"42501", fault::access_denied}, {"28P01", fault::access_denied},
      {"28000", fault::access_denied}, {"3D000", fault::refused},       {"22P02", fault::refused},
      {"22012", fault::refused},       {"CN003", fault::refused},       {"", fault::try_later},
      {"23505", fault::try_later},     {"42P06", fault::try_later},     {"42P07", fault::try_later},
      {"42710", fault::try_later},     {"42723", fault::try_later},     {"55006", fault::try_later},
      {"53400", fault::try_later},     {"58030", fault::try_later},     {"57P04", fault::reconnect},
      {"25P03", fault::reconnect},     {"25P04", fault::reconnect},     {"42P01", fault::reconnect},
      {"0A000", fault::reconnect},     {"XX000", fault::reconnect},     {"55000", fault::refused},
      {"P0001", fault::refused},       {"99999", fault::refused}};
  for (auto const& [state, what] : all) EXPECT_EQ(classify(state), what) << state;
}

TEST(PostgresqlFaults, OneStateOfAPoolHasSeveralMeanings) {
  struct row {
    std::string_view state, words;
    fault what;
  };
  for (auto const& [state, words, what] : {
           row{"08P01", "no more connections allowed (max_client_conn)", fault::reconnect},
           {"08P01", "server login has been failing, cached error: connect failed", fault::reconnect},
           {"08P01", "query_wait_timeout", fault::reconnect},
           {"08P01", "client_login_timeout (server down)", fault::reconnect},
           {"08P01", "pgbouncer cannot connect to server", fault::reconnect},
           {"08P01", "no such user: conch", fault::access_denied},
           {"08P01", "auth failed", fault::access_denied},
           {"08P01", "password authentication failed", fault::access_denied},
           {"08P01", "SASL authentication failed", fault::access_denied},
           {"08P01", "login rejected", fault::access_denied},
           {"08P01", "no such database: shop", fault::refused},
           {"08P01", "database \"shop\" does not allow connections", fault::refused},
           {"08P01", "unsupported startup parameter: options", fault::refused},
           {"08P01", "bouncer config error", fault::refused},
           {"XX000", "Tenant or user not found", fault::access_denied},
           {"XX000", "MaxClientsInSessionMode: max clients reached", fault::reconnect},
           {"53300", "sorry, too many clients already", fault::try_later},
           {"57P03", "the database system is not accepting connections", fault::try_later},
       }) {
    EXPECT_EQ(classify(state, words), what) << words;
  }
}

TEST(PostgresqlFaults, TheStateOfARefusalIsFoundInItsWords) {
  auto const one = read_refusal(
      "connection to server at \"10.0.0.1\", port 5432 failed: FATAL:  28P01: password authentication "
      "failed\nLOCATION:  x.c:1\n");
  EXPECT_EQ(one.sqlstate, "28P01");
  EXPECT_EQ(one.words, "password authentication failed");
  auto const last = read_refusal(
      "FATAL:  57P03: the database system is starting up\nconnection failed: FATAL:  3D000: no such database\n");
  EXPECT_EQ(last.sqlstate, "3D000");
  auto const none = read_refusal(
      "connection to server at \"10.0.0.1\", port 1 failed: Connection refused\n\tIs the server running?\n");
  EXPECT_EQ(none.sqlstate, "");
  EXPECT_EQ(none.words, "connection to server at \"10.0.0.1\", port 1 failed: Connection refused");
  EXPECT_EQ(read_refusal("").words, "");
}

/// `localhost` may be two addresses, and it is the second that says what is wrong.
TEST(PostgresqlFaults, WhatTheLastAddressSaysIsNotCutOff) {
  std::string const first = "connection to server at \"::1\", port 5432 failed: Connection refused";
  std::string const second =
      "connection to server at \"127.0.0.1\", port 5432 failed: SSL error: certificate verify failed";
  std::string const hint = "\n\tIs the server running on that host and accepting TCP/IP connections?\n";
  EXPECT_EQ(read_refusal(first + hint + second + '\n').words, first + "; " + second);
  EXPECT_EQ(read_refusal(first + hint + first + hint + second).words, first + "; " + second);
  EXPECT_EQ(read_refusal(first + hint + std::string(500, 'x')).words, std::string(500, 'x'));
}

}  // namespace
}  // namespace conch::postgresql
