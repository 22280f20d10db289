#include "support/history/linearizable.hpp"

#include "support/history/holds.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

namespace conch::history {

namespace {

/// What is placed: a grant, an end, an answer that shows the state, or that the last fence is forgotten.
struct step {
  enum class kind : std::uint8_t { grant, end, seen, busy, forget };

  kind what;
  std::size_t hold;  // of `busy`: of the attempts
  interval when;
};

std::string in_ms(nanoseconds t) {
  std::string const us = std::to_string(t / 1'000 % 1'000);
  return std::to_string(t / 1'000'000) + "." + std::string(3 - us.size(), '0') + us;
}

std::string words_of(interval const& i) {
  return i.to == never ? "from " + in_ms(i.from) + " ms on"
                       : "between " + in_ms(i.from) + " and " + in_ms(i.to) + " ms";
}

std::string words_of(hold_record const& h) {
  return h.acquire->process + " with fence " + std::to_string(h.acquire->fence) + ", granted " + words_of(h.granted) +
         " and ended " + words_of(h.ended);
}

/// The steps of one lock, in the order of their begins.
class problem {
 public:
  problem(operations const& of_one_lock, specification const& what, std::string& wrong)
      : what_{what},
        holds_{holds_in(of_one_lock, wrong)} {
    bool const shows_room = what.busy == specification::busy_rule::held;
    for (std::size_t i = 0; i < holds_.size(); ++i) {
      hold_record const& h = holds_[i];
      // What nobody heard of hinders nobody: it can only explain that an attempt was told "busy".
      bool const heard = h.acquire->how == outcome::granted;
      if (!heard && !shows_room) continue;
      steps_.push_back({step::kind::grant, i, heard ? h.granted : interval{h.granted.from, never}});
      for (interval const& seen : h.seen) steps_.push_back({step::kind::seen, i, seen});
      steps_.push_back({step::kind::end, i, h.ended});
    }
    for (operation const& o : of_one_lock) {
      if (o.what == action::forgotten) steps_.push_back({step::kind::forget, 0, {o.invoked, o.invoked}});
      if (!shows_room || o.how != outcome::busy) continue;
      steps_.push_back({step::kind::busy, busy_.size(), {o.invoked, o.completed}});
      busy_.push_back(&o);
    }
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](step const& a, step const& b) { return a.when.from < b.when.from; });
  }

  std::vector<step> const& steps() const { return steps_; }
  hold_record const& hold(std::size_t number) const { return holds_[number]; }
  std::size_t holds() const { return holds_.size(); }
  operation const& busy(std::size_t number) const { return *busy_[number]; }
  specification const& what() const { return what_; }
  /// An end hinders nobody, unless somebody must find the lock busy.
  bool ends_as_soon_as_possible() const { return busy_.empty(); }

 private:
  specification const what_;
  std::vector<hold_record> holds_;
  std::vector<operation const*> busy_;
  std::vector<step> steps_;
};

/// The lock, after some of the steps.
class state {
 public:
  explicit state(problem const& p) : problem_{p}, holds_(p.holds()) {
    for (std::size_t i = 0; i < p.holds(); ++i) holds_[i].unseen = p.hold(i).seen.size();
  }

  /// What it does, one operation at a time.
  bool allows(step const& s) const {
    specification const& what = problem_.what();
    switch (s.what) {
      case step::kind::grant: {
        operation const& a = *problem_.hold(s.hold).acquire;
        bool const rises = !what.fences_rise || a.how == outcome::unknown || a.fence > last_fence_;
        return rises && in_use_ + a.weight <= what.limit;
      }
      case step::kind::end: return holds_[s.hold].is_there && holds_[s.hold].unseen == 0;
      case step::kind::seen: return holds_[s.hold].is_there;
      case step::kind::busy: return in_use_ + problem_.busy(s.hold).weight > what.limit;
      case step::kind::forget: return true;
    }
    return false;
  }

  void apply(step const& s) {
    switch (s.what) {
      case step::kind::grant: {
        operation const& a = *problem_.hold(s.hold).acquire;
        holds_[s.hold].is_there = true;
        in_use_ += a.weight;
        if (a.how == outcome::granted) last_fence_ = a.fence;
        return;
      }
      case step::kind::end:
        holds_[s.hold].is_there = false;
        in_use_ -= problem_.hold(s.hold).acquire->weight;
        return;
      case step::kind::seen: --holds_[s.hold].unseen; return;
      case step::kind::busy: return;
      case step::kind::forget: last_fence_ = 0; return;
    }
  }

