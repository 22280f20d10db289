// A judge that keeps its books and says nothing: what it would object to is left to the history.
#pragma once

#include "sim/judges/observer.hpp"

namespace conch::sim {

/// Applies to the worlds that this thread makes from now on.
extern thread_local bool others_are_muted;

/// What is asserted elsewhere, in the simulated clients and about single attempts, still ends a schedule.
template <class Judge>
class muted final : public Judge {
 public:
  using Judge::Judge;

  void before(std::span<std::string_view const> argv, link const* by) override {
    mute([&] { Judge::before(argv, by); });
  }
  void after(std::span<std::string_view const> argv, value const& reply) override {
    mute([&] { Judge::after(argv, reply); });
  }
  void ordered(int name) override {
    mute([&] { Judge::ordered(name); });
  }
  void forced(int name, observer::owner_fences const& owners, std::vector<std::string> const& pushed,
              bool more_to_do) override {
    mute([&] { Judge::forced(name, owners, pushed, more_to_do); });
  }
  void limit_set(int name, std::int64_t limit, bool surely, bool more_to_do) override {
    mute([&] { Judge::limit_set(name, limit, surely, more_to_do); });
  }
  void answered(sim_acquisition& a, bool granted) override {
    mute([&] { Judge::answered(a, granted); });
  }
  void released(sim_acquisition& a) override {
    mute([&] { Judge::released(a); });
  }
  void release_answered(sim_acquisition& a, bool was_held, bool failed) override {
    mute([&] { Judge::release_answered(a, was_held, failed); });
  }
  void detaching(sim_acquisition& a) override {
    mute([&] { Judge::detaching(a); });
  }
  void detached(sim_acquisition& a, error_code why) override {
    mute([&] { Judge::detached(a, why); });
  }
  void lost(sim_acquisition& a) override {
    mute([&] { Judge::lost(a); });
  }
  void writes(sim_client& c, protocol::command const& what) override {
    mute([&] { Judge::writes(c, what); });
  }
  void checked(sim_client& c) override {
    mute([&] { Judge::checked(c); });
  }
  void nothing_owned_by_the_living() override {}
  void cost() override {}

 private:
  template <class Judgement>
  static void mute(Judgement const& judge) {
    try {
      judge();
    } catch (violation const&) {
    }
  }
};

}  // namespace conch::sim
