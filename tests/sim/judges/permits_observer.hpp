// The judge of a world whose locks have several owners. What it asserts by itself is below; the rest, and the books,
// are the observer's.
#pragma once

#include "sim/judges/observer.hpp"

#include <functional>

namespace conch::sim {

class permits_observer : public observer {
 public:
  permits_observer(world& w, plan const& p);

  void before(std::span<std::string_view const> argv, link const* by) override;
  void after(std::span<std::string_view const> argv, value const& reply) override;
  void redirected() override { permit_steps_.clear(); }
  void first_fence(int name, std::int64_t fence) override;
  void data_lost() override;
  void lock_tampered(int name) override;
  void ordered(int name) override;
  owner_fences owners_of(int name) const override;
  bool owns(guarded_write const& w) const override;
  void forced(int name, owner_fences const& owners, std::vector<std::string> const& pushed, bool more_to_do) override;
  std::int64_t limit_set_of(int name) const override;
  void limit_set(int name, std::int64_t limit, bool surely, bool more_to_do) override;
  void fence_spoilt(int name) override;
  void clock_shows(std::int64_t ms) override;

  void asked(sim_acquisition& a) override;
  void answered(sim_acquisition& a, bool granted) override;
  void released(sim_acquisition& a) override;
  void release_answered(sim_acquisition& a, bool was_held, bool failed) override;
  void detaching(sim_acquisition& a) override;
  void detached(sim_acquisition& a, error_code why) override;
  void lost(sim_acquisition& a) override;
  void gone(sim_acquisition& a) override;
  void writes(sim_client& c, protocol::command const& what) override;
  void checked(sim_client& c) override;
  void nothing_owned_by_the_living() override;
  void cost() override;

 private:
  struct owner {
    std::int64_t weight = 0, fence = 0, ends_us = 0, segment = 0;
    char state = 'h';
    bool operator==(owner const&) const = default;
  };
  struct waiter {
    std::string id, visited;
    std::int64_t weight = 0, ticket = 0;
    bool operator==(waiter const&) const = default;
  };
  /// What the server has about one lock.
  struct permits_state {
    bool there = false, readable = true;
    std::int64_t limit = 0, used = 0, first_end = 0;
    bool indexed = false;
    std::int64_t walked = 0;
    std::map<std::string, std::int64_t> ends;  // in the set of ends
    std::string map;
    std::map<std::string, owner> owners;
    std::vector<waiter> line;
    std::int64_t kept_fence = 0;
  };
  struct permit_step {
    int name = -1;
    bool acquires = false, releases = false, adopts = false;
    std::string id, origin = {};  // of an adoption: "ID FENCE"
    std::int64_t fence = 0;       // of a renewal: of the grant that is meant; 0: of any
    bool keep = false, waits = false, patient = false;
    std::int64_t rest = 0;  // of a release: what stays
    bool knows_limit = true;
    std::int64_t lease = 0, claim = 0, ticket = 0;
    std::size_t index = 0;
    waiter me{};  // of an acquire: what it asks for
    permits_state was;
  };
  /// What was handed to clients that may be dead, while more were waiting.
  struct hand_over {
    std::vector<std::string> heirs;
    std::string from;  // client
    nanos at = 0;
    std::weak_ptr<link> by;
  };
  struct permit_watch {
    std::optional<left_over> left;
    std::vector<hand_over> passed;
    permits_state last;  // as the last script left it
    std::vector<sim_acquisition*> active, waiting;
    nanos moved_at = 0;  // when a client last became an owner, or ceased to be one
    std::int64_t highest_written = 0;
    std::int64_t kept_until_ms = 0;  // until then, by the server's clock, that is not forgotten
    std::int64_t disowned = 0;
    std::int64_t limit_set = 0;                        // 0: it was not, or that may be forgotten
    std::int64_t highest_limit = 0, lowest_limit = 0;  // of those that were set
  };

  static std::string lock_words(int name);
  bool believed(sim_acquisition const& a) const;
  bool disowned(sim_acquisition const& a) const;
  void backed(sim_acquisition const& a);
  void waited_for_nothing(sim_acquisition const& a) const;
  void note_moves(permit_step const& s, permits_state const& is);
  // permits_server.cpp
  permits_state look_at(int name) const;
  void judge_sums(permit_step const& s, permits_state const& is);
  void judge_line(int name, permits_state const& is) const;
  void judge_owners(permit_step const& s, permits_state const& is);
  void judge_places(permit_step const& s, permits_state const& is, value const& reply) const;
  void judge_answer(permit_step const& s, permits_state const& is, value const& reply);
  void judge_adoption(permit_step const& s, permits_state const& is, value const& reply);
  bool fits(permits_state const& is, waiter const& w) const;
  void judge_hand_overs(permit_step const& s);
  void judge_free_line(permit_step const& s);
  void watch_hand_over(permit_step const& s, permits_state const& is, link const* by);

  std::vector<permit_watch> watches_;
  std::vector<permit_step> permit_steps_;
  link const* by_ = nullptr;
  std::uint64_t asked_permits_ = 0, answered_ = 0, granted_ = 0, gave_up_permits_ = 0;
  std::uint64_t acquires_ = 0, releases_ = 0, claimed_ = 0, renewals_ = 0;
  nanos waited_ = 0, held_ = 0;
};

}  // namespace conch::sim