  void undo(step const& s, std::int64_t fence_before) {
    if (s.what == step::kind::seen) ++holds_[s.hold].unseen;
    if (s.what == step::kind::grant || s.what == step::kind::end) {
      bool& is_there = holds_[s.hold].is_there;
      is_there = !is_there;
      std::uint32_t const weight = problem_.hold(s.hold).acquire->weight;
      in_use_ = is_there ? in_use_ + weight : in_use_ - weight;
    }
    last_fence_ = fence_before;
  }

  std::int64_t last_fence() const { return last_fence_; }
  bool is_there(std::size_t hold) const { return holds_[hold].is_there; }

 private:
  struct of_hold {
    bool is_there = false;
    std::size_t unseen = 0;
  };

  problem const& problem_;
  std::vector<of_hold> holds_;
  std::uint64_t in_use_ = 0;
  std::int64_t last_fence_ = 0;
};

/// Which steps are placed. By the order of their begins and by that of their ends it knows the first that is not.
class placement {
 public:
  explicit placement(std::vector<step> const& steps)
      : steps_{steps},
        placed_(steps.size()),
        by_end_(steps.size()),
        rank_(steps.size()) {
    for (std::size_t i = 0; i < steps.size(); ++i) by_end_[i] = i;
    std::stable_sort(by_end_.begin(), by_end_.end(),
                     [&](std::size_t a, std::size_t b) { return steps[a].when.to < steps[b].when.to; });
    for (std::size_t i = 0; i < by_end_.size(); ++i) rank_[by_end_[i]] = i;
    advance();
  }

  bool is_placed(std::size_t which) const { return placed_[which]; }
  /// The first whose answer is there before that of all others. Whatever was asked later comes after it.
  std::optional<std::size_t> most_urgent() const {
    if (first_by_end_ == by_end_.size() || steps_[by_end_[first_by_end_]].when.to == never) return std::nullopt;
    return by_end_[first_by_end_];
  }
  std::size_t first() const { return first_; }

  void place(std::size_t which) {
    placed_[which] = true;
    ++count_;
    end_ = std::max(end_, which + 1);
    advance();
  }
  void remove(std::size_t which) {
    placed_[which] = false;
    --count_;
    first_ = std::min(first_, which);
    first_by_end_ = std::min(first_by_end_, rank_[which]);
  }
  std::size_t count() const { return count_; }

  /// The same for the same set: the number of those that are all placed, and then one letter for each.
  std::string key() const {
    std::string text = std::to_string(first_) + ":";
    for (std::size_t i = first_; i < end_; ++i) text += placed_[i] ? '1' : '0';
    text.resize(text.find_last_not_of('0') + 1);
    return text;
  }

 private:
  void advance() {
    while (first_ < placed_.size() && placed_[first_]) ++first_;
    while (first_by_end_ < by_end_.size() && placed_[by_end_[first_by_end_]]) ++first_by_end_;
  }

  std::vector<step> const& steps_;
  std::vector<char> placed_;
  std::vector<std::size_t> by_end_, rank_;
  std::size_t first_ = 0, first_by_end_ = 0, end_ = 0, count_ = 0;
};

class search {
 public:
  explicit search(problem const& p) : problem_{p}, state_{p}, placement_{p.steps()}, rank_(p.steps().size()) {
    for (std::size_t i = 0; i < p.steps().size(); ++i) {
      if (p.steps()[i].what == step::kind::forget) forgets_.push_back(i);
      if (has_fence(i)) by_fence_.push_back(i);
    }
    std::stable_sort(by_fence_.begin(), by_fence_.end(),
                     [&](std::size_t a, std::size_t b) { return fence(a) < fence(b); });
    for (std::size_t i = 0; i < by_fence_.size(); ++i) rank_[by_fence_[i]] = i;
  }

  /// None: `most` was not enough.
  std::optional<bool> run(std::uint64_t most) {
    std::optional<choice> next = first_choice();
    while (placement_.most_urgent()) {
      if (!next) {
        note_dead_end();
        if (path_.empty()) return false;
        next = take_back();
        continue;
      }
      if (++tried_ > most) return std::nullopt;
      place(*next);
      next = is_new() ? first_choice() : take_back();
    }
    return true;
  }

