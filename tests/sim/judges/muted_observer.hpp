// The judge of a mutex world that keeps its books and says nothing: what it would object to is left to the history.
#pragma once

#include "sim/judges/observer.hpp"

namespace conch::sim {

/// Applies to the worlds that this thread makes from now on.
extern thread_local bool others_are_muted;

/// What is asserted elsewhere, in the simulated clients and about single attempts, still ends a schedule.
class muted_observer final : public observer {
 public:
  using observer::observer;

  void before(std::span<std::string_view const> argv, link const* by) override {
    mute([&] { observer::before(argv, by); });
  }
  void after(std::span<std::string_view const> argv, value const& reply) override {
    mute([&] { observer::after(argv, reply); });
  }
  void ordered(int name) override {
    mute([&] { observer::ordered(name); });
  }
  void forced(int name, owner_fences const& owners, std::vector<std::string> const& pushed, bool more_to_do) override {
    mute([&] { observer::forced(name, owners, pushed, more_to_do); });
  }
  void answered(sim_acquisition& a, bool granted) override {
    mute([&] { observer::answered(a, granted); });
  }
  void released(sim_acquisition& a) override {
    mute([&] { observer::released(a); });
  }
  void release_answered(sim_acquisition& a, bool was_held, bool failed) override {
    mute([&] { observer::release_answered(a, was_held, failed); });
  }
  void detaching(sim_acquisition& a) override {
    mute([&] { observer::detaching(a); });
  }
  void detached(sim_acquisition& a, error_code why) override {
    mute([&] { observer::detached(a, why); });
  }
  void lost(sim_acquisition& a) override {
    mute([&] { observer::lost(a); });
  }
  void writes(sim_client& c, protocol::command const& what) override {
    mute([&] { observer::writes(c, what); });
  }
  void checked(sim_client& c) override {
    mute([&] { observer::checked(c); });
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
