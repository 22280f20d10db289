// What a client tells others about itself: as text, and to its server.
#include "base/introduction.hpp"
#include "base/identity.hpp"
#include "base/readable.hpp"
#include "unit/engine_fixture.hpp"

#include <conch/named_lock.hpp>
#include <conch/print.hpp>

namespace conch::engine {
namespace {

TEST(Introduction, IsReadAsItWasWritten) {
  introduction const all{"billing@pod-7:4711", {{"stock", "order 17, \u00fc", 0}, {"a b\n%", "", 42}}};
  std::string const text = conch::to_text(all);
  EXPECT_EQ(text, "billing@pod-7:4711\n0 stock order%2017,%20%c3%bc\n42 a%20b%0a%25 %");
  EXPECT_EQ(read_introduction(text), all);
  EXPECT_EQ(read_introduction(conch::to_text({})), introduction{});
  EXPECT_EQ(read_introduction(""), introduction{});
}

TEST(Introduction, OfAStrangerIsReadAsFarAsItMakesSense) {
  EXPECT_EQ(read_introduction("%4\n1 a b"), (introduction{"", {{"a", "b", 1}}}));
  EXPECT_EQ(read_introduction(std::string(longest_label + 1, 'x')).label, "");
  EXPECT_EQ(read_introduction("me\n-1 a b\nx a b\n1 a\n1\n\n7 a " + std::string(longest_note + 1, 'x')).uses.size(),
            0u);
  std::string many = "me";
  for (std::size_t i = 0; i < 2 * most_uses; ++i) many += "\n1 a b";
  EXPECT_EQ(read_introduction(many).uses.size(), most_uses);
}

TEST(Introduction, NotesAreOfOneGrantOrOfTheOnlyWait) {
  introduction const all{"me", {{"a", "waits", 0}, {"a", "has it", 5}, {"b", "one", 0}, {"b", "two", 0}}};
  EXPECT_EQ(note_of(all, "a", 5), "has it");
  EXPECT_EQ(note_of(all, "a", 0), "waits");
  EXPECT_EQ(note_of(all, "a", 6), std::nullopt);
  EXPECT_EQ(note_of(all, "b", 0), std::nullopt) << "two of that client wait";
}

TEST(Introduction, NamesAClientInOneWayEverywhere) {
  EXPECT_EQ(name_of_client("billing@pod-7", "", "5e"), "billing@pod-7");
  EXPECT_EQ(name_of_client("billing@pod-7", "order 17", "5e"), "billing@pod-7 (order 17)");
  EXPECT_EQ(name_of_client("", "", "5e"), "client 5e");
  EXPECT_EQ(name_of_client("", "order\n17", "5e"), "client 5e (order\\x0a17)");
  EXPECT_EQ(name_and_id_of_client("billing@pod-7", "order 17", "5e"), "billing@pod-7 (order 17), client 5e");
  EXPECT_EQ(name_and_id_of_client("", "order 17", "5e"), "client 5e (order 17)");
  lock_holder const h{.client = "5e", .note = "order 17"};
  wait_chain const chain{.links = {{"stock", h}}, .how = wait_chain::ending::works};
  EXPECT_NE(chain.text().find(" by client 5e (order 17), "), std::string::npos) << chain.text();
  EXPECT_TRUE(to_string(h).starts_with("client 5e (order 17) since ")) << to_string(h);
}

TEST(Label, OfAnyProgramMayBeShown) {
  for (std::string const& program :
       {std::string{"billing"}, std::string(300, 'x'), std::string{"a b\\\n\xff"}, std::string{},
        std::string{"\u0441\u0435\u0440\u0432\u0438\u0441\u0441\u0435\u0440\u0432\u0438\u0441\u0441\u0435\u0440\u0432"
                    "\u0438\u0441"}}) {
    std::string const label = detail::label_of(program);
    EXPECT_LE(label.size(), longest_label);
    EXPECT_EQ(printable(label), label);
    EXPECT_NE(label.find('@'), std::string::npos);
    EXPECT_TRUE(label.ends_with(':' + std::to_string(::getpid())));
  }
  EXPECT_TRUE(detail::label_of("billing").starts_with("billing@"));
  EXPECT_TRUE(detail::label_of("a b\n").starts_with("a?b?@"));
}

using EngineIntroduction = engine_test;

TEST_F(EngineIntroduction, IsSentOnEachConnectionAndAgainInTime) {
  start();
  settings.keep_alive = 0s;
  remote->introduce("me", "billing", now);
  EXPECT_EQ(sent(), texts{}) << "nothing connects for it";
  connect();
  EXPECT_EQ(unanswered.back(), "introduce me 'billing'");
  settle_connection();
  EXPECT_EQ(take_sent().back().lease, 1h);
  answer({});
  advance(30min);
  EXPECT_EQ(sent(), texts{"introduce me 'billing'"});
  answer(fault::access_denied, "NOPERM");
  EXPECT_TRUE(drops.empty()) << "locks work without it";
  disconnect();
  advance(2h);
  connect("1");
  EXPECT_EQ(unanswered.back(), "introduce me 'billing'");
}

TEST_F(EngineIntroduction, ChangesAndEndsWithTheClient) {
  start();
  settings.keep_alive = 0s;
  connect();
  settle_connection();
  take_sent();
  remote->introduce("me", "", now);
  EXPECT_EQ(sent(), texts{}) << "there is nothing to forget";
  remote->introduce("me", "a", now);
  remote->introduce("me", "b", now);
  EXPECT_EQ(sent(), (texts{"introduce me 'a'", "introduce me 'b'"}));
  answer({});
  answer({});
  remote->prepare_close(now);
  EXPECT_EQ(sent(), texts{"introduce me ''"});
  answer({1});
  advance(2h);
  EXPECT_EQ(sent(), texts{});
}

}  // namespace
}  // namespace conch::engine
