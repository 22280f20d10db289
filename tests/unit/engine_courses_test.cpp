// What one acquire leads to is the same whatever the one before it has met: nothing of an earlier attempt, hold or
// refusal counts for the next. Each course is taken after each other, in one client and for one lock.
#include "unit/engine_fixture.hpp"

#include <iterator>

namespace conch::engine {
namespace {

class EngineCourses : public engine_test {
 public:
  EngineCourses() {
    settings.keep_alive = 0s;
    settings.observer = std::make_shared<conch::observer>();
  }

  void on_observed(acquisition&, observation const& o) override {
    told += std::to_string(static_cast<int>(o.what)) + ' ';
  }
  void on_requested(acquisition&) override { told += "requested "; }

  void wait_for_a_command() {
    for (time_point const end = now + 10s; unanswered.empty() && now < end;) advance(10ms);
  }

  /// Says that nothing is left of what has ended.
  void let_go() {
    while (!unanswered.empty()) {
      if (unanswered.front().starts_with("release")) released();
      else if (unanswered.front().starts_with("leave")) removed();
      else if (unanswered.front().starts_with("renew")) renewed({0});
      else tell_busy();
    }
  }

  /// What is asked, without ids, and what is told.
  std::string taken(void (*course)(EngineCourses&)) {
    take_sent();
    received();
    told.clear();
    course(*this);
    let_go();
    std::string all;
    for (auto const& one : take_sent()) all += one.text.substr(0, one.text.find(' ')) + ' ';
    for (std::string const& one : received()) all += one + ' ';
    return all + told;
  }

  std::string told;
};

void a_try_that_is_busy(EngineCourses& e) {
  e.ask("a", "L", {.once = true});
  e.tell_busy();
}

void a_wait_that_is_cancelled(EngineCourses& e) {
  caller& a = e.ask("a");
  e.queue(30'000);
  e.cancel(a, cancel_type::terminal);
}

void a_wait_that_fails(EngineCourses& e) {
  e.ask("a");
  e.answer(fault::refused, "OOM");
}

void a_wait_that_is_put_off(EngineCourses& e) {
  caller& a = e.ask("a");
  e.answer(fault::try_later, "LOADING");
  e.wait_for_a_command();
  e.grant(100);
  e.release(a);
}

void a_wait_that_is_pushed(EngineCourses& e) {
  caller& a = e.ask("a");
  e.queue(30'000);
  e.advance(1ms);
  e.push(e.place_of("L").id, 100);
  e.release(a);
}

void a_hold_that_is_handed_on(EngineCourses& e) {
  caller& a = e.ask("a");
  e.grant(100);
  caller& b = e.ask("b");
  e.release(a);
  e.release(b);
}

void a_hold_that_another_client_asks_for(EngineCourses& e) {
  caller& a = e.ask("a");
  e.grant(100);
  e.cohort->watch_requests(a, e.now);
  if (!e.unanswered.empty()) e.answer({0});
  e.remote->receiver().pushed(request_to_let_go{"L", e.place_of("L").id}, e.now);
  e.release(a);
}

void a_hold_of_which_a_renewal_is_refused(EngineCourses& e) {
  caller& a = e.ask("a");
  e.grant(100);
  e.told += "why: " + e.remote->why_not_renewed(e.place_of("L"), e.now) + ' ';
  e.wait_for_a_command();
  e.answer(fault::refused, "OOM");
  e.release(a);
}

void a_hold_that_is_extended(EngineCourses& e) {
  caller& a = e.ask("a", "L", {.max_hold = 5s});
  e.grant(100);
  e.extend(a, 60s);
  e.wait_for_a_command();
  e.renewed({1});
  e.release(a);
}

void a_hold_that_is_lost(EngineCourses& e) {
  e.ask("a");
  e.grant(100);
  e.wait_for_a_command();
  e.renewed({0});
}

TEST_F(EngineCourses, EachIsTheSameWhateverTheOneBeforeItHasMet) {
  constexpr void (*courses[])(EngineCourses&) = {a_try_that_is_busy,
                                                 a_wait_that_is_cancelled,
                                                 a_wait_that_fails,
                                                 a_wait_that_is_put_off,
                                                 a_wait_that_is_pushed,
                                                 a_hold_that_is_handed_on,
                                                 a_hold_that_another_client_asks_for,
                                                 a_hold_of_which_a_renewal_is_refused,
                                                 a_hold_that_is_extended,
                                                 a_hold_that_is_lost};
  for (std::size_t after = 0; after < std::size(courses); ++after) {
    start_connected();
    std::string const expected = taken(courses[after]);
    for (std::size_t before = 0; before < std::size(courses); ++before) {
      start_connected();
      taken(courses[before]);
      EXPECT_EQ(taken(courses[after]), expected) << "course " << after << " after course " << before;
    }
  }
}

}  // namespace
}  // namespace conch::engine
