// What a server may make libpq do while it logs in.
#include "servers/postgresql/login_guard.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace conch::postgresql {
namespace {

using step = login_guard::step;

std::string number(std::uint32_t n) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(n >> shift & 0xff);
  return text;
}

std::string message(char letter, std::string const& rest) {
  return letter + number(static_cast<std::uint32_t>(rest.size() + 4)) + rest;
}
std::string question(std::uint32_t kind, std::string const& rest) { return message('R', number(kind) + rest); }

std::string const mechanisms = question(10, std::string("SCRAM-SHA-256\0\0", 15));
std::string rounds(std::string const& n) { return question(11, "r=ab+c/d,s=MDEyMw==,i=" + n); }

TEST(PostgresqlLogin, AsManyRoundsAsAServerMayAskForAreBounded) {
  for (std::string const good : {"1", "4096", "200000"}) {
    login_guard guard;
    EXPECT_EQ(guard.look(mechanisms), step::pass);
    EXPECT_EQ(guard.look(rounds(good)), step::pass) << good;
  }
  for (std::string const dear : {"200001", "2147483647", "99999999999999999999999", "+2147483647", " 2147483647",
                                 "0x7fffffff", "4096,i=2147483647"}) {
    login_guard guard;
    EXPECT_EQ(guard.look(mechanisms), step::pass);
    EXPECT_EQ(guard.look(rounds(dear)), step::too_dear) << dear;
  }
}

TEST(PostgresqlLogin, AQuestionIsReadWhenItIsWhole) {
  std::string const all = rounds("2147483647");
  for (std::size_t size = 1; size < all.size(); ++size) {
    login_guard guard;
    EXPECT_EQ(guard.look(std::string_view{all}.substr(0, size)), step::wait) << size;
  }
  EXPECT_EQ(login_guard{}.look(all), step::too_dear);
  EXPECT_EQ(login_guard{}.look(""), step::nothing);
}

/// It would stand in libpq's buffer, and the next look would begin in the middle of a message.
TEST(PostgresqlLogin, NothingComesBehindAQuestion) {
  EXPECT_EQ(login_guard{}.look(mechanisms + "R"), step::too_much);
  EXPECT_EQ(login_guard{}.look(message('v', "12345678") + mechanisms + rounds("4096")), step::too_much);
  EXPECT_EQ(login_guard{}.look(message('v', "12345678") + mechanisms), step::pass);
  for (std::string const& word : {std::string{"nonce,s=MDEyMw==,i=2147483647"},
                                  std::string{"Rnonce,s=MDEyMw==,i=2147483647"}, std::string{"Enonce,s=MDEy"}}) {
    login_guard guard;
    EXPECT_EQ(guard.look(mechanisms), step::pass);
    EXPECT_EQ(guard.look(word), step::too_much) << word;
  }
}

TEST(PostgresqlLogin, AllElseIsLeftToLibpq) {
  std::string const welcome = question(0, "") + message('S', "a") + message('Z', "I");
  for (std::string const& other :
       {welcome, question(5, "salt"), question(3, ""), question(12, "v=abc") + welcome, message('E', "SFATAL"),
        std::string{"HTTP/1.1 400"}, std::string{"E: no memory to fork, said by an old server"}}) {
    EXPECT_EQ(login_guard{}.look(other), step::pass) << other;
  }
  login_guard guard;
  EXPECT_EQ(guard.look(mechanisms), step::pass);
  EXPECT_EQ(guard.look(rounds("4096")), step::pass);
  EXPECT_EQ(guard.look(question(12, "v=abc") + welcome), step::pass);
  EXPECT_EQ(guard.look(message('E', "SFATAL")), step::pass);
}

}  // namespace
}  // namespace conch::postgresql
