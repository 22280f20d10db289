#include "support/history/holds.hpp"

#include <algorithm>
#include <map>

namespace conch::history {

namespace {

bool grants(operation const& o) {
  return (o.what == action::acquire || o.what == action::attempt) &&
         (o.how == outcome::granted || o.how == outcome::unknown);
}

class hold_reader {
 public:
  hold_reader(hold_record& h, std::string& wrong) : hold_{h}, wrong_{wrong} {
    // Nobody knows what became of a grant that nobody heard of.
    may_end_ = h.acquire->how == outcome::unknown ? h.acquire->invoked : std::min(h.deadline, h.acquire->excused);
    h.granted = {h.acquire->invoked, h.acquire->completed};
    h.ended = {may_end_, never};
  }

  void read(operation const& o) {
    switch (o.what) {
      case action::extend:
        if (o.how == outcome::held && o.invoked < hold_.acquire->excused)
          hold_.seen.push_back({o.invoked, o.completed});
        if (o.how == outcome::not_held) had_ended_by(o);
        return;
      case action::release: read_release(o); return;
      case action::lost:
        hold_.ended.from = std::min(hold_.ended.from, o.completed);
        had_ended_by(o);
        return;
      default: return;
    }
  }

 private:
  void read_release(operation const& o) {
    if (o.how == outcome::held) {
      // It was there when the release came, so it has not ended by itself.
      if (o.invoked >= hold_.deadline)
        wrong_ = o.process + " released '" + o.lock + "' after its deadline and was told that it still held it";
      // Its own client may have said so, which does not know what excuses another one.
      nanoseconds const from = std::min(o.invoked, hold_.acquire->excused);
      hold_.ended = {std::max(hold_.granted.from, from), std::min(hold_.ended.to, o.completed)};
      hold_.end = &o;
    } else if (o.how == outcome::not_held) {
      had_ended_by(o);
    } else {
      hold_.ended.from = std::min(hold_.ended.from, o.invoked);
      if (hold_.end == nullptr) hold_.end = &o;
    }
  }

  void had_ended_by(operation const& o) {
    if (o.completed >= hold_.ended.to) return;
    hold_.ended.to = o.completed;
    hold_.end = &o;
  }

  hold_record& hold_;
  std::string& wrong_;
  nanoseconds may_end_ = 0;
};

}  // namespace

std::vector<hold_record> holds_in(operations const& of_one_lock, std::string& wrong) {
  std::vector<hold_record> all;
  std::map<std::uint64_t, std::size_t> of_number;
  for (operation const& o : of_one_lock) {
    if (!grants(o)) continue;
    of_number.emplace(o.hold, all.size());
    all.push_back({&o, {}, {}, o.deadline, {}, nullptr});
  }
  for (operation const& o : of_one_lock) {
    auto const found = of_number.find(o.hold);
    if (found != of_number.end()) all[found->second].deadline = std::max(all[found->second].deadline, o.deadline);
  }
  std::vector<hold_reader> readers;
  readers.reserve(all.size());
  for (hold_record& h : all) readers.emplace_back(h, wrong);
  // What was seen of a hold comes before its release, which says more about its end.
  for (bool const releases : {false, true}) {
    for (operation const& o : of_one_lock) {
      auto const found = of_number.find(o.hold);
      if (found != of_number.end() && !grants(o) && (o.what == action::release) == releases)
        readers[found->second].read(o);
    }
  }
  return all;
}

}  // namespace conch::history
