// `conch why`, with real processes: deadlocks of two and three jobs, also while processes are killed and stopped.

#include <signal.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "cli/command.hpp"

namespace conch::test {
namespace {

using namespace std::chrono_literals;

class Why : public Command {
 protected:
  /// Holds one lock, and asks for the other when told to.
  program nested(std::string const& outer, std::string const& inner) {
    std::string const until_told = "while [ ! -e " + file("go-" + outer) + " ]; do sleep 0.05; done; ";
    return run({outer, "--keep-connection"}, "echo pid $$; " + until_told + "exec $CONCH run " + inner + " -- true");
  }
  void go(std::string const& outer) { std::ofstream{file("go-" + outer)} << "go"; }
  std::string why(std::string const& name) {
    EXPECT_EQ(result_of({"why", name}), 0) << output_;
    return output_;
  }
  bool says(std::string const& words) const { return output_.find(words) != std::string::npos; }
  void wait_until_why_says(std::string const& name, std::string const& words) {
    auto const end = std::chrono::steady_clock::now() + 60s;
    while (why(name).find(words) == std::string::npos && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(says(words)) << output_;
  }
};

TEST_F(Why, FollowsTheHolder) {
  EXPECT_EQ(why("a"), "a: free\n");
  program holder = run({"a"}, "echo held; sleep 600");
  holder.wait_for("held");
  wait_until_why_says("a", " by sh@");
  wait_until_why_says("a", ", which waits for no lock\n");
  EXPECT_FALSE(says("deadlock"));
  EXPECT_EQ(result_of({"why", "--json", "a"}), 0);
  EXPECT_TRUE(output_.starts_with(R"({"name":"a","ending":"works","links":[{"lock":"a","client":")")) << output_;
  EXPECT_EQ(result_of({"why", "a", "b"}), 64);
}

TEST_F(Why, FindsADeadlockOfTwoAndHowToBreakIt) {
  program one = nested("a", "b"), two = nested("b", "a");
  one.wait_for("pid ");
  two.wait_for("pid ");
  go("a");
  wait_until_in_line("b");
  EXPECT_FALSE(why("a").find("deadlock") != std::string::npos) << output_;
  go("b");
  wait_until_why_says("a", "deadlock");
  EXPECT_TRUE(output_.starts_with("a: held for ")) << output_;
  EXPECT_TRUE(says(", which waits for b, held for ")) << output_;
  EXPECT_TRUE(says(", which waits for a: deadlock\nTo break it: end sh@")) << output_;
  std::string const before = "take its lock away: conch ";
  std::string order = output_.substr(output_.find(before) + before.size());
  EXPECT_EQ(order.find("unlock \""), 0u) << order;
  std::string const name = order.substr(8, 1),
                    fence = order.substr(order.rfind(' ') + 1, order.size() - order.rfind(' ') - 2);
  EXPECT_EQ(result_of({"why", "--json", "a"}), 0);
  EXPECT_TRUE(says("\"ending\":\"deadlock\"")) << output_;
  EXPECT_EQ(result_of({"unlock", name, "--yes", "--fence", fence}), 0) << output_;
  program& broken = name == "a" ? one : two;
  program& freed = name == "a" ? two : one;
  EXPECT_EQ(broken.wait_for_end(), 79);
  EXPECT_EQ(freed.wait_for_end(), 0);
  EXPECT_EQ(why("a"), "a: free\n");
}

TEST_F(Why, FindsADeadlockOfThreeOfWhichOneIsStoppedAndItsEnd) {
  program one = nested("a", "b"), two = nested("b", "c"), three = nested("c", "a");
  int stopped = 0;
  for (program* const p : {&one, &two, &three}) stopped = std::stoi(p->wait_for("pid ").substr(4));
  for (char const* const outer : {"a", "b", "c"}) go(outer);
  wait_until_why_says("b", "deadlock");
  EXPECT_TRUE(says("which waits for c, ") && says("which waits for a, ") && says("which waits for b: deadlock"))
      << output_;
  ::kill(stopped, SIGSTOP);
  EXPECT_NE(why("b").find("deadlock"), std::string::npos) << "who is stopped still waits";
  ::kill(stopped, SIGKILL);  // its conch frees c
  EXPECT_EQ(three.wait_for_end(), 128 + SIGKILL);
  EXPECT_EQ(two.wait_for_end(), 0);
  EXPECT_EQ(one.wait_for_end(), 0);
  EXPECT_EQ(why("b"), "b: free\n");
}

}  // namespace
}  // namespace conch::test
