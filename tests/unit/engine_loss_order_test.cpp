#include "engine_fixture.hpp"

namespace conch::engine {
namespace {

// What is sent may be carried out, and another granted, before the engine returns: in memory at once, over a connection
// by the thread that writes. So the client that loses the lock by it must have been told by then.
class EngineLossOrder : public engine_test {
 public:
  void send(command const& c) override {
    if (watched != nullptr && std::holds_alternative<release_command>(c))
      valid_when_given_back = watched->deadline() > now;
    engine_test::send(c);
  }

  caller* watched = nullptr;
  std::optional<bool> valid_when_given_back;
};

TEST_F(EngineLossOrder, AnOverdueClaimIsTakenFromItsHolderBeforeItIsGivenBack) {  // P1, P9
  start_connected();
  watched = &ask("a");
  take_sent();
  push(1, 100);
  ASSERT_GT(watched->deadline(), now);
  queue(30'000);  // the question found the claim over, and put us in line again
  EXPECT_EQ(valid_when_given_back, false);
}

}  // namespace
}  // namespace conch::engine