  std::uint64_t tried() const { return tried_; }
  std::string const& words() const { return words_; }

 private:
  struct choice {
    std::size_t which;
    bool only = false;  // nothing else need be tried in its place
  };
  struct taken {
    choice what;
    std::int64_t fence_before;
  };

  std::int64_t fence(std::size_t which) const { return problem_.hold(problem_.steps()[which].hold).acquire->fence; }

  bool has_fence(std::size_t which) const {
    step const& s = problem_.steps()[which];
    return problem_.what().fences_rise && s.what == step::kind::grant &&
           problem_.hold(s.hold).acquire->how == outcome::granted;
  }

  bool may_come_next(std::size_t which) const {
    if (placement_.is_placed(which) || !state_.allows(problem_.steps()[which])) return false;
    return !has_fence(which) || !leaves_one_behind(which);
  }
  /// A grant with a smaller fence has to come before it, unless the last fence is forgotten in between.
  bool leaves_one_behind(std::size_t which) const {
    nanoseconds const forgotten =
        next_forget_ < forgets_.size() ? problem_.steps()[forgets_[next_forget_]].when.from : never;
    for (std::size_t i = next_fence_; i < rank_[which]; ++i) {
      if (!placement_.is_placed(by_fence_[i]) && problem_.steps()[by_fence_[i]].when.to < forgotten) return true;
    }
    return false;
  }
  /// Nothing that has not been placed was answered before this was asked.
  bool begins_too_late(std::size_t which) const {
    auto const urgent = placement_.most_urgent();
    return urgent && problem_.steps()[which].when.from > problem_.steps()[*urgent].when.to;
  }

  /// What changes nothing for the others comes first, and need not be tried later.
  std::optional<choice> first_choice() const {
    for (std::size_t i = placement_.first(); i < problem_.steps().size() && !begins_too_late(i); ++i) {
      step::kind const what = problem_.steps()[i].what;
      bool const is_free = what == step::kind::seen || what == step::kind::busy ||
                           (what == step::kind::end && problem_.ends_as_soon_as_possible());
      if (is_free && may_come_next(i)) return choice{i, true};
    }
    return next_choice(placement_.first());
  }

  std::optional<choice> next_choice(std::size_t from) const {
    // Then only the grant with the next fence is left.
    bool const is_only =
        problem_.what().fences_rise && next_forget_ == forgets_.size() && problem_.ends_as_soon_as_possible();
    for (std::size_t i = from; i < problem_.steps().size() && !begins_too_late(i); ++i) {
      if (may_come_next(i)) return choice{i, is_only};
    }
    return std::nullopt;
  }

  void place(choice const& c) {
    step const& s = problem_.steps()[c.which];
    path_.push_back({c, state_.last_fence()});
    state_.apply(s);
    placement_.place(c.which);
    if (s.what == step::kind::forget) ++next_forget_;
    while (next_fence_ < by_fence_.size() && placement_.is_placed(by_fence_[next_fence_])) ++next_fence_;
  }

  std::optional<choice> take_back() {
    while (!path_.empty()) {
      taken const last = path_.back();
      path_.pop_back();
      placement_.remove(last.what.which);
      state_.undo(problem_.steps()[last.what.which], last.fence_before);
      if (problem_.steps()[last.what.which].what == step::kind::forget) --next_forget_;
      if (has_fence(last.what.which)) next_fence_ = std::min(next_fence_, rank_[last.what.which]);
      if (last.what.only) continue;
      if (auto const next = next_choice(last.what.which + 1)) return next;
    }
    return std::nullopt;
  }

  /// The same steps leave the same holds, but not always the same last fence.
  bool is_new() {
    if (path_.back().what.only) return true;
    return known_.insert(placement_.key() + "/" + std::to_string(state_.last_fence())).second;
  }

  /// The one behind the most steps explains most.
  void note_dead_end() {
    if (placement_.count() < deepest_ || (deepest_ != 0 && placement_.count() == deepest_)) return;
    deepest_ = placement_.count();
    auto const urgent = placement_.most_urgent();
    if (!urgent) return;
    step const& s = problem_.steps()[*urgent];
    if (s.what == step::kind::busy) {
      operation const& o = problem_.busy(s.hold);
      words_ = "'" + o.lock + "': " + o.process + " was told " + words_of(s.when) +
               " that it is busy, and there was room for it";
      return;
    }
    hold_record const& h = problem_.hold(s.hold);
    static char const* const what_of[] = {"the grant", "the end", "a prolongation"};
    words_ = "'" + h.acquire->lock + "': no order explains " + what_of[static_cast<int>(s.what)] + " of the hold of " +
             words_of(h) + ", after fence " + std::to_string(state_.last_fence());
    for (std::size_t i = 0; i < problem_.holds(); ++i) {
      if (i != s.hold && state_.is_there(i)) words_ += "; beside that of " + words_of(problem_.hold(i));
    }
  }

  problem const& problem_;
  state state_;
  placement placement_;
  std::vector<std::size_t> by_fence_, rank_;  // grants, and their places in that order
  std::vector<std::size_t> forgets_;          // in the order of time
  std::size_t next_fence_ = 0, next_forget_ = 0;
  std::vector<taken> path_;
  std::unordered_set<std::string> known_;
  std::uint64_t tried_ = 0;
  std::size_t deepest_ = 0;
  std::string words_;
};

bool asks(operation const& o) { return o.what == action::acquire || o.what == action::attempt; }

/// From when until when somebody who asked may have been in the way of others.
struct in_the_way {
  operation const* asked;
  interval when;
};

std::vector<in_the_way> all_in_the_way(operations const& all, nanoseconds settling) {
  struct ends {
    nanoseconds last = 0;
    bool told = false;
  };
  std::map<std::uint64_t, ends> by_hold;
  for (operation const& o : all) {
    ends& e = by_hold[o.hold];
    e.last = std::max(e.last, o.completed);
    e.told = e.told || o.what == action::release || o.what == action::lost;
  }
  std::vector<in_the_way> result;
  for (operation const& o : all) {
    if (!asks(o)) continue;
    ends const& e = by_hold[o.hold];
    bool const stays = (o.how == outcome::granted && !e.told) || e.last > never - settling;
    result.push_back({&o, {o.invoked, stays ? never : e.last + settling}});
  }
  return result;
}

/// Nobody else asked for the lock or had it, and an attempt was told that it is busy.
std::string busy_without_a_reason(operations const& all, specification const& what) {
  std::vector<in_the_way> const others = all_in_the_way(all, what.settling);
  for (operation const& busy : all) {
    if (busy.how != outcome::busy) continue;
    bool const is_wanted = std::any_of(others.begin(), others.end(), [&](in_the_way const& other) {
      return other.asked != &busy && other.when.from <= busy.completed && other.when.to >= busy.invoked;
    });
    if (!is_wanted)
      return "'" + busy.lock + "': " + busy.process + " was told " + words_of({busy.invoked, busy.completed}) +
             " that it is busy, and nobody had it or asked for it";
  }
  return {};
}

}  // namespace

verdict judge_lock(operations const& of_one_lock, specification const& what, std::uint64_t most) {
  verdict v;
  if (of_one_lock.empty()) return v;
  v.lock = of_one_lock.front().lock;
  problem const p{of_one_lock, what, v.words};
  if (v.words.empty() && what.busy == specification::busy_rule::wanted)
    v.words = busy_without_a_reason(of_one_lock, what);
  if (!v.words.empty()) {
    v.is = verdict::answer::broken;
    return v;
  }
  search s{p};
  auto const found = s.run(most);
  v.tried = s.tried();
  v.is = !found ? verdict::answer::too_large : *found ? verdict::answer::linearizable : verdict::answer::broken;
  if (!found)
    v.words = "'" + v.lock + "': " + std::to_string(most) + " placements are not enough to judge " +
              std::to_string(of_one_lock.size()) + " operations";
  if (v.broken()) v.words = s.words();
  return v;
}

verdict judge(operations const& all, specification const& what, std::uint64_t most) {
  std::map<std::string, operations> by_lock;
  for (operation const& o : all) by_lock[o.lock].push_back(o);
  verdict result;
  for (auto const& [lock, of_one] : by_lock) {
    verdict v = judge_lock(of_one, what, most);
    v.tried += result.tried;
    bool const is_worse =
        v.broken() || (v.is == verdict::answer::too_large && result.is == verdict::answer::linearizable);
    if (is_worse) result = v;
    result.tried = v.tried;
    if (v.broken()) return result;
  }
  return result;
}

}  // namespace conch::history
